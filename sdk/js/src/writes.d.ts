import type { ApiError } from './errors.js';
import type { KubernetesObject, ObjectMeta, ObjectRef, Settled, Writable } from './types.js';

/** How to write. */
export interface WriteOptions {
  /**
   * Write to a subresource, such as `status`. With `parent` where the body is of another kind than the object, as for
   * `scale`, `eviction`, `binding` and `token`.
   */
  subresource?: string | { name: string; parent?: ObjectRef | undefined } | undefined;
  /** The optimistic lock: fail with `conflict` unless the object still has this version. */
  resourceVersion?: string | undefined;
  /** Make the primary the controller of the object. Not for a subresource. */
  owned?: boolean;
  /** Apply only: take over fields that other managers own. */
  force?: boolean;
  /** The server checks the change and answers as if it were made. */
  dryRun?: boolean;
  /** What the server does with unknown and duplicate fields. Default: `strict`, which refuses them. */
  fieldValidation?: 'strict' | 'warn' | 'ignore';
}

/** How to delete. */
export interface DeleteOptions {
  /** The optimistic lock: fail with `conflict` unless the object still has this version. */
  resourceVersion?: string | undefined;
  /** What happens to the objects that it owns. Default: `background`. */
  propagation?: 'background' | 'foreground' | 'orphan';
  /** How long it may take to end, in milliseconds, rounded up to whole seconds. */
  gracePeriodMs?: number | undefined;
  /** The server checks the deletion and answers as if it were made. */
  dryRun?: boolean;
}

/** How a patch is written: JSON merge patch, JSON patch, or (built-in kinds only) strategic merge patch. */
export type PatchType = 'merge' | 'json' | 'strategic';

/** What a write came back with: `const { object } = writes.apply(…)`. */
export interface Written<T = KubernetesObject> {
  /** The object as the server keeps it now. Use it instead of reading the object again. */
  readonly object: T;
}

/** Creates an object and returns it. `metadata.generateName` is allowed. */
export function create<T = KubernetesObject>(object: Writable, options?: WriteOptions): Written<T>;

/** Replaces an object and returns it. */
export function update<T = KubernetesObject>(object: Writable, options?: WriteOptions): Written<T>;

/**
 * Applies a set of fields, server-side and as the plugin's field manager, and returns the object. The fields name it:
 * `apiVersion`, `kind`, `metadata.name`, `metadata.namespace`.
 *
 * A conflict means that the object has changed since it was read: let the error go, and the host runs the key again on a
 * newer cache.
 */
export function apply<T = KubernetesObject>(object: Writable, options?: WriteOptions): Written<T>;

/** Patches an object and returns it. */
export function patch<T = KubernetesObject>(target: ObjectRef, patchType: PatchType, patch: object, options?: WriteOptions): Written<T>;

declare function remove<T = KubernetesObject>(target: ObjectRef, options?: DeleteOptions): Written<T> | undefined;
export {
  /** Deletes an object. Returns it if it still exists, waiting for finalizers or its grace period. */
  remove as delete,
};

/** Applies the status of an object, by force: it has no other writer. */
export function applyStatus<T = KubernetesObject>(
  target: ObjectRef | { apiVersion: string; kind: string; metadata: ObjectMeta },
  status: object,
  options?: WriteOptions,
): Written<T>;

/** Sets the number of replicas of an object that has a `scale` subresource, whatever kind it is of. */
export function scale<T = KubernetesObject>(target: ObjectRef, replicas: number, options?: WriteOptions): Written<T>;

/**
 * Evicts a Pod: deletes it unless a disruption budget forbids it now, which is an error with reason `too-many-requests`.
 * What is returned is the server's word that it was done, not the Pod.
 */
export function evict(pod: ObjectRef, options?: WriteOptions): Written;

/** One operation of a batch. */
export type Operation =
  | { op: 'create' | 'update' | 'apply'; object: Writable; options?: WriteOptions }
  | { op: 'patch'; target: ObjectRef; patchType: PatchType; patch: object; options?: WriteOptions }
  | { op: 'delete'; target: ObjectRef; options?: DeleteOptions };

/**
 * Runs operations concurrently, in no order, and returns what came of each in the order of the argument. The host starts
 * slowly and speeds up while they succeed.
 *
 * ```js
 * const results = writes.batch(pods.map((pod) => ({ op: 'create', object: pod, options: { owned: true } })));
 * throwAll(results.flatMap(({ error }) => error ?? []));
 * ```
 */
export function batch<T = KubernetesObject>(operations: readonly Operation[]): Array<Settled<T | undefined, ApiError>>;
