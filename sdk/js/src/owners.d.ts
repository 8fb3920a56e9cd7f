import type { ObjectKind, ObjectRef } from './types.js';

/** What a claim has changed. */
export interface Claimed {
  /** Those that the primary controls from now on. */
  adopted: ObjectRef[];
  /** Those that it controls no longer. */
  released: ObjectRef[];
}

/**
 * Makes the primary the controller of all matching objects of its namespace that have none, and gives up those that it
 * controls and that no longer match. Objects of other controllers are left alone. Afterwards `cache.list` with `owned`
 * returns the objects.
 *
 * @throws {AggregateError} of every `ApiError`, after all was attempted.
 */
export function claim(kind: ObjectKind, labelSelector: string): Claimed;
