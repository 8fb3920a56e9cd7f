import type { Fields } from './types.js';

/** Adds to a counter that the manifest declares. Metrics never make a call fail. */
export function add(name: string, value: number, labels?: Fields): void;

/** Sets a gauge that the manifest declares. */
export function set(name: string, value: number, labels?: Fields): void;

/** Adds a value to a histogram that the manifest declares. */
export function observe(name: string, value: number, labels?: Fields): void;

/** The description of a metric. */
export interface About<Label extends string = string> {
  /** A description of the metric and its unit, for people. */
  help: string;
  /** The labels that each value carries. */
  labels?: readonly Label[];
}

interface Declared<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labels?: Label[];
}

/** The labels of a value: exactly the declared labels. */
type Values<Label extends string> = [Label] extends [never] ? [labels?: Record<string, never>] : [labels: Record<Label, string>];

/** A value that only grows. List it in the manifest's `metrics`. */
export interface Counter<Label extends string = any> extends Declared<Label> {
  readonly type: 'counter';
  add(value: number, ...labels: Values<Label>): void;
}

/** A value that goes up and down. List it in the manifest's `metrics`. */
export interface Gauge<Label extends string = any> extends Declared<Label> {
  readonly type: 'gauge';
  set(value: number, ...labels: Values<Label>): void;
}

/** Counts values by size. List it in the manifest's `metrics`. */
export interface Histogram<Label extends string = any> extends Declared<Label> {
  readonly type: 'histogram';
  readonly buckets?: number[];
  observe(value: number, ...labels: Values<Label>): void;
}

/**
 * A counter that both the manifest and the code use, so that the two cannot differ:
 *
 * ```js
 * const BACKUPS = metrics.counter('backups_total', { help: 'Backups that were begun.', labels: ['result'] });
 * const manifest = { …, metrics: [BACKUPS] };
 * BACKUPS.add(1, { result: 'success' });
 * ```
 */
export function counter<const Label extends string = never>(name: string, about: About<Label>): Counter<Label>;

/** A gauge that both the manifest and the code use. */
export function gauge<const Label extends string = never>(name: string, about: About<Label>): Gauge<Label>;

/** A histogram that both the manifest and the code use. Without `buckets` it has the host's default buckets. */
export function histogram<const Label extends string = never>(
  name: string,
  about: About<Label> & { buckets?: number[] },
): Histogram<Label>;
