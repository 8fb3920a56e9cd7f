// How an error is reported to the host: its parts, each with its class.

import { ApiError, Collected, HttpError, Terminal, Transient } from './errors.js';
import { nameOf, optionalMilliseconds, optionalReference, shown, text } from './wire.js';

export const SILENT = 'an error without a message';
export const UNREADABLE = 'an error that cannot be read';

/** The failures of an error, and the uncaught exceptions among them, whose stacks belong in the log. */
export function failuresOf(error) {
  const uncaught = [];
  const failures = collect(error, uncaught, []);
  // Only an AggregateError that contains itself has no failures, and the host needs at least one.
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

/** The failures of an error, with the texts of the errors that wrap it. The errors above it, of which it is a part, are skipped. */
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

/** An HTTP request that is not granted is a denial like any other: the host runs the key again when the policy changes. */
function denial({ detail }) {
  return { code: 403, reason: 'not-granted', statusReason: 'NotGranted', message: detail, verb: 'fetch', resource: 'http' };
}

/** The minimum delay of the retry. A plugin may have changed it, so it is checked. */
function delayOf(error) {
  return error instanceof Transient ? optionalMilliseconds(error.retryAfterMs, 'the retryAfterMs of a Transient') : undefined;
}

/**
 * The failures of one of several joined errors. If its getters throw, that error is reported in its place, once, and the others keep their
 * classes.
 */
function partOf(part, uncaught, above, message, isFirst = true) {
  try {
    return surround(collect(part, uncaught, above), message, part);
  } catch (wrong) {
    return isFirst ? partOf(wrong, uncaught, above, message, false) : surround([failureOf(UNREADABLE)], message, UNREADABLE);
  }
}

/** An error and its causes down to the first that has a class; if none has one, only the error, whose text includes all causes. */
function classified(error, above) {
  const chain = withCauses(error, above);
  const last = chain.findIndex((part) => hasClass(part) || isJoined(part));
  return last < 0 ? [error] : chain.slice(0, last + 1);
}

/** Puts failures into the text of the error that wraps theirs. For an API error the error's own text is used. */
function surround(failures, outer, inner) {
  for (const failure of failures) {
    const told = failure.api ?? failure;
    told.message = around(outer, inner, told.message);
  }
  return failures;
}

// Many errors include the text of the error that they wrap, which is not repeated. For an ApiError only the message appears, because the
// host itself adds the request and the object.
function around(outer, inner, message) {
  if (outer === '' || message === '') return outer + message;
  for (const said of [...textsOf(inner), message]) {
    const place = placeOf(said, outer);
    if (place >= 0) return outer.slice(0, place) + message + outer.slice(place + said.length);
  }
  return `${outer}: ${message}`;
}

/**
 * The place where one text contains another as a separate part: at its beginning or end, or separated from the words around it by
 * punctuation (by spaces, if it has several words itself), and not as a part of a name such as "shop-1". Anywhere else it occurs by chance:
 * then it is -1. The last such place counts, because context mostly comes before an error. Non-ASCII characters count as letters.
 */
function placeOf(said, outer) {
  const touched = said.includes(' ')
    ? /[0-9A-Za-z\u0080-\uffff][-_./]?\0|\0[-_./]?[0-9A-Za-z\u0080-\uffff]/
    : /[0-9A-Za-z\u0080-\uffff](?: +|[-_./]?)\0|\0(?: +|[-_./]?)[0-9A-Za-z\u0080-\uffff]/;
  let place = said === '' ? -1 : outer.lastIndexOf(said);
  // Only a very long run of spaces could be longer than this.
  while (
    place >= 0 &&
    touched.test(`${outer.slice(Math.max(place - 99, 0), place)}\0${outer.slice(place + said.length, place + said.length + 99)}`)
  ) {
    place = place === 0 ? -1 : outer.lastIndexOf(said, place - 1);
  }
  return place;
}

/** The forms in which an error may be quoted, the longest first. */
function textsOf(error) {
  if (!(error instanceof Error)) return [shown(error)];
  // Without a message, no form is specific enough: "Error" could occur by chance.
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

/** The text of one error, without its causes. */
function ownMessage(error) {
  if (error instanceof ApiError) return error.toString().toWellFormed();
  if (!(error instanceof Error)) return shown(error);
  if (error instanceof Collected) return '';
  const isPlain = error.name === 'Error' || error.name === 'AggregateError' || hasClass(error);
  return [isPlain ? '' : error.name, error.message].filter((said) => said !== '').join(': ').toWellFormed();
}

/** The text of an error and of all its causes, without those above it. */
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

/** The error in the interface's form. A plugin may have created or changed it, so it is checked. */
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

// QuickJS omits the message from the stack, V8 does not.
function oneStack(error) {
  const stack = String(error.stack ?? '').trimEnd();
  const head = `${error.name}: ${error.message}`;
  return (stack.startsWith(error.name) ? stack : `${head}\n${stack}`).trimEnd().toWellFormed();
}
