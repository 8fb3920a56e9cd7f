// What the host is told of an error: its parts, each with its class.

import { ApiError, HttpError, Terminal, Transient } from './errors.js';
import { nameOf, optionalReference, shown, text } from './wire.js';

/** The failures of an error, and the uncaught exceptions among them, whose stacks belong in the log. */
export function failuresOf(error) {
  const found = { failures: [], uncaught: [] };
  collect(error, [], found, new Set());
  // Only an AggregateError that holds itself leaves nothing, and the host wants at least one.
  if (found.failures.length === 0) found.failures.push({ tag: 'transient', val: messageOf(error) });
  return found;
}

/** `above` is what the errors say that hold this one. */
function collect(error, above, found, seen) {
  if (isObject(error)) {
    if (seen.has(error)) return;
    seen.add(error);
  }
  const [inner, wrappers] = classified(error);
  const prefix = [...above, ...wrappers.map(ownMessage)];
  const told = (message) => [...prefix, message].filter((part) => part !== '').join(': ');
  if (inner instanceof ApiError) {
    found.failures.push({ tag: 'api', val: apiFailure(inner, told(prefix.length === 0 ? inner.message : ownMessage(inner))) });
  } else if (inner instanceof Terminal || (inner instanceof HttpError && inner.reason === 'invalid-request')) {
    found.failures.push({ tag: 'terminal', val: told(messageOf(inner)) });
  } else if (isJoined(inner) && !hasClass(inner)) {
    for (const part of inner.errors) collect(part, prefix, found, seen);
  } else {
    if (!hasClass(inner)) found.uncaught.push(error);
    found.failures.push({ tag: 'transient', val: told(messageOf(inner)) });
  }
}

/** The first error on the way down the causes that has a class, and what wraps it. */
function classified(error) {
  const wrappers = [];
  for (let inner = error; isObject(inner) && !wrappers.includes(inner); inner = inner.cause) {
    if (hasClass(inner) || isJoined(inner)) return [inner, wrappers];
    wrappers.push(inner);
  }
  return [error, []];
}

function hasClass(error) {
  return [ApiError, Terminal, Transient, HttpError].some((type) => error instanceof type);
}

function isJoined(error) {
  return isObject(error) && Array.isArray(error.errors) && error.errors.length > 0;
}

function isObject(value) {
  return typeof value === 'object' && value !== null;
}

/** What one error says of itself, without its causes. */
function ownMessage(error) {
  if (error instanceof ApiError) return error.toString().toWellFormed();
  if (!(error instanceof Error)) return shown(error);
  const isPlain = error.name === 'Error' || error.name === 'AggregateError' || hasClass(error);
  return `${isPlain ? '' : `${error.name}: `}${error.message}`.toWellFormed() || (isPlain ? '' : error.name);
}

/** What an error says, and all its causes. */
export function messageOf(error) {
  const parts = [];
  const seen = new Set();
  for (let part = error; part !== undefined && !seen.has(part); part = isObject(part) ? part.cause : undefined) {
    seen.add(part);
    parts.push(ownMessage(part));
  }
  return parts.filter((part) => part !== '').join(': ') || 'an error without a message';
}

/** The error as the interface has it. A plugin may have made or changed it, so it is checked. */
function apiFailure(error, message) {
  return {
    code: error.code & 0xffff,
    reason: API_REASONS.includes(error.reason) ? error.reason : 'other',
    statusReason: shown(error.statusReason ?? ''),
    message: text(message, 'message'),
    retryAfterMs: error.retryAfterMs === undefined || error.retryAfterMs === null ? undefined : error.retryAfterMs | 0,
    verb: shown(error.verb ?? ''),
    resource: shown(error.resource ?? ''),
    object: optionalReference(error.object, 'the object of an ApiError'),
  };
}

export const API_REASONS = [
  'not-found', 'already-exists', 'conflict', 'invalid', 'forbidden', 'not-granted', 'not-watched',
  'namespace-terminating', 'too-many-requests', 'expired', 'timeout', 'unknown-outcome', 'lease-lost', 'read-only',
  'server-error', 'too-large', 'other',
];

/** An error with its stack and those of its causes, as Node.js shows it. */
export function stackOf(error) {
  const parts = [];
  const seen = new Set();
  for (let part = error; part !== undefined && !seen.has(part); part = isObject(part) ? part.cause : undefined) {
    seen.add(part);
    parts.push(part instanceof Error ? oneStack(part) : `${shown(part)} (${nameOf(part)}, which has no stack)`);
  }
  return parts.join('\ncaused by: ');
}

// QuickJS leaves the message out of the stack, V8 does not.
function oneStack(error) {
  const stack = String(error.stack ?? '').trimEnd();
  const head = `${error.name}: ${error.message}`;
  return (stack.startsWith(error.name) ? stack : `${head}\n${stack}`).trimEnd().toWellFormed();
}
