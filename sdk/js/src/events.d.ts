import type { ObjectRef } from './types.js';

/** The objects that an event is about. */
export interface About {
  /** Left out: the primary. */
  regarding?: ObjectRef | undefined;
  /** A second, related object. */
  related?: ObjectRef | undefined;
}

/** An event, as in `events.k8s.io/v1`. */
export interface EventInput extends About {
  /** Whether someone should look at it. Default: `normal`. */
  eventType?: 'normal' | 'warning';
  /** The reason, in CamelCase, for machines. */
  reason: string;
  /** The action, in CamelCase, for machines. */
  action: string;
  /** The text for people. */
  note: string;
}

/** Reports an action. */
export function normal(reason: string, action: string, note: string, about?: About): void;

/** Reports a problem that someone should look at. */
export function warning(reason: string, action: string, note: string, about?: About): void;

/** Sends an event later; it may be merged with other events or dropped, and never makes the call fail. */
export function emit(event: EventInput): void;
