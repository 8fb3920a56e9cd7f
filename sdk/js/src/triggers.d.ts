import type { ObjectRef } from './types.js';

/** One event that has queued the key. */
export interface Trigger {
  /**
   * The kind of event, in CamelCase; later hosts may have other ones.
   *
   * - `Changed`: `object` is new or has changed. `Deleted`: it was deleted.
   * - `Start`: the controller has started, or the first list of a watch has arrived.
   * - `Resync`: the resync interval has passed.
   * - `RequeueAfter`: the previous call has asked for it. `Retry`: the previous call has failed.
   * - `Swap`: a new build has replaced the plugin. `Configuration`: its configuration or its grants have changed.
   */
  reason: string;
  /** The name of the watch, if the manifest gives it one. */
  watch?: string | undefined;
  /** The object, if the event was about one. */
  object?: ObjectRef | undefined;
}

/**
 * Returns why the call is made now: the events that have queued the key since its previous call, oldest first, and at
 * most eight.
 *
 * The list is for the log and for people. A key is queued only once, even if many events occur, so the list may be
 * incomplete: a plugin's actions must not depend on it. Only reconcilers can call this.
 */
export function list(): Trigger[];
