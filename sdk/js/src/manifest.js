// The manifest as the host reads it. Fields that it does not have are refused while the plugin is built.

import { stringify } from './json.js';
import { known } from './wire.js';

const WATCH = [
  'name', 'apiVersion', 'kind', 'namespaces', 'labelSelector', 'fieldSelector', 'projection', 'indexes', 'predicates', 'noOpSkip',
];

// The fields of each part: a list of parts in brackets, and null for what is not looked into.
const PREDICATE = { type: null, pointers: null };
// Predicates are made of predicates.
Object.assign(PREDICATE, { predicate: PREDICATE, predicates: [PREDICATE] });
const REFERENCE = { base: null, namespace: null, name: null };
const watch = (more) => ({
  ...Object.fromEntries(WATCH.map((field) => [field, null])),
  projection: { type: null, pointers: null },
  indexes: [{ name: null, source: { type: null, pointer: null, key: null, form: null, ...REFERENCE } }],
  predicates: [PREDICATE],
  ...more,
});
const CONTROLLER = {
  name: null,
  primary: watch(),
  owns: [watch({ deleted: null, updateStrategy: null })],
  watches: [watch({ deleted: null, mapping: { type: null, key: null, pointer: null, index: null, ...REFERENCE } })],
  options: {
    workers: null, maxRetries: null, backoff: { limiter: null, baseMs: null, maxMs: null, perSecond: null, burst: null },
    resyncMs: null, deadlineMs: null, finalizer: null, expectationTimeout: null,
  },
};
const MANIFEST = {
  apiVersion: null,
  kind: null,
  name: null,
  version: null,
  description: null,
  controllers: [CONTROLLER],
  crds: null,
  permissions: [{ apiGroups: null, resources: null, verbs: null, namespaces: null, names: null }],
  metrics: [{ name: null, type: null, help: null, labels: null, buckets: null }],
  config: { schema: null },
  finalizers: null,
  http: [{ scheme: null, host: null, port: null, methods: null }],
};

export function manifestText(manifest) {
  check(manifest ?? null, MANIFEST, 'the manifest');
  for (const field of ['name', 'version', 'controllers']) {
    if (manifest[field] === undefined) throw new TypeError(`the manifest has no field "${field}"`);
  }
  return stringify({ apiVersion: 'windlass.dev/v1alpha1', kind: 'PluginManifest', ...manifest }, 'the manifest');
}

function check(value, parts, what) {
  if (parts === null || value === undefined) return;
  if (Array.isArray(parts)) {
    if (!Array.isArray(value)) throw new TypeError(`${what} must be an array`);
    value.forEach((element, place) => check(element, parts[0], `${what}[${place}]`));
    return;
  }
  known(value, Object.keys(parts), what);
  for (const [field, part] of Object.entries(parts)) {
    check(value[field], part, what === 'the manifest' ? `manifest.${field}` : `${what}.${field}`);
  }
}
