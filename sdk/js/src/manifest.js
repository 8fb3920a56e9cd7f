// Converts the manifest to the host's form. An unknown field fails the build.

import { stringify } from './json.js';
import { known, list } from './wire.js';

const WATCH = 'name apiVersion kind kindsFrom verbs namespaces labelSelector fieldSelector where projection managedFields indexes predicates noOpSkip codePredicate callFields';
const WHERE = 'annotation field any is in notIn exists';
const PREDICATE = 'type pointers predicate predicates';
const REFERENCE = 'base namespace name';

// The fields of each part of the manifest, by the name of the field that contains the part. They are written as texts,
// which take less space in a component. The value of any other field is not checked.
const PARTS = {
  manifest: 'apiVersion kind name version description controllers crds permissions metrics config finalizers http',
  controllers: 'name primary owns watches hooks options',
  primary: `${WATCH} timer`,
  timer: 'cron timeZone intervalMs jitterMs missed',
  owns: `${WATCH} deleted updateStrategy`,
  watches: `${WATCH} deleted mapping`,
  hooks: 'name mapping',
  where: WHERE,
  any: WHERE,
  projection: 'type pointers',
  indexes: 'name source',
  source: `type pointer key split form ${REFERENCE}`,
  predicates: PREDICATE,
  predicate: PREDICATE,
  mapping: `type key pointer index ${REFERENCE}`,
  options: 'workers maxRetries backoff resyncMs deadlineMs finalizer status expectationTimeout savedCalls',
  backoff: 'limiter baseMs maxMs perSecond burst',
  permissions: 'apiGroups resources verbs namespaces names',
  metrics: 'name type help labels buckets',
  config: 'schema',
  http: 'scheme host port methods',
};
const LISTS = ['controllers', 'owns', 'watches', 'hooks', 'where', 'any', 'indexes', 'predicates', 'permissions', 'metrics', 'http'];
// The plugin functions that a mapping calls, by the mapping's type.
const MAPPERS = { mapper: 'map', customize: 'customize' };

/** Returns the text of the manifest of a plugin's definition, which also contains the plugin's functions. */
export function manifestText(definition) {
  const { manifest } = definition;
  check(manifest ?? null, 'manifest', 'the manifest', definition);
  for (const field of ['name', 'version', 'controllers']) {
    if (manifest[field] === undefined) throw new TypeError(`the manifest has no field "${field}"`);
  }
  return stringify({ apiVersion: 'windlass.dev/v1alpha1', kind: 'PluginManifest', ...manifest }, 'the manifest');
}

function check(value, part, what, definition) {
  const fields = PARTS[part]?.split(' ');
  if (value === undefined || fields === undefined) return;
  known(value, fields, what);
  if (value.codePredicate === true && definition.reconcile !== undefined && definition.matches === undefined) {
    throw new TypeError(`the manifest has a codePredicate for the watch "${value.name}", and there is no function "matches" beside it`);
  }
  const mapper = part === 'watches' || part === 'hooks' ? MAPPERS[value.mapping?.type] : undefined;
  if (mapper !== undefined && definition[mapper] === undefined) {
    throw new TypeError(`the manifest maps the ${part === 'hooks' ? 'hook' : 'watch'} "${value.name}" by ${value.mapping.type}, and there is no function "${mapper}" beside it`);
  }
  for (const field of fields) {
    const place = what === 'the manifest' ? `manifest.${field}` : `${what}.${field}`;
    if (value[field] === undefined || !LISTS.includes(field)) check(value[field], field, place, definition);
    else list(value[field], place).forEach((element, at) => check(element, field, `${place}[${at}]`, definition));
  }
}
