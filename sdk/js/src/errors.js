// The errors by which the host decides how to continue.

import { formatRef } from './objects.js';
// The imported file imports this one, too. Neither calls the other while it loads.
import { optionalMilliseconds } from './wire.js';

export class ApiError extends Error {
  constructor({ code, reason, statusReason, message, retryAfterMs, verb, resource, object }, options) {
    super(message, options);
    this.code = code;
    this.reason = reason;
    this.statusReason = statusReason;
    this.retryAfterMs = retryAfterMs;
    this.verb = verb;
    this.resource = resource;
    this.object = object;
  }

  toString() {
    const target = this.object == null ? '' : ` ${formatRef(this.object)}`;
    return `${this.verb} ${this.resource}${target}: ${this.statusReason}: ${this.message}`;
  }
}

export class Terminal extends Error {}

export class Transient extends Error {
  constructor(message, options) {
    super(message, options);
    this.retryAfterMs = optionalMilliseconds(options?.retryAfterMs, 'retryAfterMs');
  }
}

export class HttpError extends Error {
  constructor(target, reason, detail, options) {
    super(`${target}: ${reason === 'status' ? '' : `${reason}: `}${detail}`, options);
    this.target = target;
    this.reason = reason;
    this.detail = detail;
  }
}

for (const type of [ApiError, Terminal, Transient, HttpError]) {
  // The property is not enumerable, like the names of the language's own errors.
  Object.defineProperty(type.prototype, 'name', { value: type.name, writable: true, configurable: true });
}

/** Thrown by this package if several operations failed. Its own message is not reported, because it adds nothing. */
export class Collected extends AggregateError {}

/** Whether an error is, wraps or joins an ApiError of one of these classes. */
export function isApiError(error, ...reasons) {
  const matches = (found) => found instanceof ApiError && (reasons.length === 0 || reasons.includes(found.reason));
  const seen = new Set();
  const search = (found) => {
    if (typeof found !== 'object' || found === null || seen.has(found)) return false;
    seen.add(found);
    return matches(found) || search(found.cause) || (Array.isArray(found.errors) && found.errors.some(search));
  };
  return search(error);
}

/** Throws the errors that a call has collected: a single error, or an AggregateError of several. */
export function throwAll(errors) {
  if (errors.length === 1) throw errors[0];
  if (errors.length > 1) throw new Collected(errors, `${errors.length} operations failed`);
}
