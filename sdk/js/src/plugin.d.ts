import type { EventInput } from './events.js';
import type { Manifest } from './manifest.js';
import type { KubernetesObject, ObjectRef, Writable } from './types.js';

/** The object that a call is about. */
export interface Request<T = KubernetesObject> {
  /** The controller's name in the manifest. */
  readonly controller: string;
  /** Left out for a cluster-scoped primary. */
  readonly namespace?: string;
  /** The primary's name. */
  readonly name: string;
  /** The last known UID, even if the primary is deleted. Left out: the host has never seen the primary. */
  readonly uid?: string;
  /**
   * The primary as cached when the call began. Undefined: it is not in the watch's scope, usually because it was
   * deleted. If its watch has `callFields`, only these fields of it. Only the CRD's schema checks that it has the type
   * `T`.
   */
  readonly object: T | undefined;
  /** Whether the primary is being deleted and waits for its finalizers. */
  readonly deleting: boolean;
  /** The number of counted retries of this key since its last success, initially 0. */
  readonly attempt: number;
  /** The id of the trace that has this call's logs, spans and API requests. */
  readonly traceId: string;
}

/** The result of a reconcile without a failure. */
export interface Outcome {
  /**
   * Run again after this many milliseconds. This does not count as a failure. Left out: nothing is left to do until
   * something changes.
   */
  requeueAfterMs?: number;
  /**
   * `true`: run again after the key's backoff, which grows with each such outcome in a row. This does not count as a
   * failure either: no attempt is counted, and the host never gives the key up. Not together with `requeueAfterMs`.
   */
  requeueBackoff?: boolean;
}

/** The outcome that asks for another call after a time in milliseconds, which is limited to 24 days. */
export function requeueAfter(milliseconds: number): Outcome;

/**
 * The outcome that asks for another call after the key's backoff, which grows with each such outcome in a row. Use it to
 * wait for an unknown time, such as for another system.
 */
export function requeueWithBackoff(): Outcome;

/** A change of an object of a watch. */
export interface Change<T = KubernetesObject> {
  /** The state before the change. Null: the object is new, or part of the watch's first list. */
  readonly old: T | null;
  /** The state after the change. Null: the object was deleted, and `old` is its last known state. */
  readonly new: T | null;
}

/** Primaries that a change concerns. */
export type Target =
  /** The primary with this key, which need not exist. Without a namespace it is cluster-scoped. */
  | { namespace?: string | undefined; name: string; index?: never; value?: never }
  /**
   * All primaries with this value in an index that the manifest declares for the primary, in any namespace. The value
   * for an index of selectors is a set of labels, such as `app=web,tier=front`. It selects the primaries whose selector
   * matches these labels.
   */
  | { index: string; value: string; namespace?: never; name?: never };

/** The parts of a reconciler. */
export interface ReconcilerDefinition<T> {
  /** The watches and the rights of the plugin. */
  manifest: Manifest;
  /**
   * Brings the cluster to the state that the object specifies. The host calls it again whenever something changes, so
   * it must change nothing if everything is as desired. Nothing is kept between calls.
   *
   * If it throws, the host retries according to the error: an {@link ApiError} by its class, even as the `cause` of
   * another error; a {@link Terminal} when something changes; a {@link Transient} after a backoff, but not before its
   * `retryAfterMs`; each of the errors of an `AggregateError` by itself; any other error after a backoff, with its
   * stack in the log.
   *
   * It must not be `async`, because the host does not wait for a promise.
   */
  reconcile(request: Request<T>): Outcome | void;
  /**
   * Returns the primaries that a change concerns, possibly none. It is called for the watches that the manifest maps by
   * `mapper`; `watch` is the watch's name. The function may use `log`, `clock`, `random` and `config`, and read
   * `cache`. Changes of the objects that it reads must be mapped too, because each change is mapped only once.
   *
   * If it throws, the error is logged, and every primary runs at low priority. It must not be `async`.
   */
  map?(watch: string, change: Change): Target[];
  /**
   * Returns whether a change counts. It is called for the watches with `codePredicate`; `watch` is the watch's name. The
   * host asks about new objects, the objects of the first list and of a resync (`old` is null), and updates that pass
   * the watch's `predicates`. Deletions always count. A change that does not count is not mapped, and runs no primary.
   * The function may use what `map` may use.
   *
   * If it throws, the error is logged, and the change counts. It must not be `async`.
   */
  matches?(watch: string, change: Change): boolean;
}

/** The exports `reconciler` and `mapper` of a component. */
export interface ReconcilerPlugin {
  /** The manifest as JSON. */
  describe(): string;
  /** Only the host calls this. In a test, use `TestHost`. */
  reconcile(request: never): unknown;
  /** Only the host calls this. In a test, use `TestHost`. */
  map(batch: never): unknown;
  /** Only the host calls this. In a test, use `TestHost`. */
  matches(batch: never): unknown;
}

/**
 * Makes a plugin that brings the cluster to the state that an object specifies, with any calls it needs. The module
 * exports the plugin under this name:
 *
 * ```js
 * export const reconciler = defineReconciler({ manifest, reconcile });
 * ```
 */
export function defineReconciler<T = KubernetesObject>(definition: ReconcilerDefinition<T>): ReconcilerPlugin;

/** The input of a composition, which must not depend on anything else. */
export interface CompositionRequest<T = KubernetesObject, Config = Record<string, unknown>> extends Omit<Request<T>, 'object'> {
  /** The primary as cached when the call began. If its watch has `callFields`, only these fields of it. */
  readonly parent: T;
  /** The objects of the owned kinds whose controller is the parent. */
  readonly children: KubernetesObject[];
  /** The objects of the other watches that map to the parent. */
  readonly related: KubernetesObject[];
  /** The operator's configuration. */
  readonly config: Config;
  /** The child with this reference, if it exists. */
  child<C = KubernetesObject>(target: ObjectRef): C | undefined;
  /** The related object with this reference, if it exists. */
  relatedObject<C = KubernetesObject>(target: ObjectRef): C | undefined;
}

/** A composer's response. */
export interface Composition {
  /**
   * Every child that should exist, as a set of fields to apply. Each has an owned kind and a name, and is in a place
   * where the parent can own it. A child that is left out is pruned.
   */
  children: Writable[];
  /** The parent's new status. Left out: the status stays as it is. */
  status?: object | undefined;
  /** Events to send. They are sent each time they are returned, so only return events about something new. */
  events?: EventInput[];
  /** Compose again after this many milliseconds, even if nothing changes. */
  requeueAfterMs?: number | undefined;
  /**
   * `true`: compose again after the parent's backoff, which grows with each such response in a row. Not together with
   * `requeueAfterMs`.
   */
  requeueBackoff?: boolean;
  /** Declares that having no children is intended, so that existing children may be pruned. */
  allowEmpty?: boolean;
  /** Releases a parent that is being deleted. Only with the option `finalizer`. */
  finalized?: boolean;
}

/** Selects objects of one watch that are related to a parent: those that meet all conditions. */
export interface RelatedRule {
  /** The name of the watch in the manifest, which maps it by `customize`. */
  watch: string;
  /**
   * Their namespace. Left out: the parent's namespace, and cluster-scoped objects; for a cluster-scoped parent: any
   * namespace.
   */
  namespace?: string | undefined;
  /** Their names. Left out or empty: any. */
  names?: string[] | undefined;
  /** Only objects with these labels, in Kubernetes' syntax, such as `app=web,tier in (front,back)`. */
  labelSelector?: string | undefined;
}

/** The parts of a composer. */
export interface ComposerDefinition<T, Config> {
  /** The watches and the rights of the plugin. */
  manifest: Manifest;
  /**
   * Computes the children. It must depend only on its argument, and may only use `log`, `clock`, `random` and `config`:
   * the host refuses a composer that imports more. If it throws, nothing is changed, and the error is treated like a
   * reconciler's. It must not be `async`.
   */
  compose(request: CompositionRequest<T, Config>): Composition;
  /**
   * Returns rules that select the related objects of the parent, for the watches that the manifest maps by `customize`.
   * The host calls it before each `compose`. When a related object is created, changed or deleted, the parent is
   * composed again. The rules for `compose` apply here too.
   */
  customize?(request: Request<T> & { readonly object: T }): RelatedRule[];
}

/** The exports `composer` and `customize` of a component. */
export interface ComposerPlugin {
  /** The manifest as JSON. */
  describe(): string;
  /** Only the host calls this. In a test, use `TestHost`. */
  compose(request: never): unknown;
  /** Only the host calls this. In a test, use `TestHost`. */
  customize(request: never): unknown;
}

/**
 * Makes a plugin that computes the desired children of an object with a pure function. The host applies the children,
 * makes the parent their owner, prunes children that are no longer returned, and writes the status.
 *
 * ```js
 * export const composer = defineComposer({ manifest, compose });
 * ```
 */
export function defineComposer<T = KubernetesObject, Config = Record<string, unknown>>(
  definition: ComposerDefinition<T, Config>,
): ComposerPlugin;
