import type { ApiError } from './errors.js';
import type { KubernetesObject, ObjectKind, ObjectRef, Page, Settled } from './types.js';

/** How to read. */
export interface ReadOptions {
  /** Read only the values at these JSON pointers (RFC 6901), in their places, beside what identifies the object. */
  fields?: string[];
}

/** What to list. All conditions must hold. */
export interface Query extends ObjectKind, ReadOptions {
  /** Left out: all namespaces of the watch. */
  namespace?: string | undefined;
  /** In Kubernetes' syntax, such as `app=web,tier in (front,back)`. */
  labelSelector?: string | undefined;
  /** Only objects whose declared index holds a value. */
  index?: { name: string; value: string } | undefined;
  /** Only objects whose controller is the primary. */
  owned?: boolean;
  /** How many objects a page may hold. Default: 500. */
  limit?: number;
  /** Where to begin: the `nextToken` of a page that was read before with the same conditions. */
  pageToken?: string | undefined;
  /** How many bytes a page may hold. */
  maxBytes?: number | undefined;
}

/**
 * Reads one object from the caches of the declared watches, which costs no request and shows what this call has already
 * written. Undefined: it is not there.
 *
 * @throws {ApiError} `not-watched` if no declared watch covers it.
 */
export function get<T = KubernetesObject>(target: ObjectRef, options?: ReadOptions): T | undefined;

/** Reads several objects, in the order of the argument. */
export function getMany<T = KubernetesObject>(
  targets: readonly ObjectRef[],
  options?: ReadOptions,
): Array<Settled<T | undefined, ApiError>>;

/** Lists objects: those of all pages. */
export function list<T = KubernetesObject>(query: Query): T[];

/** Reads one page of a list. */
export function page<T = KubernetesObject>(query: Query): Page<T>;

/** Lists objects, a page at a time as the loop goes on. For lists that are too large to hold at once. */
export function iterate<T = KubernetesObject>(query: Query): Generator<T, void, undefined>;
