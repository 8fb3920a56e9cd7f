import type { EventInput } from './events.js';
import type { Manifest } from './manifest.js';
import type { KubernetesObject, ObjectRef, Writable } from './types.js';

/** Which object a call is about. */
export interface Request<T = KubernetesObject> {
  /** The controller's name in the manifest. */
  readonly controller: string;
  /** Left out for a cluster-scoped primary. */
  readonly namespace?: string;
  /** The primary's name. */
  readonly name: string;
  /** The last known UID, also of a primary that has gone. Left out: the host has never seen it. */
  readonly uid?: string;
  /**
   * The primary as cached when the call began. Undefined: it is not in the watch's scope, usually because it is gone.
   * Nothing checks that it is of type `T`: that is the CRD's schema's part.
   */
  readonly object: T | undefined;
  /** The primary is being deleted and waits for its finalizers. */
  readonly deleting: boolean;
  /** How many retries of this key were counted since its last success, 0 at first. */
  readonly attempt: number;
  /** The trace that logs, spans and API requests of this call belong to. */
  readonly traceId: string;
}

/** How a reconcile ended that has not failed. */
export interface Outcome {
  /** Run again after so many milliseconds, which is not a failure. Left out: nothing is left to do until something changes. */
  requeueAfterMs?: number;
}

/** The outcome that asks for another call after a time, in milliseconds; at most 24 days, longer times are cut. */
export function requeueAfter(milliseconds: number): Outcome;

/** A change of an object of a watch. */
export interface Change<T = KubernetesObject> {
  /** The state before. Null: the object is new, or part of the watch's first list. */
  readonly old: T | null;
  /** The state now. Null: the object has gone, and `old` is its last known state. */
  readonly new: T | null;
}

/** Primaries that a change concerns. */
export type Target =
  /** The one with this key. It need not exist. Without a namespace it is cluster-scoped. */
  | { namespace?: string | undefined; name: string; index?: never; value?: never }
  /**
   * All with this value in an index that the manifest declares for the primary, in whichever namespace. The value of an index of
   * selectors is labels, as in `app=web,tier=front`: it finds the selectors that they match.
   */
  | { index: string; value: string; namespace?: never; name?: never };

/** What a reconciler is made of. */
export interface ReconcilerDefinition<T> {
  /** What the plugin watches and what it may do. */
  manifest: Manifest;
  /**
   * Brings the world to the state that the object asks for. It is called again whenever something changes, so it must do
   * nothing when there is nothing to do. Nothing is kept between calls.
   *
   * What it throws tells the host how to go on: an {@link ApiError} by its class, also as the `cause` of another error;
   * a {@link Terminal} not until something changes; a {@link Transient} after a backoff, but not before its
   * `retryAfterMs`; an `AggregateError` each of its errors; anything else after a backoff, with its stack in the log.
   *
   * It must not be `async`: nothing waits for a promise.
   */
  reconcile(request: Request<T>): Outcome | void;
  /**
   * Says which primaries a change concerns, of the watches that the manifest maps by `mapper`: by `watch`, their name. An empty
   * list: none. It may use `log`, `clock`, `random` and `config`, and read `cache`. Each change is mapped only once, so map the
   * objects that it reads, too.
   *
   * If it throws, the text is logged, and every primary runs at low priority. It must not be `async`.
   */
  map?(watch: string, change: Change): Target[];
}

/** The exports `reconciler` and `mapper` of a component. */
export interface ReconcilerPlugin {
  /** The manifest as JSON. */
  describe(): string;
  /** For the host. In a test, use `TestHost`. */
  reconcile(request: never): unknown;
  /** For the host. In a test, use `TestHost`. */
  map(batch: never): unknown;
}

/**
 * Makes a plugin that brings the world to the state that an object asks for, with any calls it needs. The module exports
 * it under this name:
 *
 * ```js
 * export const reconciler = defineReconciler({ manifest, reconcile });
 * ```
 */
export function defineReconciler<T = KubernetesObject>(definition: ReconcilerDefinition<T>): ReconcilerPlugin;

/** All that a composition may depend on. */
export interface CompositionRequest<T = KubernetesObject, Config = Record<string, unknown>> extends Omit<Request<T>, 'object'> {
  /** The primary, as cached when the call began. */
  readonly parent: T;
  /** The objects of the owned kinds whose controller is the parent. */
  readonly children: KubernetesObject[];
  /** The objects of the other watches that map to the parent. */
  readonly related: KubernetesObject[];
  /** The operator's configuration. */
  readonly config: Config;
  /** The child with this reference, if it is there. */
  child<C = KubernetesObject>(target: ObjectRef): C | undefined;
  /** The related object with this reference, if it is there. */
  relatedObject<C = KubernetesObject>(target: ObjectRef): C | undefined;
}

/** What should be. */
export interface Composition {
  /**
   * Every child that should exist, each as a set of fields to apply: of an owned kind, with a name, and where the parent
   * can own it. A child that is left out is pruned.
   */
  children: Writable[];
  /** The parent's new status. Left out: it stays as it is. */
  status?: object | undefined;
  /** Events to send. They are sent each time that they are answered, so answer only what is new. */
  events?: EventInput[];
  /** Compose again after so many milliseconds, also if nothing changes. */
  requeueAfterMs?: number | undefined;
  /** Says that no children at all is meant, so that existing ones may be pruned. */
  allowEmpty?: boolean;
  /** Says of a parent that is being deleted that it may go. Only with the option `finalizer`. */
  finalized?: boolean;
}

/** Objects of one watch that are related to a parent: those that meet all of it. */
export interface RelatedRule {
  /** The name of the watch in the manifest, which maps it by `customize`. */
  watch: string;
  /** Where they are. Left out: in the parent's namespace or in none; for a cluster-scoped parent: anywhere. */
  namespace?: string | undefined;
  /** Their names. Left out or empty: any. */
  names?: string[] | undefined;
  /** Only those with these labels, in Kubernetes' syntax, such as `app=web,tier in (front,back)`. */
  labelSelector?: string | undefined;
}

/** What a composer is made of. */
export interface ComposerDefinition<T, Config> {
  /** What the plugin watches and what it may do. */
  manifest: Manifest;
  /**
   * Computes the children. It must depend on nothing but its argument, and may use `log`, `clock`, `random` and `config`
   * alone: a component that imports more is no composer. What it throws leaves everything as it is, and counts as a
   * reconciler's. It must not be `async`.
   */
  compose(request: CompositionRequest<T, Config>): Composition;
  /**
   * Says which objects `compose` is to find as related to the parent, of the watches that the manifest maps by `customize`. The host
   * asks it before each `compose`, and composes again when one of them changes, appears or goes. What holds for `compose` holds for it.
   */
  customize?(request: Request<T> & { readonly object: T }): RelatedRule[];
}

/** The exports `composer` and `customize` of a component. */
export interface ComposerPlugin {
  /** The manifest as JSON. */
  describe(): string;
  /** For the host. In a test, use `TestHost`. */
  compose(request: never): unknown;
  /** For the host. In a test, use `TestHost`. */
  customize(request: never): unknown;
}

/**
 * Makes a plugin that computes the desired children of an object: a pure function. The host applies the children, makes
 * the parent their owner, prunes those that are gone from the answer, and writes the status.
 *
 * ```js
 * export const composer = defineComposer({ manifest, compose });
 * ```
 */
export function defineComposer<T = KubernetesObject, Config = Record<string, unknown>>(
  definition: ComposerDefinition<T, Config>,
): ComposerPlugin;
