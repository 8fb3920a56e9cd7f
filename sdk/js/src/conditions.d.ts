import type { Instant } from './clock.js';

/** One aspect of an object's state, in Kubernetes' form. A list of them has each type once. */
export interface Condition {
  /** Which aspect, such as `Ready`. */
  type: string;
  /** Whether it holds. */
  status: 'True' | 'False' | 'Unknown';
  /** Why, in CamelCase, for machines. */
  reason: string;
  /** Why, for people. */
  message: string;
  /** The generation of the object that this is said about. */
  observedGeneration?: number | bigint;
  /** Since when `status` is what it is. */
  lastTransitionTime: string;
}

/** A condition to enter. */
export interface NewCondition {
  type: string;
  /** `true` and `false` are `True` and `False`. */
  status: boolean | Condition['status'];
  reason: string;
  message?: string;
  observedGeneration?: number | bigint | undefined;
}

/**
 * A list with conditions entered, each in place of the one of its type or behind the others. `lastTransitionTime` becomes
 * the time if the status is another, and stays otherwise, so that setting the same again changes nothing. The given list is
 * left as it is.
 */
export function set(
  conditions: readonly Condition[] | undefined,
  entered: NewCondition | readonly NewCondition[],
  options?: {
    /** The generation of the object that they are said about. */
    generation?: number | bigint | undefined;
    /** The time. Default: now. */
    at?: Instant;
  },
): Condition[];

/** The condition of a type. */
export function find(conditions: readonly Condition[] | undefined, type: string): Condition | undefined;

/** Whether a condition is there and holds. */
export function isTrue(conditions: readonly Condition[] | undefined, type: string): boolean;

/** A list without the condition of a type. The others keep their order. */
export function remove(conditions: readonly Condition[] | undefined, type: string): Condition[];
