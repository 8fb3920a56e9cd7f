import * as host from '#host/log';
import { oneOf, pairs, shown } from './wire.js';

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];

export function log(level, message, fields) {
  host.log(oneOf(level, LEVELS, 'level'), shown(message), pairs(fields, 'fields'));
}

export const trace = (message, fields) => log('trace', message, fields);
export const debug = (message, fields) => log('debug', message, fields);
export const info = (message, fields) => log('info', message, fields);
export const warn = (message, fields) => log('warn', message, fields);
export const error = (message, fields) => log('error', message, fields);
