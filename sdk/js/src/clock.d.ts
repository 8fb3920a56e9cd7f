/** A point in time, counted from 1970-01-01T00:00:00Z. */
export interface Instant {
  /** Whole seconds. */
  seconds: number;
  /** Nanoseconds within the second. */
  nanoseconds: number;
}

/** The host's time, which never goes back within a call. `new Date()`, `Date.now()` and `performance.now()` show the same time. */
export function now(): Instant;

/** A time (default: now) in Kubernetes' form: `2026-11-21T10:48:45Z`. */
export function timestamp(instant?: Instant): string;
