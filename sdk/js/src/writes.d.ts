import type { ApiError } from './errors.js';
import type { KubernetesObject, ObjectKind, ObjectMeta, ObjectRef, Settled, Writable } from './types.js';

/** The options of a write. */
export interface WriteOptions {
  /**
   * Write to a subresource, such as `status`. Set `parent` if the body has another kind than the object, as for
   * `scale`, `eviction`, `binding` and `token`.
   */
  subresource?: string | { name: string; parent?: ObjectRef | undefined } | undefined;
  /** The optimistic lock: fail with `conflict` unless the object still has this version. */
  resourceVersion?: string | undefined;
  /** Make the primary the controller of the object. Not for a subresource. */
  owned?: boolean;
  /** Apply only: take over fields that other managers own. */
  force?: boolean;
  /** The server checks the change and responds as if it had made it, without making it. */
  dryRun?: boolean;
  /** How the server treats unknown and duplicate fields. Default: `strict`, which refuses them. */
  fieldValidation?: 'strict' | 'warn' | 'ignore';
  /**
   * Uses another field manager: the plugin's, followed by `/` and this suffix of at most 32 lower-case letters, digits and dashes. This way
   * two controllers can apply two parts of one object, and neither drops what the other has applied.
   */
  managerSuffix?: string | undefined;
  /**
   * Return only the object's identity and the values at these JSON pointers (RFC 6901), which keep their places. Empty:
   * only its identity. Left out: the whole object.
   */
  fields?: string[] | undefined;
}

/** Selects objects of a kind. All conditions must hold. */
export interface Collection extends ObjectKind {
  /** Left out: for a namespaced kind, the primary's namespace. */
  namespace?: string | undefined;
  /** In Kubernetes' syntax, such as `app=web,tier in (front,back)`. */
  labelSelector?: string | undefined;
  /** In Kubernetes' syntax, as far as the API supports it for the kind. */
  fieldSelector?: string | undefined;
  /** Selects all objects of the kind and namespace. Without it, a selector is required. */
  all?: boolean | undefined;
}

/** The options of a deletion. */
export interface DeleteOptions {
  /** The optimistic lock: fail with `conflict` unless the object still has this version. */
  resourceVersion?: string | undefined;
  /** How to treat the object's dependents. Default: `background`. */
  propagation?: 'background' | 'foreground' | 'orphan';
  /** The grace period in milliseconds, rounded up to whole seconds. */
  gracePeriodMs?: number | undefined;
  /** The server checks the deletion and responds as if it had made it, without making it. */
  dryRun?: boolean;
}

/** The form of a patch: JSON merge patch, JSON patch, or (built-in kinds only) strategic merge patch. */
export type PatchType = 'merge' | 'json' | 'strategic';

/** The result of a write: `const { object } = writes.apply(…)`. */
export interface Written<T = KubernetesObject> {
  /** The current object on the server, or only its `fields`. Use it instead of reading the object again. */
  readonly object: T;
}

/**
 * Creates an object and returns it. `metadata.generateName` is allowed. If the kind is not stored, such as a
 * `SubjectAccessReview`, the object needs no name, and the result is the server's response.
 */
export function create<T = KubernetesObject>(object: Writable, options?: WriteOptions): Written<T>;

/** Replaces an object and returns it. */
export function update<T = KubernetesObject>(object: Writable, options?: WriteOptions): Written<T>;

/**
 * Applies a set of fields, server-side and as the plugin's field manager, and returns the object. The fields must include `apiVersion`,
 * `kind`, `metadata.name` and, if namespaced, `metadata.namespace`.
 *
 * A conflict means that the object has changed since it was read: do not catch the error, and the host runs the key again with a newer
 * cache.
 */
export function apply<T = KubernetesObject>(object: Writable, options?: WriteOptions): Written<T>;

/** The effect of {@link ensure}, with the object as it is now. */
export interface Ensured<T = KubernetesObject> extends Written<T> {
  /**
   * `unchanged`: the cache shows the object with all desired fields, and nothing was sent. `created`: the object did
   * not exist. `patched`: the object lacked some of the desired fields.
   */
  readonly effect: 'unchanged' | 'created' | 'patched';
}

/**
 * Creates the object if it is not in the cache. Otherwise sends the smallest merge patch that gives the object the
 * desired fields, or nothing if it has them already. The kind must be watched.
 *
 * Prefer {@link apply}: it also removes fields that the plugin applied before and no longer wants, and it detects
 * another writer of the same field. `ensure` does neither. Its advantage is that a create costs the server less than an
 * apply. Its rules:
 *
 * - A field that the object leaves out stays as it is. Null removes a field.
 * - A list belongs to the plugin as a whole. It is as desired if it has as many elements, and each has the desired
 *   fields. When a list is written, an element keeps its other fields if the element at the same position has the same
 *   `name`.
 * - A patch that writes a list or removes a field fails with reason `conflict` if the object has changed since the
 *   cache showed it. Do not catch the error, and the host runs the key again on a newer cache.
 * - The desired owners and finalizers are added to the existing ones; null instead of a list removes all of them. To
 *   own the object, give it an `ownerReference` to the controller: if the object has another controller, `ensure` then
 *   fails with reason `already-exists`. Without such a reference the object is patched, whichever owner it has.
 * - `status` is not compared: write it with {@link applyStatus}. The fields of `metadata` that the server sets are not
 *   compared either. So a `resourceVersion` is no lock, and an object that has one cannot be created.
 * - Write values as the server stores them; any other value is sent again at each call. For example, the server stores
 *   a quantity of `0.5` as `500m`, and drops empty and zero values of built-in kinds such as `nodeSelector: {}`,
 *   `tolerations: []` and `paused: false`. Webhooks may add elements to lists.
 */
export function ensure<T = KubernetesObject>(object: Writable): Ensured<T>;

/** Patches an object and returns it. */
export function patch<T = KubernetesObject>(target: ObjectRef, patchType: PatchType, patch: object, options?: WriteOptions): Written<T>;

declare function remove<T = KubernetesObject>(target: ObjectRef, options?: DeleteOptions): Written<T> | undefined;
export {
  /** Deletes an object. Returns the object if it still exists, because it waits for finalizers or its grace period. */
  remove as delete,
};

/**
 * Deletes the objects of a collection with one request, and returns them: each is deleted, or waits for finalizers or
 * its grace period. Undefined: the server does not report the objects. After an error, some may be deleted.
 */
export function deleteCollection(collection: Collection, options?: Omit<DeleteOptions, 'resourceVersion'>): ObjectRef[] | undefined;

/** Applies the status of an object, with force, because no other client writes it. */
export function applyStatus<T = KubernetesObject>(
  target: ObjectRef | { apiVersion: string; kind: string; metadata: ObjectMeta },
  status: object,
  options?: WriteOptions,
): Written<T>;

/** Sets the number of replicas of an object of any kind that has a `scale` subresource. */
export function scale<T = KubernetesObject>(target: ObjectRef, replicas: number, options?: WriteOptions): Written<T>;

/**
 * Evicts a Pod: deletes it unless a disruption budget forbids it now, which is an error with reason `too-many-requests`. Evicting a deleted
 * Pod succeeds.
 */
export function evict(pod: ObjectRef, options?: WriteOptions): void;

/** One operation of a batch. */
export type Operation =
  | { op: 'create' | 'update' | 'apply'; object: Writable; options?: WriteOptions }
  | { op: 'patch'; target: ObjectRef; patchType: PatchType; patch: object; options?: WriteOptions }
  | { op: 'delete'; target: ObjectRef; options?: DeleteOptions };

/**
 * Runs operations concurrently, in no order, and returns their results in the order of the argument. The host starts
 * slowly, and speeds up while they succeed.
 *
 * ```js
 * const results = writes.batch(pods.map((pod) => ({ op: 'create', object: pod, options: { owned: true } })));
 * throwAll(results.flatMap(({ error }) => error ?? []));
 * ```
 */
export function batch<T = KubernetesObject>(operations: readonly Operation[]): Array<Settled<T | undefined, ApiError>>;
