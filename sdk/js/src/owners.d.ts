import type { ObjectKind, ObjectRef } from './types.js';

/** The changes of a claim. */
export interface Claimed {
  /** The objects that the primary controls from now on. */
  adopted: ObjectRef[];
  /** The objects that it no longer controls. */
  released: ObjectRef[];
}

/**
 * Makes the primary the controller of all matching objects of its namespace that have no controller, and releases
 * objects that it controls and that no longer match. It does not touch objects of other controllers. Afterwards
 * `cache.list` with `owned` returns the objects.
 *
 * @throws {AggregateError} of every `ApiError`, after all changes were attempted.
 */
export function claim(kind: ObjectKind, labelSelector: string): Claimed;
