import type { KubernetesObject, ObjectKind, ObjectRef, Page } from './types.js';

/** What to list. All conditions must hold. */
export interface Query extends ObjectKind {
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
export function get<T = KubernetesObject>(target: ObjectRef): T | undefined;

/** Lists objects: those of all pages, each of which costs a request. */
export function list<T = KubernetesObject>(query: Query): T[];

/** Reads one page of a list. */
export function page<T = KubernetesObject>(query: Query): Page<T>;

/** Lists objects, a page at a time as the loop goes on. */
export function iterate<T = KubernetesObject>(query: Query): Generator<T, void, undefined>;
