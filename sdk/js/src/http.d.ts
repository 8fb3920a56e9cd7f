import type { Fields } from './types.js';

/** The request. */
export interface RequestInit {
  /** Default: `GET`. */
  method?: string;
  /** Names and values. The host itself sets headers such as `Host` and `Content-Length`. */
  headers?: Fields;
  /** A text or bytes. */
  body?: string | Uint8Array | null | undefined;
  /** A value to send as JSON, instead of `body`. */
  json?: unknown;
  /** The limit of the whole exchange in milliseconds. Left out: the host's limit. */
  timeoutMs?: number | undefined;
}

/** The whole response. */
export interface Response {
  /** The status, such as 200. */
  readonly status: number;
  /** Whether the status is one of 200 to 299. */
  readonly ok: boolean;
  /** Names, in lower case, and values. */
  readonly headers: ReadonlyArray<readonly [string, string]>;
  /** Returns the first value of a header. The case of the name does not matter. */
  header(name: string): string | undefined;
  /** The body as received: a text if it is UTF-8. */
  readonly body: string | Uint8Array;
  /** The body as text. Bytes that are not UTF-8 become U+FFFD. */
  text(): string;
  /** The body as bytes. */
  bytes(): Uint8Array;
  /** The JSON body as a value. */
  json<T = any>(): T;
  /** Throws an `HttpError` if the status is not one of 200 to 299; otherwise returns the response. */
  throwIfNotOk(): this;
}

/**
 * Sends a request to a granted host and returns the whole response, without a promise. Any status is a response, not an
 * error. Redirects are not followed.
 *
 * A call may run again at any time, so a repeated request must do no harm. Use an idempotency key (such as the
 * primary's UID), or first ask for the current state.
 *
 * @throws {HttpError} if there is no response.
 */
export function fetch(url: string, init?: RequestInit): Response;
