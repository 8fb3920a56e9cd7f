// The probe: carries out the steps in its primary. See ../README.md.

import {
  ApiError, cache, clock, conditions, config, defineReconciler, events, http, HttpError, live, log, metrics, ownerReference, owners,
  random, requeueAfter, requeueWithBackoff, Terminal, Transient, triggers, writes,
} from 'windlass';
import { languageSteps, outcome, withoutNull } from './language.js';

const COUNTED = metrics.counter('counted_total', { help: 'What was counted.', labels: ['color'] });
const LEVEL = metrics.gauge('level', { help: 'What was found last.' });
const SIZES = metrics.histogram('sizes', { help: 'What was measured.', buckets: [1.5, 10] });

const manifest = {
  name: 'conformance',
  version: '0.1.0',
  description: 'Does what its primary says, in every language alike.',
  controllers: [{
    name: 'conformance',
    primary: {
      apiVersion: 'conformance.windlass.dev/v1',
      kind: 'Conformance',
      callFields: ['/spec'],
      predicates: [{ type: 'generation' }, { type: 'labels' }, { type: 'fields', pointers: ['/spec/steps'] }],
      indexes: [{ name: 'secrets', source: { type: 'field', pointer: '/spec/secrets' } }],
    },
    owns: [
      {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        labelSelector: 'conformance=yes',
        namespaces: ['prod', 'test'],
        projection: { type: 'fields', pointers: ['/data'] },
        indexes: [{ name: 'tier', source: { type: 'label', key: 'tier' } }],
      },
      { apiVersion: 'apps/v1', kind: 'Deployment', projection: { type: 'metadata' } },
    ],
    watches: [
      { apiVersion: 'v1', kind: 'Secret', fieldSelector: 'type=Opaque', mapping: { type: 'referencedBy', index: 'secrets' } },
      { apiVersion: 'v1', kind: 'Service', mapping: { type: 'label', key: 'conformance.windlass.dev/for' } },
      { apiVersion: 'v1', kind: 'Pod', mapping: { type: 'annotation', key: 'conformance.windlass.dev/for' } },
      { apiVersion: 'v1', kind: 'PersistentVolumeClaim', mapping: { type: 'field', pointer: '/spec/volumeName' } },
      { apiVersion: 'v1', kind: 'ServiceAccount', mapping: { type: 'sameName' } },
      { apiVersion: 'v1', kind: 'Namespace', mapping: { type: 'all' } },
      { name: 'mapped', apiVersion: 'v1', kind: 'Endpoints', codePredicate: true, mapping: { type: 'mapper' } },
    ],
    options: {
      workers: 2,
      maxRetries: 5,
      backoff: { baseMs: 10, maxMs: 60_000 },
      resyncMs: 3_600_000,
      deadlineMs: 20_000,
      finalizer: true,
      expectationTimeout: 'run',
      savedCalls: false,
    },
  }],
  permissions: [
    { apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'create', 'patch', 'delete'], namespaces: ['prod'] },
    { apiGroups: ['apps'], resources: ['deployments/scale'], verbs: ['patch'], names: ['web'] },
  ],
  metrics: [COUNTED, LEVEL, SIZES],
  http: [{ scheme: 'https', host: 'api.example.com', port: 8443, methods: ['GET', 'POST'] }],
  config: { schema: { type: 'object', properties: { greeting: { type: 'string' } } } },
  finalizers: ['conformance.windlass.dev/old'],
};

const language = languageSteps({
  ApiError, clock, conditions, config, log, ownerReference, random, requeueAfter, requeueWithBackoff, Terminal, Transient,
});

const calls = {
  ...language.calls,
  'cache.get': ({ target, fields }) => cache.get(target, { fields }),
  'cache.get-many': ({ targets, fields }) => cache.getMany(targets, { fields }).map(settled),
  'cache.list'({ query }) {
    const { kind, index, ...conditions } = withoutNull(query);
    return cache.list({ ...kind, ...conditions, index: index && { name: index.index, value: index.value } });
  },
  'live.get': ({ target, subresource, view }) => live.get(target, { subresource, ...viewed(view) }),
  'live.list'({ query }) {
    const { kind, view, ...conditions } = withoutNull(query);
    return live.list({ ...kind, ...conditions, ...viewed(view) });
  },
  'live.log'({ query }) {
    const { target, ...options } = withoutNull(query);
    return live.log(target, options);
  },
  'live.served': ({ kind }) => live.served(kind),
  'live.kinds': () => live.kinds().map(({ apiVersion, kind, ...served }) => ({ kind: { apiVersion, kind }, served })),
  'writes.create': ({ object, options }) => writes.create(object, options).object,
  'writes.update': ({ object, options }) => writes.update(object, options).object,
  'writes.apply': ({ object, options }) => writes.apply(object, options).object,
  'writes.patch': ({ target, patchType, patch, options }) => writes.patch(target, patchType, patch, options).object,
  'writes.delete': ({ target, options }) => writes.delete(target, options)?.object,
  'writes.delete-collection': ({ collection: { kind, ...selectors }, options }) => writes.deleteCollection({ ...kind, ...selectors }, options),
  'writes.evict': ({ target }) => writes.evict(target),
  'writes.batch': ({ operations }) => writes.batch(operations.map(withoutNull)).map(settled),
  'owners.claim': ({ kind, labelSelector }) => owners.claim(kind, labelSelector),
  'events.emit': ({ event }) => events.emit(event),
  'metrics.add': ({ name, value, labels }) => metrics.add(name, value, labels),
  'metrics.set': ({ name, value, labels }) => metrics.set(name, value, labels),
  'metrics.observe': ({ name, value, labels }) => metrics.observe(name, value, labels),
  'http.fetch': ({ request }) => fetched(request),
  'triggers.list': () => triggers.list(),
};

const endings = {
  ...language.endings,
  propagate({ target }) {
    cache.get(target);
  },
  wrap({ target, message }) {
    try {
      cache.get(target);
    } catch (error) {
      throw new Error(message, { cause: error });
    }
  },
};

function viewed(view) {
  return view === 'metadata' ? { metadataOnly: true } : view;
}

function fetched({ url, body, ...init }) {
  const { status, headers, body: content } = http.fetch(url, { ...init, body: body && (body.text ?? Uint8Array.from(body.bytes)) });
  return { status, headers, body: typeof content === 'string' ? { text: content } : { bytes: [...content] } };
}

function settled({ object, error }) {
  return error === undefined ? { ok: object ?? null } : { error: resultOf(error) };
}

function resultOf(error) {
  if (error instanceof AggregateError) return { errors: error.errors.map(resultOf) };
  if (error instanceof HttpError) return { reason: error.reason, message: error.detail };
  return language.resultOf(error);
}

function reconcile(request) {
  if (request.object === undefined) return;
  const results = [];
  for (const { call, ...given } of request.object.spec.steps ?? []) {
    const step = withoutNull(given);
    if (Object.hasOwn(endings, call)) return endings[call](step);
    results.push(outcome(() => (call === 'request' ? about(request) : calls[call](step)), resultOf));
  }
  writes.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'report' }, results });
}

function about({ controller, namespace, name, uid, deleting, attempt, traceId, object }) {
  return { controller, namespace, name, uid, deleting, attempt, traceId, hasObject: object !== undefined };
}

/** Each state of a changed object lists the primaries that the change concerns.
 * */
function map(watch, change) {
  return [change.old, change.new].filter((state) => state !== null).flatMap(({ spec: { targets = [], target, tellWatch, fail, raise } }) => {
    if (fail !== undefined) throw new Transient(fail);
    if (raise !== undefined) language.endings.raise({ message: raise });
    const read = target && cache.get(target);
    return [
      ...targets, ...(read ? [{ namespace: 'prod', name: read.data.primary }] : []),
      ...(tellWatch ? [{ index: 'watch', value: watch }] : []),
    ];
  });
}

/** The last state of a changed object says whether the change counts. */
function matches(watch, change) {
  let counts = true;
  for (const { spec } of [change.old, change.new].filter((state) => state !== null)) {
    if (spec.failMatches !== undefined) throw new Transient(spec.failMatches);
    if (spec.raiseMatches !== undefined) language.endings.raise({ message: spec.raiseMatches });
    counts = spec.matches === undefined || spec.matches === watch;
  }
  return counts;
}

export const reconciler = defineReconciler({ manifest, reconcile, map, matches });
