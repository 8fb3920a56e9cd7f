// What the host is told of an error: its parts, each with its class.

import { ApiError, Collected, HttpError, Terminal, Transient } from './errors.js';
import { nameOf, optionalReference, shown, text } from './wire.js';

/** The failures of an error, and the uncaught exceptions among them, whose stacks belong in the log. */
export function failuresOf(error) {
  const uncaught = [];
  const failures = collect(error, uncaught, new Set());
  // Only an AggregateError that holds itself leaves nothing, and the host wants at least one.
  if (failures.length === 0) failures.push({ tag: 'transient', val: messageOf(error) });
  return { failures, uncaught };
}

/** What an error is told as, with what the errors say that wrap it. */
function collect(error, uncaught, seen) {
  if (isObject(error)) {
    if (seen.has(error)) return [];
    seen.add(error);
  }
  const chain = classified(error);
  const inner = chain.at(-1);
  const failures = failuresWithin(inner, error, uncaught, seen);
  for (let place = chain.length - 2; place >= 0; place -= 1) surround(failures, ownMessage(chain[place]), chain[place + 1]);
  return failures;
}

function failuresWithin(inner, error, uncaught, seen) {
  if (inner instanceof ApiError) return [{ tag: 'api', val: apiFailure(inner) }];
  if (inner instanceof Terminal || (inner instanceof HttpError && inner.reason === 'invalid-request')) {
    return [{ tag: 'terminal', val: messageOf(inner) }];
  }
  if (isJoined(inner) && !hasClass(inner)) {
    const outer = inner instanceof Collected ? '' : ownMessage(inner);
    return inner.errors.flatMap((part) => surround(collect(part, uncaught, seen), outer, part));
  }
  if (!hasClass(inner)) uncaught.push(error);
  return [{ tag: 'transient', val: messageOf(inner) }];
}

/** An error and its causes down to the first that has a class; where none has, the error alone, whose text has them all. */
function classified(error) {
  const chain = [];
  for (let inner = error; isObject(inner) && !chain.includes(inner); inner = inner.cause) {
    chain.push(inner);
    if (hasClass(inner) || isJoined(inner)) return chain;
  }
  return [error];
}

/** Puts failures into the text of an error that wraps what they were told of. */
function surround(failures, outer, inner) {
  for (const failure of failures) {
    if (failure.tag === 'api') failure.val.message = around(outer, inner, failure.val.message);
    else failure.val = around(outer, inner, failure.val);
  }
  return failures;
}

// Many say in their text what they wrap, and it is not said twice. The host says itself what was asked of which object, so of an
// ApiError there is the message alone.
function around(outer, inner, message) {
  const whole = textsOf(inner).find((said) => said !== '' && outer.includes(said));
  if (whole !== undefined) return outer.replace(whole, () => message);
  if (outer === '') return message;
  return outer.includes(message) ? outer : `${outer}: ${message}`;
}

/** How an error may be quoted, the longest first. */
function textsOf(error) {
  return error instanceof Error ? [`${error}`, ownMessage(error), `${error.message}`].map((said) => said.toWellFormed()) : [shown(error)];
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
  const parts = withCauses(error);
  const message = parts.reduceRight((said, part, place) => (said === '' ? ownMessage(part) : around(ownMessage(part), parts[place + 1], said)), '');
  return message || 'an error without a message';
}

function withCauses(error) {
  const parts = [];
  for (let part = error; part !== undefined && !parts.includes(part); part = isObject(part) ? part.cause : undefined) parts.push(part);
  return parts;
}

/** The error as the interface has it. A plugin may have made or changed it, so it is checked. */
function apiFailure(error) {
  return {
    code: error.code & 0xffff,
    reason: API_REASONS.includes(error.reason) ? error.reason : 'other',
    statusReason: shown(error.statusReason ?? ''),
    message: text(error.message, 'message'),
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
  const parts = withCauses(error).map((part) =>
    part instanceof Error ? oneStack(part) : `${shown(part)} (${nameOf(part)}, which has no stack)`,
  );
  return parts.join('\ncaused by: ');
}

// QuickJS leaves the message out of the stack, V8 does not.
function oneStack(error) {
  const stack = String(error.stack ?? '').trimEnd();
  const head = `${error.name}: ${error.message}`;
  return (stack.startsWith(error.name) ? stack : `${head}\n${stack}`).trimEnd().toWellFormed();
}
