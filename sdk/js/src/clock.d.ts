/** A point in time, counted from 1970-01-01T00:00:00Z. */
export interface Instant {
  /** Whole seconds. */
  seconds: number;
  /** Nanoseconds of the second that has begun. */
  nanoseconds: number;
}

/** The host's time, which never goes back within a call. `new Date()`, `Date.now()` and `performance.now()` are the same time. */
export function now(): Instant;

/** A time (by default: now) as Kubernetes writes it: `2026-11-21T10:48:45Z`. */
export function timestamp(instant?: Instant): string;
