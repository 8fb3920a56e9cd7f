// Code that must type-check, and code that must not. This file is compiled by tsc, but never run.

import {
  cache, type Change, conditions, type CustomObject, defineComposer, defineReconciler, http, type Manifest, metrics, type ObjectRef,
  type RelatedRule, requeueAfter, requeueWithBackoff, type Target, throwAll, Transient, triggers, writes,
} from 'windlass';

type Shop = CustomObject<{ message: string }, { ready: boolean }>;

const RUNS = metrics.counter('runs_total', { help: 'Runs.', labels: ['result'] });
const DEPTH = metrics.gauge('depth', { help: 'Depth.' });

const manifest: Manifest = {
  name: 'shop',
  version: '0.1.0',
  controllers: [{
    name: 'shops',
    primary: {
      name: 'shops',
      apiVersion: 'example.com/v1',
      kind: 'Shop',
      codePredicate: true,
      callFields: ['/spec'],
      predicates: [{ type: 'and', predicates: [{ type: 'generation' }, { type: 'not', predicate: { type: 'labels' } }] }],
      indexes: [
        { name: 'refs', source: { type: 'reference', base: '/spec/refs/*', namespace: '/namespace', name: '/name' } },
        { name: 'selects', source: { type: 'selector', pointer: '/spec/selector', form: 'labels' } },
        { name: 'texts', source: { type: 'selector', pointer: '/spec/selectorText', form: 'text' } },
        { name: 'uses', source: { type: 'annotation', key: 'example.com/uses', split: ',' } },
      ],
    },
    owns: [{
      apiVersion: 'v1', kind: 'ConfigMap', updateStrategy: 'recreate', noOpSkip: false, managedFields: true,
      where: [{ any: [{ annotation: 'a', is: 'true' }, { annotation: 'b', exists: true }] }, { field: '/c', notIn: [1, true] }],
    }],
    watches: [
      { apiVersion: 'v1', kind: 'Secret', projection: { type: 'digest', pointers: ['/data'] }, mapping: { type: 'sameName' } },
      { apiVersion: 'v1', kind: 'Pod', deleted: false, mapping: { type: 'selectedBy', index: 'selects' } },
      { apiVersion: 'v1', kind: 'Node', mapping: { type: 'reference', name: '/spec/shop' } },
      { apiVersion: 'v1', kind: 'Event', mapping: { type: 'anyOwner' } },
      { name: 'claims', apiVersion: 'v1', kind: 'PersistentVolumeClaim', mapping: { type: 'mapper' } },
      { kindsFrom: '/kinds', verbs: ['delete'], projection: { type: 'metadata' }, mapping: { type: 'all' } },
      { apiVersion: 'v1', kind: 'Namespace', mapping: { type: 'none' } },
      { name: 'settings', apiVersion: 'v1', kind: 'ConfigMap', mapping: { type: 'customize' } },
    ],
    hooks: [{ name: 'pushed', mapping: { type: 'field', pointer: '/payload/name' } }],
    options: { status: false },
  }, {
    name: 'nightly',
    primary: { timer: { cron: '0 3 * * *', timeZone: 'Europe/Berlin', jitterMs: 60_000, missed: 'skip' } },
  }, {
    name: 'often',
    primary: { timer: { intervalMs: 60_000 } },
  }],
  metrics: [RUNS, DEPTH, { name: 'size', type: 'histogram', help: 'Size.', buckets: [1, 2] }],
};

export const reconciler = defineReconciler<Shop>({
  manifest,
  reconcile({ object, deleting }) {
    if (object === undefined || deleting) return;
    for (const { reason, watch, object: about } of triggers.list()) console.info(reason, { watch, name: about?.name });
    const text: string = object.spec.message;
    const settings = cache.get<{ data: Record<string, string> }>({ apiVersion: 'v1', kind: 'ConfigMap', name: text });
    const known: string | undefined = settings?.data['message'];
    writes.delete({ apiVersion: 'v1', kind: 'Pod', name: known ?? 'x' }, { gracePeriodMs: 5 });
    throwAll(writes.batch([{ op: 'create', object: {} }]).flatMap(({ error }) => error ?? []));
    writes.applyStatus(object, { conditions: conditions.set([], { type: 'Ready', status: true, reason: 'Applied' }) });
    const { effect, object: ensured } = writes.ensure<Shop>({ ...object, metadata: { ...object.metadata, ownerReferences: [] } });
    if (effect === 'created') console.info(ensured.spec.message);
    // @ts-expect-error: `ensure` has no such effect
    if (effect === 'applied') return;
    RUNS.add(1, { result: 'ok' });
    DEPTH.set(1);
    const volume: { size: number } = http.fetch('https://a.dev').throwIfNotOk().json();
    return requeueAfter(volume.size);
  },
});

export const composer = defineComposer<Shop, { replicas: number }>({
  manifest,
  compose: ({ parent, config }) => ({ children: [{ replicas: config.replicas, text: parent.spec.message }] }),
});

/** An author's own type for the objects of a change. */
interface Claim {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string };
  spec: { volumeName: string };
}

function concerned(watch: string, change: Change<Claim>): Target[] {
  const claim = change.new ?? change.old;
  if (watch !== 'claims' || claim === null) return [];
  return [{ namespace: claim.metadata.namespace, name: claim.metadata.name }, { index: 'by-volume', value: claim.spec.volumeName }];
}

export const mapping = defineReconciler<Shop>({ manifest, reconcile() {}, map: concerned });

export const judging = defineReconciler<Shop>({
  manifest,
  reconcile: () => requeueWithBackoff(),
  matches: (watch, change: Change<Claim>) => watch === 'claims' && change.new?.spec.volumeName !== '',
});

// @ts-expect-error A change counts or does not.
export const counting = defineReconciler({ manifest, reconcile() {}, matches: () => 1 });

export const customizing = defineComposer<Shop>({
  manifest,
  compose: () => ({ children: [] }),
  customize: ({ object, namespace }) => [{ watch: 'settings', names: [object.spec.message], namespace }, { watch: 'settings' }],
});

// @ts-expect-error A target has either a name or an index.
export const both: Target = { name: 'a', index: 'by-volume', value: 'b' };

// @ts-expect-error An index without a value finds nothing.
export const half: Target = { index: 'by-volume' };

// @ts-expect-error Names are a list.
export const rule: RelatedRule = { watch: 'settings', names: 'a' };

// @ts-expect-error The host does not wait for a promise.
export const later = defineReconciler({ manifest, reconcile() {}, async map() { return []; } });

// @ts-expect-error A manifest has no such field.
export const unknownField: Manifest = { name: 'a', version: '0.1.0', controllers: [], controlers: [] };

export const unknownMapping: Manifest = {
  name: 'a',
  version: '0.1.0',
  controllers: [{
    name: 'a',
    primary: { apiVersion: 'v1', kind: 'Pod' },
    // @ts-expect-error A mapping has no such type.
    watches: [{ apiVersion: 'v1', kind: 'Secret', mapping: { type: 'same' } }],
  }],
};

export const wholeObjects: Manifest = {
  name: 'a',
  version: '0.1.0',
  // @ts-expect-error Of kinds that the configuration names, the cache keeps only metadata.
  controllers: [{ name: 'a', primary: { kindsFrom: '/kinds' } }],
};

export const zonedInterval: Manifest = {
  name: 'a',
  version: '0.1.0',
  // @ts-expect-error An interval has no time zone.
  controllers: [{ name: 'a', primary: { timer: { intervalMs: 1000, timeZone: 'UTC' } } }],
};

export const ignoredPrimary: Manifest = {
  name: 'a',
  version: '0.1.0',
  // @ts-expect-error The deletion of a primary cannot be ignored.
  controllers: [{ name: 'a', primary: { apiVersion: 'v1', kind: 'Pod', deleted: false } }],
};

// @ts-expect-error The host does not wait for a promise.
export const asynchronous = defineReconciler({ manifest, async reconcile() { return requeueAfter(1); } });

// @ts-expect-error An option is misspelt.
writes.apply({}, { onwed: true });

export const busy = new Transient('a backup runs', { retryAfterMs: 30_000, cause: new Error('locked') });
export const delay: number | undefined = busy.retryAfterMs;
export const expected: Transient[] = [new Transient(), new Transient('later'), new Transient('later', { cause: busy })];
export const about: ObjectRef | undefined = triggers.list()[0]?.object;

// @ts-expect-error An option is misspelt.
export const misspelt = new Transient('later', { retryAfter: 30_000 });

// @ts-expect-error A label is missing.
RUNS.add(1, {});
