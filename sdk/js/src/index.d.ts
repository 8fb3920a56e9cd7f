/**
 * The JavaScript and TypeScript SDK for Windlass plugins. A plugin is a function and a manifest. The manifest says what
 * the plugin watches. The host calls the function with the name of one object, whenever that object or anything around
 * it may have changed.
 *
 * @packageDocumentation
 */
export * from './plugin.js';
export * from './errors.js';
export * from './objects.js';
export * from './json.js';
export * from './quantity.js';
export type * from './types.js';
export type * from './manifest.js';
export type { Condition, NewCondition } from './conditions.js';
export type { EventInput } from './events.js';
export type { Instant } from './clock.js';
export type { Trigger } from './triggers.js';
/** Reads from the caches of the declared watches. They send no request, so use them for nearly all reads. */
export * as cache from './cache.js';
/** The host's clock. */
export * as clock from './clock.js';
/** Lists of status conditions. */
export * as conditions from './conditions.js';
/** The operator's configuration of the plugin. */
export * as config from './config.js';
/** Kubernetes Events, which people see in `kubectl describe`. */
export * as events from './events.js';
/** HTTP requests to hosts that the manifest names and the operator grants. */
export * as http from './http.js';
/** Reads from the API server itself, each of which sends a request. */
export * as live from './live.js';
/** The plugin's log. */
export * as log from './log.js';
/** Metrics that the manifest declares. */
export * as metrics from './metrics.js';
/** Claims existing objects by their labels. */
export * as owners from './owners.js';
/** The host's randomness. */
export * as random from './random.js';
/** Why the host makes this call now, for people. */
export * as triggers from './triggers.js';
/** Changes to the API. The host resolves the outcome of each change, and holds the key until its caches show it. */
export * as writes from './writes.js';
