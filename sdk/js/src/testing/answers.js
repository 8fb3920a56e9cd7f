// The answers of the test's host, in the interface's own types.

import { API_REASONS } from '../failures.js';
import { parse, stringify } from '../json.js';
import { oneOf, referenceFrom } from '../wire.js';
import { identity, Refusal } from './store.js';

export function answers({ host, store, failing, manifest, primary }) {
  const random = generator(host.seed);
  const failed = (call, verb, target) => {
    const place = failing.findIndex(({ what: { call: named, ...fields } }) =>
      (named === undefined || named === call) && Object.keys(fields).every((field) => fields[field] === target[field]));
    if (place === -1) return undefined;
    const [{ error }] = failing.splice(place, 1);
    return apiError(error, verb, target);
  };
  const refuseIfTold = (call, verb, target) => {
    const error = failed(call, verb, target);
    if (error !== undefined) throw refusal(error);
  };

  const get = (call, watched, viewed = (object) => object) => (target, ...how) => {
    refuseIfTold(call, 'get', target);
    watched(target, 'get');
    const found = store.get(target);
    return found === undefined ? null : stringify(viewed(found, ...how), 'an object');
  };
  const list = (call, watched, viewed = (object) => object) => (query) => {
    refuseIfTold(call, 'list', { ...query.kind, namespace: query.namespace });
    const { indexes = [] } = watched(query.kind, 'list') ?? {};
    const found = store.list({ ...query, ...query.kind, owner: query.owned ? owner('a list with `owned`') : undefined, indexes });
    const first = Number(query.pageToken ?? 0);
    const last = first + query.limit;
    return {
      items: found.slice(first, last).map((object) => stringify(viewed(object, query), 'an object')),
      nextToken: last < found.length ? String(last) : null,
    };
  };
  const owner = (what) => {
    if (primary !== undefined) return primary;
    throw new TypeError(`${what} needs a primary, which host.run has none of: test it by host.reconcile(plugin, { object: primary })`);
  };
  const inManifest = (kind, verb) => watchOf(manifest, kind, verb);
  const anything = () => undefined;

  const carryOut = (op, { object, patch, target, options, patchType }) => {
    const write = { op };
    if (options.owned) owner('a write with `owned`');
    if (object !== undefined) write.object = parse(object);
    if (target !== undefined) write.target = referenceFrom(target);
    if (patch !== undefined) Object.assign(write, { patchType, patch: parse(patch) });
    write.options = withoutNone(options);
    host.writes.push(write);
    const about = write.target ?? identity(write.object);
    refuseIfTold(`writes.${op}`, VERBS[op], about);
    const written = answered(VERBS[op], about, () => store.write(structuredClone(write), primary, host.answers));
    if (written === undefined) return null;
    return stringify(options.fields === undefined ? written : projected(written, options.fields), 'an object');
  };
  const settled = (call) => {
    try {
      return { tag: 'ok', val: call() };
    } catch (error) {
      if (error.payload === undefined) throw error;
      return { tag: 'err', val: error.payload };
    }
  };
  const cacheGet = get('cache.get', inManifest);
  const recordMetric = (type) => (name, value, labels) => {
    host.metrics.push({ type, name, value, labels: Object.fromEntries(labels) });
  };

  return {
    cache: {
      get: cacheGet,
      getMany: (targets) => targets.map((target) => settled(() => cacheGet(target))),
      list: list('cache.list', inManifest),
    },
    live: {
      get: get('live.get', anything, partOf),
      list: list('live.list', anything, (object, { view }) => viewed(object, view)),
      log: (query) => {
        refuseIfTold('live.log', 'get', query.target);
        return logOf(host, query);
      },
      served: (kind) => {
        refuseIfTold('live.served', 'served', kind);
        return isUnserved(host, kind) ? null : servedOf(kind);
      },
      kinds: () => {
        const error = failed('live.kinds', 'kinds', NO_KIND);
        if (error !== undefined) throw refusal({ ...error, resource: '' });
        return store.kinds().filter((kind) => !isUnserved(host, kind)).map((kind) => ({ kind, served: servedOf(kind) }));
      },
    },
    writes: {
      create: (object, options) => carryOut('create', { object, options }),
      update: (object, options) => carryOut('update', { object, options }),
      apply: (object, options) => carryOut('apply', { object, options }),
      patch: (target, patchType, patch, options) => carryOut('patch', { target, patchType, patch, options }),
      delete: (target, options) => carryOut('delete', { target, options }),
      deleteCollection: ({ kind, ...selectors }, options) => {
        const collection = { ...kind, ...withoutNone(selectors) };
        host.writes.push({ op: 'deleteCollection', collection, options: withoutNone(options) });
        refuseIfTold('writes.deleteCollection', 'deletecollection', { ...kind, namespace: selectors.namespace });
        return answered('deletecollection', kind, () => store.deleteCollection(collection, options));
      },
      batch: (operations) => operations.map(({ tag, val }) => settled(() => carryOut(tag, val))),
    },
    owners: {
      claim: (kind, labelSelector) => {
        const error = failed('owners.claim', 'list', kind);
        if (error !== undefined) throw refusal([error]);
        return store.claim({ ...kind, labelSelector }, owner('owners.claim'));
      },
    },
    events: { emit: (event) => void host.events.push(withoutNone(event)) },
    log: { log: (level, message, fields) => void host.logs.push({ level, message, fields: Object.fromEntries(fields) }) },
    metrics: { add: recordMetric('counter'), set: recordMetric('gauge'), observe: recordMetric('histogram') },
    config: { get: () => stringify(host.config, 'the configuration') },
    clock: { now: () => instant(host.now) },
    random: { getU32: random, getBytes: (length) => Uint8Array.from({ length }, () => random() >>> 24) },
    http: { fetch: (request) => fetched(host, request) },
    triggers: { list: () => host.triggers },
  };
}

const SERVED = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];
/** The target of a request that is about no kind. */
const NO_KIND = { apiVersion: '', kind: '' };

function servedOf({ kind }) {
  return { resource: `${kind.toLowerCase()}s`, namespaced: true, verbs: SERVED, subresources: ['status'] };
}

function isUnserved({ unserved }, { apiVersion, kind }) {
  return unserved.some((other) => other.apiVersion === apiVersion && other.kind === kind);
}

/** Returns the part of an object that a live read selects. */
function viewed(object, { tag, val }) {
  const { apiVersion, kind, metadata } = object;
  if (tag === 'metadata') return { apiVersion, kind, metadata };
  return tag === 'fields' ? projected(object, val) : object;
}

/** Returns the object's identity and the values at the pointers. */
function projected({ apiVersion, kind, metadata = {}, ...rest }, pointers) {
  const { name, namespace, uid } = metadata;
  const part = { apiVersion, kind, metadata: { name, namespace, uid } };
  for (const pointer of pointers) {
    const keys = pointer.split('/').slice(1).map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
    const value = keys.reduce((within, key) => within?.[key], { apiVersion, kind, metadata, ...rest });
    if (value === undefined) continue;
    const last = keys.pop();
    const place = keys.reduce((within, key) => (within[key] ??= {}), part);
    place[last] = value;
  }
  return part;
}

function partOf(object, subresource, view) {
  if (subresource == null || subresource === 'status') return viewed(object, view);
  if (subresource === 'scale') return viewed(scaleOf(object), view);
  // As on the real host, the error names no object, because the object itself exists.
  const error = apiError({ reason: 'not-found', message: `there is no ${subresource}` }, 'get', identity(object));
  throw refusal({ ...error, object: undefined });
}

function scaleOf({ metadata: { name, namespace, uid, resourceVersion }, spec, status }) {
  const replicas = (part) => ({ replicas: part?.replicas ?? 0 });
  return {
    apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { name, namespace, uid, resourceVersion }, spec: replicas(spec),
    status: replicas(status),
  };
}

function logOf(host, { target, tailLines, limitBytes }) {
  const found = host.podLogs[`${target.namespace}/${target.name}`];
  if (found === undefined) throw refusal(apiError({ reason: 'not-found', message: 'there is no log' }, 'get', target));
  const lines = found.split(/(?<=\n)/);
  const text = lines.slice(tailLines == null ? 0 : Math.max(lines.length - tailLines, 0)).join('');
  // A character that the limit cuts is dropped.
  return limitBytes == null ? text : Buffer.from(text).subarray(0, limitBytes).toString().replace(/\ufffd$/, '');
}

const VERBS = { create: 'create', update: 'update', apply: 'patch', patch: 'patch', delete: 'delete' };

function answered(verb, target, call) {
  try {
    return call();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw refusal(apiError({ reason: error.reason, message: error.message }, verb, target));
  }
}

/** Returns the watch of a kind. Without one, a cache read is refused, as by the real host. */
function watchOf(manifest, { apiVersion, kind }, verb) {
  if (manifest === undefined) return undefined;
  for (const { primary, owns = [], watches = [] } of manifest.controllers) {
    const found = [primary, ...owns, ...watches].find((watch) => watch.apiVersion === apiVersion && watch.kind === kind);
    if (found !== undefined) return found;
  }
  const message = `the manifest has no watch for ${apiVersion} ${kind}`;
  throw refusal(apiError({ reason: 'not-watched', message }, verb, { apiVersion, kind }));
}

const CODES = {
  'not-found': 404, 'already-exists': 409, conflict: 409, invalid: 422, forbidden: 403, 'not-granted': 403, 'not-watched': 400,
  'namespace-terminating': 403, 'too-many-requests': 429, expired: 410, timeout: 504, 'lease-lost': 503, 'read-only': 403,
  'too-large': 413,
};

function apiError({ reason, message = 'failed by the test', code, statusReason, retryAfterMs }, verb, target) {
  oneOf(reason, API_REASONS, 'the reason of a failure');
  const words = reason.split('-').map((word) => word[0].toUpperCase() + word.slice(1));
  const [group] = target.apiVersion.includes('/') ? target.apiVersion.split('/') : [''];
  const plural = `${target.kind.toLowerCase()}s`;
  return {
    code: code ?? CODES[reason] ?? 500,
    reason,
    statusReason: statusReason ?? words.join(''),
    message,
    retryAfterMs,
    verb,
    resource: group === '' ? plural : `${plural}.${group}`,
    object: target.name === undefined ? undefined : referenceFrom(target),
  };
}

/** Creates the error that an import throws when the host refuses a call. */
function refusal(payload) {
  return Object.assign(new Error('refused'), { payload });
}

/** Copies a record without its empty fields. */
export function withoutNone(record) {
  const entries = Object.entries(record).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(entries.map(([key, value]) => [key, isRecord(value) ? withoutNone(value) : value]));
}

function isRecord(value) {
  return typeof value === 'object' && !Array.isArray(value);
}

function instant(date) {
  const milliseconds = date.getTime();
  return { seconds: Math.floor(milliseconds / 1000), nanoseconds: (milliseconds % 1000) * 1e6 };
}

/** Generates the same numbers for the same seed (mulberry32). */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
}

function fetched(host, { method, url, headers, body, timeoutMs }) {
  const request = { method, url, headers, body: body?.val, timeoutMs };
  host.requests.push(request);
  if (host.fetch === undefined) throw refusal({ reason: 'not-granted', message: 'give TestHost a fetch that answers' });
  const answer = host.fetch(request);
  if (answer.reason !== undefined) throw refusal({ reason: answer.reason, message: answer.message ?? 'failed by the test' });
  const { status = 200, headers: answered = {}, body: content = '' } = answer;
  const tag = typeof content === 'string' ? 'text' : 'bytes';
  return { status, headers: Object.entries(answered), body: { tag, val: content } };
}
