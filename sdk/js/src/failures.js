// What the host is told of an error: its parts, each with its class.

import { ApiError, Collected, HttpError, Terminal, Transient } from './errors.js';
import { nameOf, optionalMilliseconds, optionalReference, shown, text } from './wire.js';

export const SILENT = 'an error without a message';
export const UNREADABLE = 'an error that cannot be read';

/** The failures of an error, and the uncaught exceptions among them, whose stacks belong in the log. */
export function failuresOf(error) {
  const uncaught = [];
  const failures = collect(error, uncaught, []);
  // Only an AggregateError that holds itself leaves nothing, and the host wants at least one.
  if (failures.length === 0) failures.push(failureOf(messageOf(error)));
  for (const failure of failures) {
    if (failure.api === undefined) failure.message ||= SILENT;
  }
  return { failures, uncaught };
}

/** A failure as the interface has it: worth another attempt after a backoff, unless `more` says otherwise. */
export function failureOf(message, more) {
  return { message, api: undefined, terminal: false, retryAfterMs: undefined, ...more };
}

/** What an error is told as, with what the errors say that wrap it. Those above it, of which it is a part, are not told again. */
function collect(error, uncaught, above) {
  const chain = classified(error, above);
  const failures = failuresWithin(chain, uncaught, above);
  for (let place = chain.length - 2; place >= 0; place -= 1) surround(failures, ownMessage(chain[place]), chain[place + 1]);
  return failures;
}

function failuresWithin(chain, uncaught, above) {
  const inner = chain.at(-1);
  if (inner instanceof ApiError) return [failureOf('', { api: apiFailure(inner) })];
  if (inner instanceof HttpError && inner.reason === 'not-granted') return [failureOf('', { api: apiFailure(denial(inner)) })];
  const message = messageOf(inner, above);
  if (inner instanceof Terminal || (inner instanceof HttpError && inner.reason === 'invalid-request')) {
    return [failureOf(message, { terminal: true })];
  }
  if (isJoined(inner) && !hasClass(inner)) {
    if (above.includes(inner)) return [];
    return inner.errors.flatMap((part) => partOf(part, uncaught, [...above, ...chain], message));
  }
  if (!hasClass(inner) && !uncaught.includes(inner)) uncaught.push(inner);
  return [failureOf(message, { retryAfterMs: delayOf(inner) })];
}

/** An HTTP request that is not granted is a denial as any other: the host runs the key again when the policy changes. */
function denial({ detail }) {
  return { code: 403, reason: 'not-granted', statusReason: 'NotGranted', message: detail, verb: 'fetch', resource: 'http' };
}

/** How long the next attempt has to wait. A plugin may have changed it, so it is checked. */
function delayOf(error) {
  return error instanceof Transient ? optionalMilliseconds(error.retryAfterMs, 'the retryAfterMs of a Transient') : undefined;
}

/** What one of joined errors is told as. What it says may throw; that is told in its place, once, and the others keep their classes. */
function partOf(part, uncaught, above, message, isFirst = true) {
  try {
    return surround(collect(part, uncaught, above), message, part);
  } catch (wrong) {
    return isFirst ? partOf(wrong, uncaught, above, message, false) : surround([failureOf(UNREADABLE)], message, UNREADABLE);
  }
}

/** An error and its causes down to the first that has a class; where none has, the error alone, whose text has them all. */
function classified(error, above) {
  const chain = withCauses(error, above);
  const last = chain.findIndex((part) => hasClass(part) || isJoined(part));
  return last < 0 ? [error] : chain.slice(0, last + 1);
}

/** Puts failures into the text of an error that wraps what they were told of. For an API error that is the error's own text. */
function surround(failures, outer, inner) {
  for (const failure of failures) {
    const told = failure.api ?? failure;
    told.message = around(outer, inner, told.message);
  }
  return failures;
}

// Many say in their text what they wrap, and it is not said twice. The host says itself what was asked of which object, so of an
// ApiError there is the message alone.
function around(outer, inner, message) {
  if (outer === '' || message === '') return outer + message;
  for (const said of [...textsOf(inner), message]) {
    const place = placeOf(said, outer);
    if (place >= 0) return outer.slice(0, place) + message + outer.slice(place + said.length);
  }
  return `${outer}: ${message}`;
}

/**
 * Where a text stands in another on its own: at its beginning or end, or set off from the words around it by punctuation (by spaces, if
 * it has several words itself), and not as a part of a name such as "shop-1". Anywhere else it is by chance, which is -1. Of several such
 * places it is the last one, for what is said around an error mostly stands before it. What is not ASCII is taken for a letter.
 */
function placeOf(said, outer) {
  const touched = said.includes(' ')
    ? /[0-9A-Za-z\u0080-\uffff][-_./]?\0|\0[-_./]?[0-9A-Za-z\u0080-\uffff]/
    : /[0-9A-Za-z\u0080-\uffff](?: +|[-_./]?)\0|\0(?: +|[-_./]?)[0-9A-Za-z\u0080-\uffff]/;
  let place = said === '' ? -1 : outer.lastIndexOf(said);
  // Further away is nothing that could touch it but very many spaces.
  while (
    place >= 0 &&
    touched.test(`${outer.slice(Math.max(place - 99, 0), place)}\0${outer.slice(place + said.length, place + said.length + 99)}`)
  ) {
    place = place === 0 ? -1 : outer.lastIndexOf(said, place - 1);
  }
  return place;
}

/** How an error may be quoted, the longest first. */
function textsOf(error) {
  if (!(error instanceof Error)) return [shown(error)];
  // Without a message it is quoted by nothing that could not be said by chance, such as "Error".
  return error.message === '' ? [] : [`${error}`, ownMessage(error), `${error.message}`].map((said) => said.toWellFormed());
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
  if (error instanceof Collected) return '';
  const isPlain = error.name === 'Error' || error.name === 'AggregateError' || hasClass(error);
  return [isPlain ? '' : error.name, error.message].filter((said) => said !== '').join(': ').toWellFormed();
}

/** What an error says, and all its causes but those above it. */
export function messageOf(error, above) {
  const parts = withCauses(error, above);
  return parts.reduceRight((message, part, place) => around(ownMessage(part), parts[place + 1], message), '');
}

function withCauses(error, above = []) {
  const parts = [];
  let part = error;
  while (part !== undefined && !parts.includes(part) && (parts.length === 0 || !above.includes(part))) {
    parts.push(part);
    part = isObject(part) ? (part.cause ?? undefined) : undefined;
  }
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
