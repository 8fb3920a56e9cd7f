import type { Fields } from './types.js';

/** The importance of a line. */
export type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error';

/**
 * Writes a line with fields. The host adds the plugin, the controller, the object and the trace. `console.info('message', { name: 'value'
 * })` and the other console functions write the same lines.
 */
export function log(level: Level, message: string, fields?: Fields): void;

/** Writes a line about a detail. */
export function trace(message: string, fields?: Fields): void;
/** Writes a line for finding faults. */
export function debug(message: string, fields?: Fields): void;
/** Writes a line about an action. */
export function info(message: string, fields?: Fields): void;
/** Writes a line about a problem that someone should look at. */
export function warn(message: string, fields?: Fields): void;
/** Writes a line about a failure. */
export function error(message: string, fields?: Fields): void;
