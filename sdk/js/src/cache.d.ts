import type { ApiError } from './errors.js';
import type { KubernetesObject, ObjectKind, ObjectRef, Page, Settled } from './types.js';

/** Options of a read. */
export interface ReadOptions {
  /** Read only the object's identity and the values at these JSON pointers (RFC 6901), which keep their places. */
  fields?: string[];
}

/** Selects the objects to list. All conditions must hold. */
export interface Query extends ObjectKind, ReadOptions {
  /** Left out: all namespaces of the watch. */
  namespace?: string | undefined;
  /** In Kubernetes' syntax, such as `app=web,tier in (front,back)`. */
  labelSelector?: string | undefined;
  /** Only objects whose declared index contains a value. */
  index?: { name: string; value: string } | undefined;
  /** Only objects whose controller is the primary. */
  owned?: boolean;
  /** The most objects of a page. Default: 500. */
  limit?: number;
  /** The `nextToken` of an earlier page for the same conditions. Left out: start at the beginning. */
  pageToken?: string | undefined;
  /** The most bytes of a page. */
  maxBytes?: number | undefined;
}

/**
 * Reads one object from the caches of the declared watches. This sends no request, and includes the writes of this call. Undefined: the
 * object is not in the cache.
 *
 * @throws {ApiError} `not-watched` if no declared watch covers it.
 */
export function get<T = KubernetesObject>(target: ObjectRef, options?: ReadOptions): T | undefined;

/** Reads several objects, in the order of the argument. */
export function getMany<T = KubernetesObject>(
  targets: readonly ObjectRef[],
  options?: ReadOptions,
): Array<Settled<T | undefined, ApiError>>;

/** Lists objects from all pages. */
export function list<T = KubernetesObject>(query: Query): T[];

/** Reads one page of a list. */
export function page<T = KubernetesObject>(query: Query): Page<T>;

/** Lists objects, one page at a time as the loop continues. For lists that are too large to hold at once. */
export function iterate<T = KubernetesObject>(query: Query): Generator<T, void, undefined>;
