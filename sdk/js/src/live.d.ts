import type { KubernetesObject, ObjectKind, ObjectRef, Page } from './types.js';

/** The part of an object to read. */
export interface View {
  /** Read only the object's identity and the values at these JSON pointers (RFC 6901), which keep their places. */
  fields?: string[] | undefined;
  /** Read only its `apiVersion`, `kind` and `metadata`. The server sends no more. */
  metadataOnly?: boolean | undefined;
}

/** Options for reading one object. */
export interface ReadOptions extends View {
  /** A subresource, such as `scale` or `status`, which needs its own right. */
  subresource?: string | undefined;
}

/** Selects the part of a log to read. */
export interface LogOptions {
  /** Left out: the only container. */
  container?: string | undefined;
  /** Reads the log of the container's previous, terminated run. */
  previous?: boolean | undefined;
  /** Reads only this many of the last lines. */
  tailLines?: number | undefined;
  /** The maximum age of a line in milliseconds, rounded up to whole seconds. */
  sinceMs?: number | undefined;
  /** The number of bytes to read. Left out: as many as the host returns at once. */
  limitBytes?: number | undefined;
}

/** How the API server serves a kind. */
export interface ServedKind {
  /** The plural name of the kind in paths and rules, such as `deployments`. */
  resource: string;
  /** Whether its objects are namespaced. */
  namespaced: boolean;
  /** The verbs, such as `get` and `watch`. */
  verbs: string[];
  /** The subresources, such as `status` and `scale`. */
  subresources: string[];
}

/** A kind that the API server serves, at the version that the server prefers. */
export interface ListedKind extends ObjectKind, ServedKind {}

/** Selects the objects to list. All conditions must hold. */
export interface Query extends ObjectKind, View {
  /** Left out: all namespaces. */
  namespace?: string | undefined;
  /** In Kubernetes' syntax, such as `app=web,tier in (front,back)`. */
  labelSelector?: string | undefined;
  /** In Kubernetes' syntax, such as `spec.nodeName=n1`, as far as the API supports it for the kind. */
  fieldSelector?: string | undefined;
  /** The most objects of a page. Default: 500. */
  limit?: number;
  /** The `nextToken` of an earlier page for the same conditions. Left out: start at the beginning. */
  pageToken?: string | undefined;
}

/**
 * Reads one object from the API server itself, which sends a request. Undefined: the object does not exist. Without a
 * namespace, it reads in the primary's namespace.
 */
export function get<T = KubernetesObject>(target: ObjectRef, options?: ReadOptions): T | undefined;

/** Lists objects from all pages. Each page sends a request. */
export function list<T = KubernetesObject>(query: Query): T[];

/** Reads one page of a list. */
export function page<T = KubernetesObject>(query: Query): Page<T>;

/** Lists objects, one page at a time as the loop continues. */
export function iterate<T = KubernetesObject>(query: Query): Generator<T, void, undefined>;

/** Reads the log of a Pod's container. Bytes that are not UTF-8 become U+FFFD. It needs the right to `get` `pods/log`. */
export function log(pod: ObjectRef, options?: LogOptions): string;

/**
 * Returns how the API server serves a kind, for plugins that adapt to the cluster. Undefined: the server does not serve
 * the kind. It needs no right, and counts as a read.
 */
export function served(kind: ObjectKind): ServedKind | undefined;

/**
 * Returns all kinds that the API server serves, each once, ordered by group and kind. It needs no right, and counts as a
 * read. A kind that was just installed may be missing for some seconds, and so are the kinds of an aggregated server
 * that does not answer.
 */
export function kinds(): ListedKind[];
