import type { ObjectRef } from './types.js';

/** One thing that has queued the key. */
export interface Trigger {
  /**
   * What happened, in CamelCase; later hosts may tell others.
   *
   * - `Changed`: `object` is new or has changed, `Deleted`: it has gone;
   * - `Start`: the controller has begun, or the first list of a watch has come;
   * - `Resync`: its time has come round;
   * - `RequeueAfter`: the call before has asked for it; `Retry`: it has failed;
   * - `Swap`: this is another build of the plugin; `Configuration`: its configuration or its grants have changed.
   */
  reason: string;
  /** The name of the watch, if the manifest gives it one. */
  watch?: string | undefined;
  /** The object, as far as it was one. */
  object?: ObjectRef | undefined;
}

/**
 * Why the call is made now: what has queued the key since the call before, the oldest first, and at most eight.
 *
 * It is for a line of the log and for people. A key is queued once, however much happens, so this is not all that has
 * happened: what a plugin does must not depend on it. Only reconcilers have it.
 */
export function list(): Trigger[];
