// Checks values before they are passed to the interface. The engine would trap on a value of a wrong type, without a
// message.

import { ApiError } from './errors.js';

const LONGEST = 2 ** 31 - 1;

/** Checks a text. A lone surrogate, which UTF-8 cannot represent, becomes U+FFFD. */
export function text(value, what) {
  if (typeof value !== 'string') throw new TypeError(`${what} must be a string, not ${nameOf(value)}`);
  return value.toWellFormed();
}

export function optionalText(value, what) {
  return value === undefined || value === null ? undefined : text(value, what);
}

/** Checks a whole number for the interface's u32, which the engine treats as signed. */
export function u32(value, what) {
  if (!Number.isInteger(value) || value < 0 || value > 0xffffffff) {
    throw new TypeError(`${what} must be a whole number from 0 to 4294967295, not ${nameOf(value)}`);
  }
  return value | 0;
}

export function optionalU32(value, what) {
  return value === undefined || value === null ? undefined : u32(value, what);
}

/**
 * Checks a duration. It is limited to the longest that the interface allows. A fraction of a millisecond is rounded up.
 */
export function milliseconds(value, what) {
  if (typeof value !== 'number' || !(value >= 0)) {
    throw new TypeError(`${what} must be a number of milliseconds, not ${nameOf(value)}`);
  }
  return Math.min(Math.ceil(value), LONGEST);
}

export function optionalMilliseconds(value, what) {
  return value === undefined || value === null ? undefined : milliseconds(value, what);
}

export function number(value, what) {
  if (typeof value !== 'number') throw new TypeError(`${what} must be a number, not ${nameOf(value)}`);
  return value;
}

export function oneOf(value, choices, what) {
  if (!choices.includes(value)) {
    throw new TypeError(`${what} must be one of ${choices.join(', ')}, not ${nameOf(value)}`);
  }
  return value;
}

export function list(value, what) {
  if (!Array.isArray(value)) throw new TypeError(`${what} must be an array, not ${nameOf(value)}`);
  return value;
}

/** Checks the list that a function of the plugin returned. */
export function listFrom(answer, name) {
  refusePromise(answer, name);
  return list(answer, `the result of ${name}`);
}

/** Checks the decision that a function of the plugin returned. */
export function boolFrom(answer, name) {
  refusePromise(answer, name);
  if (typeof answer !== 'boolean') throw new TypeError(`the result of ${name} must be true or false, not ${nameOf(answer)}`);
  return answer;
}

export function refusePromise(answer, name) {
  if (typeof answer?.then !== 'function') return;
  throw new TypeError(
    `${name} returned a promise, which nothing can wait for: a call ends when the function returns. Make ${name}, and what it calls, plain functions without async and await; all functions of "windlass" answer at once`,
  );
}

export function texts(value, what) {
  return list(value, what).map((element, place) => text(element, `${what}[${place}]`));
}

/** Converts names and values to pairs, from an object or from a list of pairs, in which a name may occur twice. */
export function pairs(value, what) {
  const entries = Array.isArray(value) ? value : Object.entries(value ?? {});
  return entries.map(([name, held]) => [text(name, `a name in ${what}`), shown(held)]);
}

/** Converts a value to a text for a log line. */
export function shown(value) {
  if (typeof value === 'string') return value.toWellFormed();
  if (value instanceof Error) return String(value).toWellFormed();
  if (typeof value === 'object' && value !== null) {
    try {
      return JSON.stringify(value, (_, inner) => (typeof inner === 'bigint' ? String(inner) : inner)) ?? String(value);
    } catch {
      return Object.prototype.toString.call(value);
    }
  }
  return String(value).toWellFormed();
}

/** Refuses unknown properties of a plain object. Otherwise a misspelt option would be ignored silently. */
export function known(value, keys, what) {
  if (value === undefined) return {};
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new TypeError(`${what} must be an object, not ${nameOf(value)}`);
  }
  for (const key in value) {
    if (!keys.includes(key)) {
      throw new TypeError(`${what}: there is no field "${key}"${hint(key, keys)}`);
    }
  }
  return value;
}

function hint(key, keys) {
  const alike = keys.find((known) => distance(key.toLowerCase(), known.toLowerCase()) <= 2);
  return alike === undefined ? `; there are ${keys.join(', ')}` : `; did you mean "${alike}"?`;
}

function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, place) => place);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length];
}

export function kind(value, what) {
  return { apiVersion: text(value?.apiVersion, `${what}.apiVersion`), kind: text(value?.kind, `${what}.kind`) };
}

export function reference(value, what) {
  if (typeof value !== 'object' || value === null) {
    throw new TypeError(`${what} must be a reference to an object, not ${nameOf(value)}`);
  }
  return {
    // There is only one cluster.
    cluster: undefined,
    apiVersion: text(value.apiVersion, `${what}.apiVersion`),
    kind: text(value.kind, `${what}.kind`),
    namespace: optionalText(value.namespace, `${what}.namespace`),
    name: text(value.name, `${what}.name`),
    uid: optionalText(value.uid, `${what}.uid`),
  };
}

export function optionalReference(value, what) {
  return value === undefined || value === null ? undefined : reference(value, what);
}

/** Converts a reference from the host, without empty fields and without the cluster. There is only one cluster. */
export function referenceFrom({ apiVersion, kind, namespace, name, uid }) {
  const found = { apiVersion, kind };
  if (namespace != null) found.namespace = namespace;
  found.name = name;
  if (uid != null) found.uid = uid;
  return found;
}

export function apiErrorFrom(payload) {
  const { retryAfterMs, object, ...rest } = payload;
  return new ApiError({
    ...rest,
    retryAfterMs: retryAfterMs == null ? undefined : retryAfterMs >>> 0,
    object: object == null ? undefined : referenceFrom(object),
  });
}

/** Calls the host, and throws its error as an ApiError. */
export function ask(call) {
  try {
    return call();
  } catch (error) {
    throw isRefusal(error) ? apiErrorFrom(error.payload) : error;
  }
}

/** Whether an import threw this error because the host returned an error, which is then the payload. */
export function isRefusal(error) {
  return error !== null && typeof error === 'object' && error.payload !== undefined;
}

export function nameOf(value) {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object' || typeof value === 'function') return `a value of type ${typeof value}`;
  return typeof value === 'undefined' ? 'undefined' : `${typeof value} ${String(value)}`;
}
