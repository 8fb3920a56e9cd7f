// Turns a plugin's functions into the exports of a component.

import '#host/ambient';
import * as host from '#host/log';
import { begin } from './ambient.js';
import { open } from './console.js';
import { rulesOf } from './customize.js';
import { eventOf } from './event.js';
import { failureOf, failuresOf, messageOf, SILENT, stackOf, UNREADABLE } from './failures.js';
import { stringify } from './json.js';
import { manifestText } from './manifest.js';
import { countsOf, targetsOf } from './mapper.js';
import { CompositionRequest, Request } from './request.js';
import { known, list, milliseconds, nameOf, optionalMilliseconds, refusePromise } from './wire.js';

export function defineReconciler(definition) {
  const given = known(definition, ['manifest', 'reconcile', 'map', 'matches'], 'the argument of defineReconciler');
  const { reconcile, map, matches } = given;
  const text = manifestText(given);
  const plugin = callable(reconcile, 'reconcile');
  if (map !== undefined) callable(map, 'map');
  if (matches !== undefined) callable(matches, 'matches');
  return Object.freeze({
    describe: () => text,
    reconcile: (request) => run(() => outcomeOf(plugin(new Request(request)))),
    map: (batch) => run(() => targetsOf(batch, map), textOf),
    matches: (batch) => run(() => countsOf(batch, matches), textOf),
  });
}

export function defineComposer(definition) {
  const given = known(definition, ['manifest', 'compose', 'customize'], 'the argument of defineComposer');
  const { compose, customize } = given;
  const text = manifestText(given);
  const plugin = callable(compose, 'compose');
  if (customize !== undefined) callable(customize, 'customize');
  return Object.freeze({
    describe: () => text,
    compose: (request) => run(() => compositionOf(plugin(new CompositionRequest(request)))),
    customize: (request) => run(() => rulesOf(customize(new Request(request)))),
  });
}

export function requeueAfter(after) {
  return { requeueAfterMs: milliseconds(after, 'requeueAfter') };
}

export function requeueWithBackoff() {
  return { requeueBackoff: true };
}

function callable(value, name) {
  if (typeof value !== 'function') throw new TypeError(`${name} must be a function, not ${nameOf(value)}`);
  return value;
}

/** Makes one call. It throws the failures of an exception as the interface expects them, converted by `shape`. */
function run(call, shape = (failures) => failures) {
  begin();
  open();
  try {
    return call();
  } catch (error) {
    throw shape(reported(error, true));
  }
}

/** Joins failures to one text: a mapper's error is only a text. */
function textOf(failures) {
  return failures.map(({ message, api }) => message || api.message).join('; ');
}

/**
 * Logs an exception and returns its failures. If the exception's getters throw, the thrown error is reported once
 * instead.
 */
function reported(error, isFirst) {
  let failures;
  try {
    const found = failuresOf(error);
    failures = found.failures;
    for (const exception of found.uncaught) {
      host.log('error', messageOf(exception) || SILENT, [['stack', stackOf(exception)]]);
    }
  } catch (wrong) {
    failures ??= isFirst ? reported(wrong) : [failureOf(UNREADABLE)];
  }
  return failures;
}

function outcomeOf(answer) {
  refusePromise(answer, 'reconcile');
  return { requeue: requeueOf(known(answer ?? undefined, REQUEUE, 'the result of reconcile')) };
}

const REQUEUE = ['requeueAfterMs', 'requeueBackoff'];

function requeueOf({ requeueAfterMs, requeueBackoff }) {
  const after = optionalMilliseconds(requeueAfterMs, 'requeueAfterMs');
  if (requeueBackoff !== true) return after === undefined ? undefined : { tag: 'after-ms', val: after };
  if (after !== undefined) throw new TypeError('requeueAfterMs and requeueBackoff exclude each other');
  return { tag: 'backoff' };
}

const COMPOSITION = ['children', 'status', 'events', ...REQUEUE, 'allowEmpty', 'finalized'];

function compositionOf(answer) {
  refusePromise(answer, 'compose');
  if (answer === undefined) throw new TypeError('compose returned nothing; to leave all as it is, return {children: []}');
  const { children, status, events = [], allowEmpty, finalized, ...requeue } = known(answer, COMPOSITION, 'the result of compose');
  return {
    children: list(children ?? [], 'children').map((child, place) => stringify(child, `children[${place}]`)),
    status: status === undefined || status === null ? undefined : stringify(status, 'status'),
    events: list(events, 'events').map((event, place) => eventOf(event, `events[${place}]`)),
    requeue: requeueOf(requeue),
    allowEmpty: allowEmpty === true,
    finalized: finalized === true,
  };
}
