// The language's own console. A plain object as the last argument becomes the line's fields.

import * as host from '#host/log';
import { pairs, shown } from './wire.js';

function logger(level) {
  return (...values) => {
    const fields = values.length > 1 && isPlain(values.at(-1)) && !wantsAll(values) ? values.pop() : undefined;
    write(level, format(values), pairs(fields, 'fields'));
  };
}

let isOpen = false;

/** Starts output. There is no log while modules load, or in `describe`. */
export function open() {
  isOpen = true;
}

function write(level, message, fields) {
  if (isOpen) host.log(level, message, fields);
}

const PLACEHOLDER = /%[sdifjoOc%]/g;

/** Whether the format has a placeholder for each argument. */
function wantsAll([first, ...rest]) {
  if (typeof first !== 'string') return false;
  const places = first.match(PLACEHOLDER) ?? [];
  return places.filter((place) => place !== '%%').length >= rest.length;
}

function isPlain(value) {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function format([first, ...rest]) {
  if (typeof first !== 'string') return [first, ...rest].slice(first === undefined && rest.length === 0 ? 1 : 0).map(shown).join(' ');
  let used = 0;
  const message = rest.length === 0 ? first : first.replace(PLACEHOLDER, (place) => {
    if (place === '%%') return '%';
    if (used === rest.length) return place;
    const value = rest[used++];
    if (place === '%c') return '';
    if (place === '%d') return String(Number(value));
    if (place === '%i') return String(Math.trunc(Number(value)));
    return shown(value);
  });
  return [message.toWellFormed(), ...rest.slice(used).map(shown)].join(' ');
}

const info = logger('info');
const nothing = () => {};

export const console = {
  trace: logger('trace'),
  debug: logger('debug'),
  log: info,
  info,
  warn: logger('warn'),
  error: logger('error'),
  dir: info,
  table: info,
  group: info,
  groupCollapsed: info,
  groupEnd: nothing,
  count: info,
  countReset: nothing,
  time: nothing,
  timeLog: info,
  timeEnd: nothing,
  assert(holds, ...values) {
    if (!holds) console.error(...(values.length === 0 ? ['Assertion failed'] : values));
  },
};
