import type { Fields } from './types.js';

/** What to send. */
export interface RequestInit {
  /** Default: `GET`. */
  method?: string;
  /** Names and values. Those that are about the connection are the host's. */
  headers?: Fields;
  /** A text or bytes. */
  body?: string | Uint8Array | null | undefined;
  /** A value to send as JSON, instead of `body`. */
  json?: unknown;
  /** For the whole exchange, in milliseconds. Left out: the host's limit. */
  timeoutMs?: number | undefined;
}

/** What came back, whole. */
export interface Response {
  /** Such as 200. */
  readonly status: number;
  /** Whether the status is one of 200 to 299. */
  readonly ok: boolean;
  /** Names, in lower case, and values. */
  readonly headers: ReadonlyArray<readonly [string, string]>;
  /** The first value of a header. Case does not matter. */
  header(name: string): string | undefined;
  /** The body as it came: a text if it is UTF-8. */
  readonly body: string | Uint8Array;
  /** The body as text. What is no UTF-8 becomes U+FFFD. */
  text(): string;
  /** The body as bytes. */
  bytes(): Uint8Array;
  /** The body, which is JSON, as a value. */
  json<T = any>(): T;
  /** Makes a status other than 200 to 299 an `HttpError`, and returns the response otherwise. */
  throwIfNotOk(): this;
}

/**
 * Sends a request to a granted host and returns the whole response, at once and without a promise. Any status is a response,
 * not an error. Redirects are not followed.
 *
 * A call may run again at any time, so make requests that do no harm twice: with an idempotency key (the primary's UID,
 * say), or after asking what is there.
 *
 * @throws {HttpError} if there is no response.
 */
export function fetch(url: string, init?: RequestInit): Response;
