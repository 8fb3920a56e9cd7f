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
  /** The request took too long. */
  | 'timeout'
  /** The write was sent and its result is unknown. The host finds it out before the key runs again. */
  | 'unknown-outcome'
  /** This replica may no longer act for the plugin. The request was not sent. */
  | 'lease-lost'
  /** The host runs in read-only mode. The request was not sent. */
  | 'read-only'
  /** The server could not be reached or failed (5xx). */
  | 'server-error'
  /** The request or the response exceeds a limit. */
  | 'too-large'
  /** A reason that is newer than this SDK: see `statusReason`. */
  | 'other';

/** The properties of an {@link ApiError}. */
export interface ApiErrorInit {
  /** The HTTP status, or the closest one if the request never reached the server. */
  code: number;
  /** The class of the failure. */
  reason: ApiReason;
  /** The reason as in Kubernetes' `Status.reason`, such as `Conflict`. */
  statusReason: string;
  /** The message for people. */
  message: string;
  /** The milliseconds to wait before a retry, if the server has set them. */
  retryAfterMs?: number | undefined;
  /** The API verb, such as `get` or `patch`. */
  verb: string;
  /** Resource, group and subresource, such as `deployments.apps/scale`. */
  resource: string;
  /**
   * The object, if the request was about a single object. An error of `not-found` names it only if the object itself
   * does not exist, not if its kind, its namespace or a subresource is missing.
   */
  object?: ObjectRef | undefined;
}

/**
 * A failed request to the API server, or to the host's cache. Let it leave `reconcile` unchanged, or as the `cause` of
 * another error: the host decides by its reason how to retry. `String(error)` includes all details.
 */
export class ApiError extends Error {
  constructor(init: ApiErrorInit, options?: ErrorOptions);
  /** The HTTP status, or the closest one if the request never reached the server. */
  code: number;
  /** The class of the failure. */
  reason: ApiReason;
  /** The reason as in Kubernetes' `Status.reason`. If `reason` is `other`, this has the actual reason. */
  statusReason: string;
  /** The milliseconds to wait before a retry, if the server has set them. */
  retryAfterMs?: number | undefined;
  /** The API verb, such as `get` or `patch`. */
  verb: string;
  /** Resource, group and subresource, such as `deployments.apps/scale`. */
  resource: string;
  /**
   * The object, if the request was about a single object. An error of `not-found` names it only if the object itself
   * does not exist, not if its kind, its namespace or a subresource is missing.
   */
  object?: ObjectRef | undefined;
}

/** A failure that is not retried until something changes, such as an invalid spec. */
export class Terminal extends Error {}

/** Options of a {@link Transient}. */
export interface TransientOptions extends ErrorOptions {
  /**
   * The minimum delay of the retry in milliseconds, limited to ten minutes. The backoff may be longer. Left out: the
   * backoff alone sets the delay.
   */
  retryAfterMs?: number | undefined;
}

/**
 * A failure that is retried after a backoff, like any other error. But it is expected, so its stack is not logged.
 *
 * ```js
 * throw new Transient('a backup runs', { retryAfterMs: 30_000 });
 * ```
 */
export class Transient extends Error {
  constructor(message?: string, options?: TransientOptions);
  /** The minimum delay of the retry in milliseconds. */
  retryAfterMs?: number | undefined;
}

/** The reason why an HTTP request got no response or, as `status`, not the wanted response. */
export type HttpReason =
  | 'not-granted' | 'invalid-request' | 'dns' | 'connect' | 'tls' | 'timeout' | 'too-large' | 'protocol' | 'other' | 'status';

/**
 * An HTTP request that got no response. If `reconcile` throws it, the call is retried, unless the request was
 * malformed. A request that is not granted fails the call like an {@link ApiError} of `not-granted`: the key runs again
 * when the policy changes.
 */
export class HttpError extends Error {
  constructor(target: string, reason: HttpReason, detail: string, options?: ErrorOptions);
  /** The request's method and URL, without the query. */
  target: string;
  /** The class of the failure. */
  reason: HttpReason;
  /** The host's message. */
  detail: string;
}

/** Whether an error is, wraps or joins an {@link ApiError} of one of these classes; without classes: of any class. */
export function isApiError(error: unknown, ...reasons: ApiReason[]): boolean;

/**
 * Throws the errors that a call has collected: a single error, or an `AggregateError` of several. Without errors it
 * throws nothing. A call should attempt all its operations and report all failures.
 */
export function throwAll(errors: readonly unknown[]): void;
