// Replaces the language's own clock, randomness and console with the host's, so that a call can be replayed: in a
// component always, in a test while a plugin is called.

import * as clock from '#host/clock';
import * as random from '#host/random';
import { console } from './console.js';

// There is no host while the modules load, before the component is stored. The clock then stands at 1970, and
// randomness is a fixed sequence, so every build has the same result.
let hasHost = false;
let step = 0;

/** Starts a call. */
export function begin() {
  hasHost = true;
}

function milliseconds() {
  if (!hasHost) return 0;
  const { seconds, nanoseconds } = clock.now();
  return (seconds >>> 0) * 1000 + nanoseconds / 1e6;
}

function u32() {
  if (hasHost) return random.getU32() >>> 0;
  step = (Math.imul(step, 1664525) + 1013904223) >>> 0;
  return step;
}

function bytes(length) {
  return hasHost ? random.getBytes(length) : Uint8Array.from({ length }, () => u32() >>> 24);
}

const EngineDate = Date;
const now = () => Math.floor(milliseconds());
const HostDate = new Proxy(EngineDate, {
  construct: (date, values, target) => Reflect.construct(date, values.length === 0 ? [now()] : values, target),
  apply: () => new EngineDate(now()).toString(),
  get: (date, key, receiver) => (key === 'now' ? now : Reflect.get(date, key, receiver)),
});

const crypto = {
  getRandomValues(array) {
    if (!ArrayBuffer.isView(array)) throw new TypeError('getRandomValues fills an array of integers, such as a Uint8Array');
    const filled = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    filled.set(bytes(filled.length));
    return array;
  },
  randomUUID() {
    const drawn = bytes(16);
    drawn[6] = (drawn[6] & 0x0f) | 0x40;
    drawn[8] = (drawn[8] & 0x3f) | 0x80;
    const digits = Array.from(drawn, (byte) => byte.toString(16).padStart(2, '0')).join('');
    return digits.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5');
  },
};

/** 53 random bits, as many as a double has, as a fraction. */
function fraction() {
  return ((u32() >>> 5) * 2 ** 26 + (u32() >>> 6)) / 2 ** 53;
}

function missing(name, instead) {
  return () => {
    throw new Error(`there is no ${name} in a plugin: ${instead}`);
  };
}

const LATER = 'nothing runs after a call has ended, and nothing waits within it. To be called again later, return requeueAfter(milliseconds)';

const replacements = {
  Date: HostDate,
  performance: { timeOrigin: 0, now: milliseconds },
  crypto,
  console,
  setTimeout: missing('setTimeout', LATER),
  setInterval: missing('setInterval', LATER),
  setImmediate: missing('setImmediate', LATER),
  fetch: missing('fetch', 'use http.fetch of "windlass", which answers at once'),
};

/** Replaces the globals, and returns a function that restores them. */
export function install() {
  const names = Object.keys(replacements);
  const before = names.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
  const mathRandom = Math.random;
  for (const name of names) {
    Object.defineProperty(globalThis, name, { value: replacements[name], writable: true, configurable: true });
  }
  Math.random = fraction;
  return () => {
    names.forEach((name, place) => {
      if (before[place] === undefined) delete globalThis[name];
      else Object.defineProperty(globalThis, name, before[place]);
    });
    Math.random = mathRandom;
  };
}

