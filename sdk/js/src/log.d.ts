import type { Fields } from './types.js';

/** How much a line matters. */
export type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error';

/**
 * Writes a line with fields. The host adds the plugin, the controller, the object and the trace. `console.info('message',
 * { name: 'value' })` and its like write the same lines.
 */
export function log(level: Level, message: string, fields?: Fields): void;

/** Writes a line of every detail. */
export function trace(message: string, fields?: Fields): void;
/** Writes a line for those who look for a fault. */
export function debug(message: string, fields?: Fields): void;
/** Writes a line about what was done. */
export function info(message: string, fields?: Fields): void;
/** Writes a line about what someone should look at. */
export function warn(message: string, fields?: Fields): void;
/** Writes a line about what failed. */
export function error(message: string, fields?: Fields): void;
