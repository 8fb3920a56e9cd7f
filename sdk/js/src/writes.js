import * as host from '#host/writes';
import { get } from './cache.js';
import { otherController, patchOf, versionOf } from './ensure.js';
import { ApiError } from './errors.js';
import { parse, stringify } from './json.js';
import { refOf } from './objects.js';
import {
  apiErrorFrom, ask, kind, known, list, oneOf, optionalMilliseconds, optionalReference, optionalText, reference, referenceFrom, text, texts,
  u32,
} from './wire.js';

// Most plugins ignore the result, and parsing it costs more than writing it. So it is parsed at its first use.
class Written {
  #text;
  #object;

  constructor(text) {
    this.#text = text;
  }

  get object() {
    if (this.#text !== undefined) {
      this.#object = parse(this.#text);
      this.#text = undefined;
    }
    return this.#object;
  }
}

function writtenOf(text) {
  return text === undefined || text === null ? undefined : new Written(text);
}

export function create(object, options) {
  const [body, how] = [bodyOf(object), writeOptions(options)];
  return new Written(ask(() => host.create(body, how)));
}

export function update(object, options) {
  const [body, how] = [bodyOf(object), writeOptions(options)];
  return new Written(ask(() => host.update(body, how)));
}

export function apply(object, options) {
  const [body, how] = [bodyOf(object), writeOptions(options)];
  return new Written(ask(() => host.apply(body, how)));
}

export function ensure(object) {
  const body = bodyOf(object);
  // Parsing the body gives the object as the server would read it: without undefined fields, and with texts for dates.
  const desired = parse(body);
  const target = targetOf(desired);
  const cached = get(target);
  if (cached === undefined) return ensured('created', new Written(ask(() => host.create(body, writeOptions()))));
  const controller = otherController(cached, desired);
  if (controller !== undefined) throw taken(target, controller);
  const changes = patchOf(cached, desired);
  if (changes === undefined) return ensured('unchanged', { object: cached });
  // The patch must not reach a later object of this name, which may have another controller.
  const compared = { ...target, uid: cached.metadata.uid };
  return ensured('patched', patch(compared, 'merge', changes, { resourceVersion: versionOf(cached, changes) }));
}

function ensured(effect, written) {
  return {
    effect,
    get object() {
      return written.object;
    },
  };
}

function targetOf(object) {
  const named = (value, field) => text(value, `${field} of the object to write`);
  return {
    apiVersion: named(object?.apiVersion, 'apiVersion'),
    kind: named(object.kind, 'kind'),
    namespace: optionalText(object.metadata?.namespace, 'metadata.namespace'),
    name: named(object.metadata?.name, 'metadata.name'),
  };
}

function taken(target, controller) {
  return new ApiError({
    code: 409,
    reason: 'already-exists',
    statusReason: 'AlreadyExists',
    message: `it exists, and ${controller} controls it`,
    verb: 'ensure',
    resource: target.kind,
    object: target,
  });
}

export function patch(target, patchType, changes, options) {
  const { val } = patchOperation({ target, patchType, patch: changes, options });
  return new Written(ask(() => host.patch(val.target, val.patchType, val.patch, val.options)));
}

function remove(target, options) {
  const [wanted, how] = [reference(target, 'target'), deleteOptions(options)];
  return writtenOf(ask(() => host.remove(wanted, how)));
}

export { remove as delete };

const COLLECTION = ['apiVersion', 'kind', 'namespace', 'labelSelector', 'fieldSelector', 'all'];

export function deleteCollection(collection, options) {
  const { namespace, labelSelector, fieldSelector, all } = known(collection, COLLECTION, 'the collection');
  const asked = {
    kind: kind(collection, 'the collection'),
    namespace: optionalText(namespace, 'namespace'),
    labelSelector: optionalText(labelSelector, 'labelSelector'),
    fieldSelector: optionalText(fieldSelector, 'fieldSelector'),
    all: all === true,
  };
  const how = deleteOptions(options);
  return ask(() => host.deleteCollection(asked, how))?.map(referenceFrom);
}

export function applyStatus(target, status, options) {
  const { apiVersion, kind, namespace, name } = 'metadata' in target ? refOf(target) : target;
  const metadata = namespace === undefined ? { name } : { name, namespace };
  return apply({ apiVersion, kind, metadata, status }, { force: true, ...options, subresource: 'status' });
}

export function scale(target, replicas, options) {
  return patch(target, 'merge', { spec: { replicas: u32(replicas, 'replicas') } }, { ...options, subresource: 'scale' });
}

export function evict(pod, options) {
  const { namespace, name, uid, ...of } = reference(pod, 'pod');
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace } };
  if (uid !== undefined) eviction.deleteOptions = { preconditions: { uid } };
  const parent = { ...of, namespace, name };
  try {
    create(eviction, { ...options, subresource: { name: 'eviction', parent } });
  } catch (error) {
    // If the Pod is gone, the error names it. If the server does not serve evictions, the error names no object.
    if (error.reason !== 'not-found' || error.object === undefined) throw error;
  }
}

export function batch(operations) {
  const sent = list(operations, 'operations').map(operation);
  return host.batch(sent).map(({ tag, val }) => (tag === 'ok' ? (writtenOf(val) ?? {}) : { error: apiErrorFrom(val) }));
}

function operation(given, place) {
  const what = `operations[${place}]`;
  const op = oneOf(given?.op, ['create', 'update', 'patch', 'apply', 'delete'], `${what}.op`);
  if (op === 'patch') {
    return patchOperation(known(given, ['op', 'target', 'patchType', 'patch', 'options'], what));
  }
  if (op === 'delete') {
    const { target, options } = known(given, ['op', 'target', 'options'], what);
    return { tag: op, val: { target: reference(target, `${what}.target`), options: deleteOptions(options) } };
  }
  const { object, options } = known(given, ['op', 'object', 'options'], what);
  return { tag: op, val: { object: bodyOf(object), options: writeOptions(options) } };
}

function patchOperation({ target, patchType, patch, options }) {
  const val = {
    target: reference(target, 'target'),
    patchType: oneOf(patchType, ['merge', 'json', 'strategic'], 'patchType'),
    patch: stringify(patch, 'the patch'),
    options: writeOptions(options),
  };
  return { tag: 'patch', val };
}

function bodyOf(object) {
  return stringify(object, 'the object to write');
}

const WRITE_OPTIONS = ['subresource', 'resourceVersion', 'owned', 'force', 'dryRun', 'fieldValidation', 'managerSuffix', 'fields'];

function writeOptions(options) {
  const { subresource, resourceVersion, owned, force, dryRun, fieldValidation, managerSuffix, fields } =
    known(options, WRITE_OPTIONS, 'the options of a write');
  return {
    subresource: subresourceOf(subresource),
    resourceVersion: optionalText(resourceVersion, 'resourceVersion'),
    owned: owned === true,
    force: force === true,
    dryRun: dryRun === true,
    fieldValidation: oneOf(fieldValidation ?? 'strict', ['strict', 'warn', 'ignore'], 'fieldValidation'),
    managerSuffix: optionalText(managerSuffix, 'managerSuffix'),
    fields: fields === undefined || fields === null ? undefined : texts(fields, 'fields'),
  };
}

function subresourceOf(subresource) {
  if (subresource === undefined || subresource === null) return undefined;
  if (typeof subresource === 'string') return { name: text(subresource, 'subresource'), parent: undefined };
  const { name, parent } = known(subresource, ['name', 'parent'], 'subresource');
  return { name: text(name, 'subresource.name'), parent: optionalReference(parent, 'subresource.parent') };
}

const DELETE_OPTIONS = ['resourceVersion', 'propagation', 'gracePeriodMs', 'dryRun'];

function deleteOptions(options) {
  const { resourceVersion, propagation, gracePeriodMs, dryRun } = known(options, DELETE_OPTIONS, 'the options of a delete');
  return {
    resourceVersion: optionalText(resourceVersion, 'resourceVersion'),
    propagation: oneOf(propagation ?? 'background', ['background', 'foreground', 'orphan'], 'propagation'),
    gracePeriodMs: optionalMilliseconds(gracePeriodMs, 'gracePeriodMs'),
    dryRun: dryRun === true,
  };
}
