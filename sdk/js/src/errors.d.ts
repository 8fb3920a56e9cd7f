import type { ObjectRef } from './types.js';

/** The class of a failed request, by which the host decides how to retry. */
export type ApiReason =
  /** The object, its kind or its namespace does not exist (404). */
  | 'not-found'
  /** The name of the object to create is taken (409). */
  | 'already-exists'
  /** The object has changed since it was read, or another field manager owns a field that was applied. */
  | 'conflict'
  /** The server's validation refused the object (422). */
  | 'invalid'
  /** The server's authorization or admission refused the request (403). */
  | 'forbidden'
  /** The plugin's grants do not cover the request. It was not sent. */
  | 'not-granted'
  /** No declared watch covers the read. */
  | 'not-watched'
  /** The namespace is being deleted, so that nothing can be created in it. */
  | 'namespace-terminating'
  /** The server's limit (429) or the plugin's own budget. */
  | 'too-many-requests'
  /** The page token or the version is too old (410). */
  | 'expired'
  /** The request took longer than its time. */
  | 'timeout'
  /** The write was sent and its result is not known. The host settles it before the key runs again. */
  | 'unknown-outcome'
  /** This replica may no longer act for the plugin. The request was not sent. */
  | 'lease-lost'
  /** The host runs in read-only mode. The request was not sent. */
  | 'read-only'
  /** The server could not be reached or failed (5xx). */
  | 'server-error'
  /** What was to be sent, or what came back, exceeds a limit. */
  | 'too-large'
  /** A reason without a case here: see `statusReason`. */
  | 'other';

/** What an {@link ApiError} is made of. */
export interface ApiErrorInit {
  /** The HTTP status, or the one that fits best if the request never reached the server. */
  code: number;
  /** The class of the failure. */
  reason: ApiReason;
  /** The reason in the form of Kubernetes' `Status.reason`, such as `Conflict`. */
  statusReason: string;
  /** The text for people. */
  message: string;
  /** How many milliseconds to wait before trying again, if the server said so. */
  retryAfterMs?: number | undefined;
  /** The API verb, such as `get` or `patch`. */
  verb: string;
  /** Resource, group and subresource, such as `deployments.apps/scale`. */
  resource: string;
  /**
   * The object, if the request was about a single one. An error of `not-found` names it only if this object is what does not
   * exist, and not its kind, its namespace or a subresource of it.
   */
  object?: ObjectRef | undefined;
}

/**
 * A failed request to the API, or to the host's cache of it. Let it go its way, also as the `cause` of another error: the
 * host knows from its reason how to retry. `String(error)` says all of it.
 */
export class ApiError extends Error {
  constructor(init: ApiErrorInit, options?: ErrorOptions);
  /** The HTTP status, or the one that fits best if the request never reached the server. */
  code: number;
  /** The class of the failure. */
  reason: ApiReason;
  /** The reason in the form of Kubernetes' `Status.reason`. Where `reason` is `other`, this tells which. */
  statusReason: string;
  /** How many milliseconds to wait before trying again, if the server said so. */
  retryAfterMs?: number | undefined;
  /** The API verb, such as `get` or `patch`. */
  verb: string;
  /** Resource, group and subresource, such as `deployments.apps/scale`. */
  resource: string;
  /**
   * The object, if the request was about a single one. An error of `not-found` names it only if this object is what does not
   * exist, and not its kind, its namespace or a subresource of it.
   */
  object?: ObjectRef | undefined;
}

/** Not worth another attempt until something changes, such as a spec that makes no sense. */
export class Terminal extends Error {}

/** What a {@link Transient} may have beside its message. */
export interface TransientOptions extends ErrorOptions {
  /**
   * How many milliseconds must pass before another attempt is worth it. The backoff may be longer, and at most ten minutes
   * count. Left out: the backoff alone decides.
   */
  retryAfterMs?: number | undefined;
}

/**
 * Worth another attempt after a backoff, as any error is, but expected: its stack is not logged.
 *
 * ```js
 * throw new Transient('a backup runs', { retryAfterMs: 30_000 });
 * ```
 */
export class Transient extends Error {
  constructor(message?: string, options?: TransientOptions);
  /** How many milliseconds must pass before another attempt is worth it. */
  retryAfterMs?: number | undefined;
}

/** Why an HTTP request brought nothing, or (`status`) not what was wanted. */
export type HttpReason =
  | 'not-granted' | 'invalid-request' | 'dns' | 'connect' | 'tls' | 'timeout' | 'too-large' | 'protocol' | 'other' | 'status';

/**
 * An HTTP request that brought nothing. Thrown on, it is worth another attempt, unless the request was malformed. One that is not
 * granted fails the call as an {@link ApiError} of `not-granted` does: the key runs again when the policy changes.
 */
export class HttpError extends Error {
  constructor(target: string, reason: HttpReason, detail: string, options?: ErrorOptions);
  /** Method and URL, without the query. */
  target: string;
  /** The class of the failure. */
  reason: HttpReason;
  /** What the host says of it. */
  detail: string;
}

/** Whether an error is, wraps or joins an {@link ApiError} of one of these classes; without classes: of any. */
export function isApiError(error: unknown, ...reasons: ApiReason[]): boolean;

/**
 * Throws what a call has collected: nothing if there is nothing, else the one error or an `AggregateError`. A call attempts
 * all its operations and reports all that failed.
 */
export function throwAll(errors: readonly unknown[]): void;
