// Converts an error to the failures that the host receives: its parts, each with its class.

import { ApiError, Collected, HttpError, Terminal, Transient } from './errors.js';
import { nameOf, optionalMilliseconds, optionalReference, shown, text } from './wire.js';

export const SILENT = 'an error without a message';
export const UNREADABLE = 'an error that cannot be read';

/** Returns the failures of an error, and the uncaught exceptions among them, whose stacks belong in the log. */
export function failuresOf(error) {
  const uncaught = [];
  const failures = collect(error, uncaught, []);
  // The host needs at least one failure. There is none only if an AggregateError contains itself.
  if (failures.length === 0) failures.push(failureOf(messageOf(error)));
  for (const failure of failures) {
    if (failure.api === undefined) failure.message ||= SILENT;
  }
  return { failures, uncaught };
}

/** Creates a failure of the interface. It is transient, unless `more` says otherwise. */
export function failureOf(message, more) {
  return { message, api: undefined, terminal: false, retryAfterMs: undefined, ...more };
}

/**
 * Returns the failures of an error, with the texts of the errors that wrap it. It skips the errors in `above`, which
 * contain this one.
 */
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

/**
 * An HTTP request that is not granted is reported as a denial of the API: the host runs the key again when the policy
 * changes.
 */
function denial({ detail }) {
  return { code: 403, reason: 'not-granted', statusReason: 'NotGranted', message: detail, verb: 'fetch', resource: 'http' };
}

/** The minimum delay of the retry. It is checked, because a plugin may have changed it. */
function delayOf(error) {
  return error instanceof Transient ? optionalMilliseconds(error.retryAfterMs, 'the retryAfterMs of a Transient') : undefined;
}

/**
 * The failures of one part of a joined error. If the part's getters throw, the thrown error is reported once instead,
 * and the other parts keep their classes.
 */
function partOf(part, uncaught, above, message, isFirst = true) {
  try {
    return surround(collect(part, uncaught, above), message, part);
  } catch (wrong) {
    return isFirst ? partOf(wrong, uncaught, above, message, false) : surround([failureOf(UNREADABLE)], message, UNREADABLE);
  }
}

/**
 * Returns an error and its causes down to the first that has a class. If none has a class, it returns only the error,
 * whose text includes all causes.
 */
function classified(error, above) {
  const chain = withCauses(error, above);
  const last = chain.findIndex((part) => hasClass(part) || isJoined(part));
  return last < 0 ? [error] : chain.slice(0, last + 1);
}

/** Adds the text of a wrapping error to failures. For an API error it uses the error's own text. */
function surround(failures, outer, inner) {
  for (const failure of failures) {
    const target = failure.api ?? failure;
    target.message = around(outer, inner, target.message);
  }
  return failures;
}

// Many errors include the text of the error that they wrap, which is not repeated. For an ApiError only the message appears, because the
// host itself adds the request and the object.
function around(outer, inner, message) {
  if (outer === '' || message === '') return outer + message;
  for (const text of [...textsOf(inner), message]) {
    const place = placeOf(text, outer);
    if (place >= 0) return outer.slice(0, place) + message + outer.slice(place + text.length);
  }
  return `${outer}: ${message}`;
}

/**
 * Finds one text as a separate part of another: at its beginning or end, or separated from the words around it by
 * punctuation (by spaces, if it has several words itself), and not inside a name such as "shop-1". Any other occurrence
 * is taken for chance: the result is then -1. If there are several such places, the result is the last one, because
 * context mostly comes before an error. Non-ASCII characters count as letters.
 */
function placeOf(text, outer) {
  const touched = text.includes(' ')
    ? /[0-9A-Za-z\u0080-\uffff][-_./]?\0|\0[-_./]?[0-9A-Za-z\u0080-\uffff]/
    : /[0-9A-Za-z\u0080-\uffff](?: +|[-_./]?)\0|\0(?: +|[-_./]?)[0-9A-Za-z\u0080-\uffff]/;
  let place = text === '' ? -1 : outer.lastIndexOf(text);
  // The pattern needs at most 99 characters on each side, unless there is a very long run of spaces.
  while (
    place >= 0 &&
    touched.test(`${outer.slice(Math.max(place - 99, 0), place)}\0${outer.slice(place + text.length, place + text.length + 99)}`)
  ) {
    place = place === 0 ? -1 : outer.lastIndexOf(text, place - 1);
  }
  return place;
}

/** The forms in which a message may quote an error, the longest first. */
function textsOf(error) {
  if (!(error instanceof Error)) return [shown(error)];
  // Without a message, no form is specific enough: "Error" could occur by chance.
  return error.message === '' ? [] : [`${error}`, ownMessage(error), `${error.message}`].map((text) => text.toWellFormed());
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

/** The text of one error, without its causes. */
function ownMessage(error) {
  if (error instanceof ApiError) return error.toString().toWellFormed();
  if (!(error instanceof Error)) return shown(error);
  if (error instanceof Collected) return '';
  const isPlain = error.name === 'Error' || error.name === 'AggregateError' || hasClass(error);
  return [isPlain ? '' : error.name, error.message].filter((text) => text !== '').join(': ').toWellFormed();
}

/** The text of an error and of its causes, without the errors in `above`. */
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

/** Converts an error to the interface's form. It is checked, because a plugin may have created or changed it. */
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

/** An error and its causes, each with its stack, in Node.js's form. */
export function stackOf(error) {
  const parts = withCauses(error).map((part) =>
    part instanceof Error ? oneStack(part) : `${shown(part)} (${nameOf(part)}, which has no stack)`,
  );
  return parts.join('\ncaused by: ');
}

// QuickJS omits the message from the stack, V8 does not.
function oneStack(error) {
  const stack = String(error.stack ?? '').trimEnd();
  const head = `${error.name}: ${error.message}`;
  return (stack.startsWith(error.name) ? stack : `${head}\n${stack}`).trimEnd().toWellFormed();
}
