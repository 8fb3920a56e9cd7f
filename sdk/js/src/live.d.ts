import type { KubernetesObject, ObjectKind, ObjectRef, Page } from './types.js';

/** What is read of an object. */
export interface View {
  /** Read only the values at these JSON pointers (RFC 6901), in their places, beside what identifies the object. */
  fields?: string[] | undefined;
  /** Read only its `apiVersion`, `kind` and `metadata`. The server sends no more. */
  metadataOnly?: boolean | undefined;
}

/** How to read one object. */
export interface ReadOptions extends View {
  /** A part of it with a path of its own, such as `scale` or `status`, which needs a permission of its own. */
  subresource?: string | undefined;
}

/** Which part of a log to read. */
export interface LogOptions {
  /** Left out: the only container. */
  container?: string | undefined;
  /** The log of the container before this one, which has ended. */
  previous?: boolean | undefined;
  /** Only so many of the last lines. */
  tailLines?: number | undefined;
  /** Only what is no older, in milliseconds, rounded up to whole seconds. */
  sinceMs?: number | undefined;
  /** How many bytes are read. Left out: as many as the host returns at once. */
  limitBytes?: number | undefined;
}

/** How the API server serves a kind. */
export interface ServedKind {
  /** The plural by which paths and permissions name it, such as `deployments`. */
  resource: string;
  /** Its objects are in namespaces. */
  namespaced: boolean;
  /** Such as `get` and `watch`. */
  verbs: string[];
  /** Such as `status` and `scale`. */
  subresources: string[];
}

/** What to list. All conditions must hold. */
export interface Query extends ObjectKind, View {
  /** Left out: all namespaces. */
  namespace?: string | undefined;
  /** In Kubernetes' syntax, such as `app=web,tier in (front,back)`. */
  labelSelector?: string | undefined;
  /** In Kubernetes' syntax, such as `spec.nodeName=n1`, as far as the API supports it for the kind. */
  fieldSelector?: string | undefined;
  /** How many objects a page may hold. Default: 500. */
  limit?: number;
  /** Where to begin: the `nextToken` of a page that was read before with the same conditions. */
  pageToken?: string | undefined;
}

/**
 * Reads one object from the API server itself, which costs a request. Undefined: it does not exist. Without a namespace it
 * is meant beside the primary.
 */
export function get<T = KubernetesObject>(target: ObjectRef, options?: ReadOptions): T | undefined;

/** Lists objects: those of all pages, each of which costs a request. */
export function list<T = KubernetesObject>(query: Query): T[];

/** Reads one page of a list. */
export function page<T = KubernetesObject>(query: Query): Page<T>;

/** Lists objects, a page at a time as the loop goes on. */
export function iterate<T = KubernetesObject>(query: Query): Generator<T, void, undefined>;

/**
 * Reads the log of a Pod's container, from the first line that is meant. What is not UTF-8 is U+FFFD. It needs a permission
 * to `get` `pods/log`.
 */
export function log(pod: ObjectRef, options?: LogOptions): string;

/**
 * Says how the API server serves a kind, for plugins that adapt to the cluster. Undefined: it does not. It needs no
 * permission, and counts as a read.
 */
export function served(kind: ObjectKind): ServedKind | undefined;
