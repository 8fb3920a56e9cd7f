// Computes the patch that gives an object the desired fields. Pure.

import { areEqual, controllerOf } from './objects.js';

/** The fields of `metadata` that only the server sets. */
const SET_BY_SERVER = [
  'uid', 'resourceVersion', 'generation', 'creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds', 'managedFields',
  'selfLink',
];

/** The controller of `cached`, if `desired` has another one. */
export function otherController(cached, desired) {
  const [has, wants] = [cached, desired].map((object) => (isObject(object.metadata) ? controllerOf(object) : undefined));
  return has !== undefined && wants !== undefined && has.uid !== wants.uid ? `${has.kind} ${has.name}` : undefined;
}

/** The version of `cached`, if the patch must not be applied to a later one. */
export function versionOf(cached, patch) {
  return mayUndo(patch) ? cached.metadata?.resourceVersion : undefined;
}

/** Whether a merge patch may undo newer writes of other clients: it replaces whole lists, and a null removes a field. */
function mayUndo(patch) {
  return isObject(patch) ? Object.values(patch).some(mayUndo) : patch === null || Array.isArray(patch);
}

/** The merge patch that gives `cached` the fields of `desired`. Undefined: it has them. */
export function patchOf(cached, desired) {
  const wanted = without(desired, ['apiVersion', 'kind', 'status']);
  if (isObject(wanted.metadata)) {
    // The server drops empty maps and lists in metadata.
    const empty = Object.keys(wanted.metadata).filter((field) => isEmpty(wanted.metadata[field]));
    wanted.metadata = without(wanted.metadata, [...SET_BY_SERVER, ...empty]);
    for (const list of ['ownerReferences', 'finalizers']) {
      const [has, wants] = [cached.metadata?.[list], wanted.metadata[list]];
      if (Array.isArray(has) && Array.isArray(wants)) wanted.metadata[list] = joined(has, wants);
    }
  }
  return difference(cached, wanted);
}

function without(object, fields) {
  return Object.fromEntries(Object.entries(object).filter(([field]) => !fields.includes(field)));
}

function isEmpty(value) {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

/**
 * Returns `has` with the owners or finalizers of `wanted`. A wanted entry replaces the entry of the same owner or
 * finalizer, or is appended.
 */
function joined(has, wanted) {
  const all = [...has];
  for (const element of wanted) {
    const place = all.findIndex((it) => (isObject(it) ? it.uid === element?.uid : it === element));
    if (place < 0) all.push(element);
    else all[place] = overlaid(all[place], element);
  }
  return all;
}

/** The merge patch that changes `has`, null if missing, into `wanted`. Undefined: nothing differs. */
function difference(has, wanted) {
  if (isObject(has) && isObject(wanted)) {
    const fields = Object.entries(wanted).map(([field, value]) => [field, difference(fieldOf(has, field), value)]);
    const differing = fields.filter(([, value]) => value !== undefined);
    return differing.length > 0 ? Object.fromEntries(differing) : undefined;
  }
  if (shows(has, wanted)) return undefined;
  if (has === null) return withoutNulls(wanted);
  if (Array.isArray(has) && Array.isArray(wanted)) {
    return wanted.map((element, place) =>
      areNamedAlike(has[place], element) ? overlaid(has[place], element) : (withoutNulls(element) ?? null),
    );
  }
  // Nulls may stay in this value: a merge patch drops them when it replaces a value of another type.
  return wanted;
}

/**
 * Whether the value `has`, which is null if it is missing, has all `wanted` fields. A missing value is enough for a
 * wanted null, and for a wanted object that contains only nulls. It is not enough for an empty object or list, such as
 * `emptyDir: {}`.
 */
function shows(has, wanted) {
  if (isObject(wanted)) {
    const fields = Object.entries(wanted);
    if (has === null) return fields.length > 0 && fields.every(([, value]) => shows(null, value));
    return isObject(has) && fields.every(([field, value]) => shows(fieldOf(has, field), value));
  }
  if (Array.isArray(wanted)) {
    return Array.isArray(has) && has.length === wanted.length && wanted.every((element, place) => shows(has[place], element));
  }
  return areEqual(has, wanted);
}

function fieldOf(object, field) {
  return Object.hasOwn(object, field) ? object[field] : null;
}

function areNamedAlike(has, wanted) {
  return isObject(has) && isObject(wanted) && typeof has.name === 'string' && has.name === wanted.name;
}

/** Returns `has` with the `wanted` fields, as a merge patch would leave it. */
function overlaid(has, wanted) {
  if (!isObject(has) || !isObject(wanted)) return withoutNulls(wanted) ?? null;
  const all = new Map(Object.entries(has));
  for (const [field, value] of Object.entries(wanted)) {
    const known = fieldOf(has, field);
    if (value === null) all.delete(field);
    else if (!shows(known, value)) all.set(field, overlaid(known, value));
  }
  return Object.fromEntries(all);
}

/** Returns a value without the nulls in its objects. Undefined: the value itself is null. */
function withoutNulls(value) {
  if (value === null) return undefined;
  if (Array.isArray(value)) return value.map((element) => withoutNulls(element) ?? null);
  if (!isObject(value)) return value;
  const kept = Object.entries(value).map(([field, inner]) => [field, withoutNulls(inner)]);
  return Object.fromEntries(kept.filter(([, inner]) => inner !== undefined));
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
