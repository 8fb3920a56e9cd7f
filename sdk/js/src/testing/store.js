// The objects of a test's cluster, and the effects of writes: enough for plugins, but not an API server. An apply merges objects, and
// replaces lists as a whole.

import { ownerReference } from '../objects.js';
import { Definitions } from './definitions.js';
import { selects } from './selector.js';

/** The reason why the store refuses a write. */
export class Refusal extends Error {
  constructor(reason, message) {
    super(message);
    this.reason = reason;
  }
}

export function identity({ apiVersion, kind, metadata }) {
  return { apiVersion, kind, namespace: metadata?.namespace, name: metadata?.name, uid: metadata?.uid };
}

const keyOf = ({ apiVersion, kind, namespace, name }) => [apiVersion, kind, namespace ?? '', name].join(' ');

export class Store {
  #objects = new Map();
  #definitions = new Definitions();
  #version = 0;

  define(yaml) {
    this.#definitions.add(yaml);
  }

  get(target) {
    const found = this.#objects.get(keyOf(target));
    return target.uid == null || found?.metadata.uid === target.uid ? found : undefined;
  }

  /** Stores an object, with the fields that a server would add. */
  put(object) {
    this.#version += 1;
    this.#definitions.fill(object);
    const key = keyOf(identity(object));
    object.metadata.uid ??= this.#objects.get(key)?.metadata.uid ?? `uid-${this.#version}`;
    object.metadata.resourceVersion = String(this.#version);
    this.#objects.set(key, object);
    return object;
  }

  /** Removes an object, and the objects that it controls, as the garbage collector does. */
  remove(target, { orphans = false } = {}) {
    const gone = this.#objects.get(keyOf(target));
    this.#objects.delete(keyOf(target));
    const controlled = gone === undefined ? [] : [...this.#objects.values()].filter((object) => isControlled(object, gone));
    for (const { metadata, ...object } of controlled) {
      if (orphans) metadata.ownerReferences = metadata.ownerReferences.filter(({ uid }) => uid !== gone.metadata.uid);
      else if (waits({ metadata })) metadata.deletionTimestamp ??= '2026-01-01T00:00:00Z';
      else this.remove(identity({ metadata, ...object }));
    }
  }

  /** Returns a copy of an object with its defaults. Refuses an object that does not fit its definition. */
  admitted(object, { subresource, fieldValidation = 'strict' } = {}) {
    const admitted = structuredClone(object);
    this.#definitions.fill(admitted);
    const misfits = this.#definitions.misfits(admitted, { subresource: subresource?.name, isStrict: fieldValidation === 'strict' });
    if (misfits.length > 0) throw new Refusal('invalid', `the object does not fit its definition: ${misfits.join('; ')}`);
    return admitted;
  }

  list({ apiVersion, kind, namespace, labelSelector, owner, index, indexes = [] }) {
    const source = index == null ? undefined : indexes.find(({ name }) => name === index.index)?.source;
    return [...this.#objects.values()].filter((object) =>
      object.apiVersion === apiVersion && object.kind === kind &&
      (namespace == null || object.metadata.namespace === namespace) &&
      (labelSelector == null || selects(labelSelector, object.metadata.labels ?? {})) &&
      (owner === undefined || isControlled(object, owner)) &&
      (index == null || indexed(object, source).includes(index.value)));
  }

  /** Returns the kinds of the objects and of the definitions, each once, by group and kind. */
  kinds() {
    const found = [...this.#objects.values(), ...this.#definitions.kinds()].map(({ apiVersion, kind }) => ({ apiVersion, kind }));
    // A kind with several versions is listed with the first one.
    found.sort((one, other) => compared(groupKind(one), groupKind(other)) || compared(one.apiVersion, other.apiVersion));
    return found.filter((kind, place) => place === 0 || groupKind(kind) !== groupKind(found[place - 1]));
  }

  claim(query, primary) {
    const claimed = { adopted: [], released: [] };
    const all = this.list({ ...query, labelSelector: undefined, namespace: primary.metadata.namespace });
    for (const object of all) {
      const fits = selects(query.labelSelector, object.metadata.labels ?? {});
      const owners = object.metadata.ownerReferences ?? [];
      if (isControlled(object, primary) && !fits) {
        object.metadata.ownerReferences = owners.filter(({ uid }) => uid !== primary.metadata.uid);
        claimed.released.push(identity(this.put(object)));
      } else if (fits && !owners.some(({ controller }) => controller)) {
        object.metadata.ownerReferences = [...owners, ownerReference(primary)];
        claimed.adopted.push(identity(this.put(object)));
      }
    }
    return claimed;
  }

  /** Deletes the objects that a selector matches, and returns their references. */
  deleteCollection({ apiVersion, kind, namespace, labelSelector, fieldSelector, all }, { dryRun, propagation }) {
    if (!all && labelSelector === undefined && fieldSelector === undefined) throw new Refusal('invalid', 'nothing is selected');
    if (fieldSelector !== undefined) throw new TypeError('TestHost does not support field selectors');
    const found = this.list({ apiVersion, kind, namespace, labelSelector });
    const deleted = found.map(identity);
    for (const object of found) this.#delete(object, { dryRun, propagation });
    return deleted;
  }

  /** Carries a write out, and returns the object; undefined after a deletion. */
  write({ op, object, target, patchType, patch, options }, primary, answers) {
    const isNamed = object?.metadata?.name !== undefined || object?.metadata?.generateName !== undefined;
    if (op === 'create' && options.subresource === undefined && !isNamed) {
      // An object without a name is of a kind that is not stored.
      return answers[object.kind] ?? object;
    }
    const parent = options.subresource?.parent;
    const about = parent ?? target ?? identity(object);
    if (op === 'patch' && options.owned && patchType !== 'strategic') {
      throw new Refusal('invalid', 'a merge or JSON patch cannot make the primary the controller: use apply or a strategic patch');
    }
    const before = this.#before(op, about, options);
    if (op === 'delete') return this.#delete(before, options);
    if (op === 'create' && options.subresource === undefined && object.metadata.name === undefined) {
      object.metadata.name = `${object.metadata.generateName}${this.#version + 1}`;
    }
    let after = changed({ op, object, patchType, patch }, before);
    if (options.owned && options.subresource === undefined) after = ownedBy(primary, after);
    if (options.subresource?.name === 'status') after = { ...before, status: after.status };
    else if (options.subresource?.name === 'scale') after = merged(before, { spec: { replicas: after.spec.replicas } });
    else if (options.subresource !== undefined) return object ?? before;
    after = this.admitted(after, options);
    if (options.dryRun) return after;
    const written = structuredClone(this.put(after));
    if (before !== undefined && waits(before) && before.metadata.deletionTimestamp !== undefined && !waits(written)) this.remove(about);
    return written;
  }

  #before(op, about, { subresource, resourceVersion }) {
    const before = this.get(about);
    const isNew = (op === 'create' || op === 'apply') && subresource === undefined;
    if (before === undefined && !isNew) throw new Refusal('not-found', `${about.kind} "${about.name}" not found`);
    if (before !== undefined && op === 'create' && subresource === undefined) {
      throw new Refusal('already-exists', `${about.kind} "${about.name}" already exists`);
    }
    if (resourceVersion !== undefined && before?.metadata.resourceVersion !== resourceVersion) {
      throw new Refusal('conflict', `${about.kind} "${about.name}" is at another version`);
    }
    return before;
  }

  #delete(before, { dryRun, propagation }) {
    if (dryRun) return before;
    if (waits(before)) {
      before.metadata.deletionTimestamp ??= '2026-01-01T00:00:00Z';
      return structuredClone(this.put(before));
    }
    this.remove(identity(before), { orphans: propagation === 'orphan' });
    return undefined;
  }
}

function groupKind({ apiVersion, kind }) {
  const [group] = apiVersion.includes('/') ? apiVersion.split('/') : [''];
  return `${group} ${kind}`;
}

function compared(one, other) {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

function ownedBy(primary, { metadata, ...object }) {
  const others = (metadata.ownerReferences ?? []).filter(({ uid }) => uid !== primary.metadata.uid);
  return { ...object, metadata: { ...metadata, ownerReferences: [...others, ownerReference(primary)] } };
}

function waits({ metadata }) {
  return metadata.finalizers?.length > 0;
}

function isControlled(object, { metadata }) {
  return (object.metadata.ownerReferences ?? []).some(({ uid, controller }) => controller === true && uid === metadata.uid);
}

function indexed(object, source) {
  if (source === undefined) return [];
  if (source.type === 'label') return [object.metadata.labels?.[source.key]];
  if (source.type === 'field') return at(object, source.pointer).flat();
  throw new Error(`the test host has no indexes of the type "${source.type}": test the function that uses the objects directly`);
}

/** Returns the values at a pointer, in which `*` stands for each element of a list. */
function at(object, pointer) {
  const below = (key) => (within) => (key === '*' && Array.isArray(within) ? within : [within?.[unescaped(key)]]);
  return pointer.slice(1).split('/').reduce((found, key) => found.flatMap(below(key)), [object]);
}

function changed({ op, object, patchType, patch }, before) {
  if (op === 'create') return object;
  if (op === 'update') return { ...object, metadata: { ...object.metadata, uid: before.metadata.uid } };
  if (op === 'apply') return before === undefined ? object : merged(before, object);
  return patchType === 'json' ? patch.reduce(operated, structuredClone(before)) : merged(before, patch);
}

/** Merges as RFC 7386 says. */
function merged(before, patch) {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const after = typeof before === 'object' && before !== null && !Array.isArray(before) ? { ...before } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete after[key];
    else after[key] = merged(after[key], value);
  }
  return after;
}

/** Carries out one operation of a JSON patch that changes something. */
function operated(document, { op, path, value }) {
  const keys = path.slice(1).split('/').map(unescaped);
  const last = keys.pop();
  const place = keys.reduce((within, key) => within?.[key], document);
  if (place === undefined || !['add', 'replace', 'remove'].includes(op)) {
    throw new Refusal('invalid', `the patch cannot ${op} ${path}`);
  }
  if (Array.isArray(place)) {
    const at = last === '-' ? place.length : Number(last);
    place.splice(at, op === 'add' ? 0 : 1, ...(op === 'remove' ? [] : [value]));
  } else if (op === 'remove') delete place[last];
  else place[last] = value;
  return document;
}

function unescaped(key) {
  return key.replaceAll('~1', '/').replaceAll('~0', '~');
}
