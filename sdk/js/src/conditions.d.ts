import type { Instant } from './clock.js';

/** One aspect of an object's state, in Kubernetes' form. A list of conditions contains each type once. */
export interface Condition {
  /** The aspect, such as `Ready`. */
  type: string;
  /** Whether the condition holds. */
  status: 'True' | 'False' | 'Unknown';
  /** The reason in CamelCase, for machines. */
  reason: string;
  /** The reason as text, for people. */
  message: string;
  /** The generation of the object that the condition is about. */
  observedGeneration?: number | bigint;
  /** The time at which `status` got its value. */
  lastTransitionTime: string;
}

/** A condition to set. */
export interface NewCondition {
  type: string;
  /** `true` stands for `True`, and `false` for `False`. */
  status: boolean | Condition['status'];
  reason: string;
  message?: string;
  observedGeneration?: number | bigint | undefined;
}

/**
 * Returns a list with conditions set. Each replaces the condition of its type, or is appended. `lastTransitionTime`
 * becomes the current time if the status changed, and otherwise stays, so setting the same condition again changes
 * nothing, and does not read the time: a call that reads it cannot be saved. The given list is not modified.
 */
export function set(
  conditions: readonly Condition[] | undefined,
  entered: NewCondition | readonly NewCondition[],
  options?: {
    /** The generation of the object that the conditions are about. */
    generation?: number | bigint | undefined;
    /** The time, or a function for it that is called only if a status changed. Default: `clock.now`. */
    at?: Instant | (() => Instant);
  },
): Condition[];

/** Returns the condition of a type. */
export function find(conditions: readonly Condition[] | undefined, type: string): Condition | undefined;

/** Whether a condition exists and is true. */
export function isTrue(conditions: readonly Condition[] | undefined, type: string): boolean;

/** Returns a list without the condition of a type. The other conditions keep their order. */
export function remove(conditions: readonly Condition[] | undefined, type: string): Condition[];
