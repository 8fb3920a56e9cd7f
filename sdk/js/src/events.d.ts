import type { ObjectRef } from './types.js';

/** What an event is about. */
export interface About {
  /** Left out: the primary. */
  regarding?: ObjectRef | undefined;
  /** Another object that has to do with it. */
  related?: ObjectRef | undefined;
}

/** An event, as in `events.k8s.io/v1`. */
export interface EventInput extends About {
  /** Whether someone should look at it. Default: `normal`. */
  eventType?: 'normal' | 'warning';
  /** Why, in CamelCase, for machines. */
  reason: string;
  /** What was done, in CamelCase, for machines. */
  action: string;
  /** The text for people. */
  note: string;
}

/** Reports what was done. */
export function normal(reason: string, action: string, note: string, about?: About): void;

/** Reports what someone should look at. */
export function warning(reason: string, action: string, note: string, about?: About): void;

/** Sends an event later; it may be merged with others or dropped, and never fails the call. */
export function emit(event: EventInput): void;
