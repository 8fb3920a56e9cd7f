// JSON in the interface's texts. Whole numbers that a double cannot represent exactly are BigInt, when reading and when
// writing.

import { shown } from './wire.js';

/** The value of a JSON text. */
export function parse(text) {
  return hasLongNumber(text) ? parseWithBigInts(text) : JSON.parse(text);
}

/** The JSON text of a value. `what` names it in errors. */
export function stringify(value, what = 'the value') {
  let text;
  try {
    text = written(value);
  } catch (error) {
    if (error === REFUSED) refuse(value, what);
    throw new TypeError(`${what} cannot be written as JSON: ${error instanceof Error ? error.message : shown(error)}`, { cause: error });
  }
  if (text === undefined) {
    throw new TypeError(`${what} must be JSON, not ${typeof value}`);
  }
  return text;
}

// This is not an Error, because its stack would take space in each component.
const REFUSED = { message: 'it holds what is no JSON' };

function written(value) {
  try {
    return JSON.stringify(value, checked);
  } catch (error) {
    if (error === REFUSED) throw error;
    // The value contains a BigInt or a cycle. With a cycle this call fails too, with an error that names it.
    return stringifyWithBigInts(value);
  }
}

// JSON.stringify silently converts these values: NaN to null, which deletes the field in a patch; a Map or a Promise to
// {}; a Number object to a number that never equals the object, so that its parent would be written again at each call.
// The engine calls this function for each value. It takes a tenth of the writing time, because usual values return at
// once and no path is recorded.
function checked(key, inner) {
  const isUsual =
    typeof inner === 'object'
      ? inner !== null && (inner.constructor === Object || inner.constructor === Array)
      : typeof inner !== 'number' || Number.isFinite(inner);
  if (!isUsual && reasonAgainst(this[key], inner) !== undefined) throw REFUSED;
  return inner;
}

/** Throws an error that names the part of the value that cannot be written, and its path. */
function refuse(value, what) {
  const paths = new Map();
  JSON.stringify(value, function (key, inner) {
    const path = paths.has(this) ? `${paths.get(this)}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}` : '';
    const reason = reasonAgainst(this[key], inner);
    if (reason !== undefined) throw new TypeError(`${what}${path && ': '}${path} is ${reason}`);
    if (typeof inner !== 'object') return 0;
    paths.set(inner, path);
    return inner;
  });
}

/** The reason why a value is refused, although JSON would write `inner` for it. */
function reasonAgainst(value, inner) {
  if (inner instanceof Number) return 'an object of Number: make it a number, as by Number(value) without new';
  if (inner instanceof Map) return 'a Map: make it an object, as by Object.fromEntries(map)';
  if (inner instanceof Set) return 'a Set: make it an array, as by [...set]';
  if (typeof inner === 'number' && !Number.isFinite(inner)) return `${inner}, which JSON cannot represent`;
  if (inner === null && Number.isNaN(value?.getTime?.())) return 'a Date without a time: it was made of a value that is not a date';
  if (typeof inner !== 'object' || inner === null) return undefined;
  const kind = Object.prototype.toString.call(inner).slice(8, -1);
  return kind === 'Object' || kind === 'Array' ? undefined : `an object of ${kind}, which JSON cannot represent: convert it to a plain value`;
}

/** The number of digits of the first unsafe integer, 9007199254740992. */
const LONG = 16;

// A run of this many digits includes a position that is a multiple of its length, so only these positions are checked.
// This costs a sixteenth of checking every position. In QuickJS, it costs a quarter of a regular expression, and as
// much as a walk over the parsed value of a usual object.
function hasLongNumber(text) {
  for (let place = LONG - 1, length = text.length; place < length; place += LONG) {
    const character = text[place];
    if (character > '9' || character < '0') continue;
    if (isInLongRun(text, place)) return true;
  }
  return false;
}

function isInLongRun(text, place) {
  let first = place;
  let last = place;
  for (let before = text[first - 1]; before >= '0' && before <= '9'; before = text[first - 1]) first -= 1;
  for (let after = text[last + 1]; after >= '0' && after <= '9'; after = text[last + 1]) last += 1;
  return last - first + 1 >= LONG;
}

// BigInts pass through the engine's own parser and writer as texts that begin with a mark. A text that already begins
// with the mark gets a second mark, so that both directions are exact.
const MARK = '#';
const TOKEN = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|-?\d[\d.eE+-]*/g;
const WHOLE = /^-?\d+$/;

function parseWithBigInts(text) {
  const marked = text.replace(TOKEN, (token, string, colon) => {
    if (string === undefined) {
      return WHOLE.test(token) && !Number.isSafeInteger(Number(token)) ? `"${MARK}${token}"` : token;
    }
    const isMarked = colon === undefined && (string[1] === MARK || /^"\\u0023/i.test(string));
    return isMarked ? `"${MARK}${string.slice(1)}` : token;
  });
  return JSON.parse(marked, (_, value) => {
    if (typeof value !== 'string' || value[0] !== MARK) return value;
    return value[1] === MARK ? value.slice(1) : BigInt(value.slice(1));
  });
}

function stringifyWithBigInts(value) {
  const text = JSON.stringify(value, function (key, inner) {
    if (typeof inner === 'bigint') return MARK + inner;
    return typeof inner === 'string' && inner[0] === MARK ? MARK + inner : checked.call(this, key, inner);
  });
  return text?.replace(TOKEN, (token, string, colon) => {
    if (string === undefined || colon !== undefined || string[1] !== MARK) return token;
    return string[2] === MARK ? `"${string.slice(2)}` : string.slice(2, -1);
  });
}
