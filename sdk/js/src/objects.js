// References to objects, and functions on objects. Pure.

export function formatRef(target) {
  if (typeof target !== 'object' || target === null) throw new TypeError(`formatRef needs a reference, not ${target}`);
  const { kind, namespace, name } = target;
  return namespace == null ? `${kind} ${name}` : `${kind} ${namespace}/${name}`;
}

export function refOf(object) {
  const { namespace, name, uid } = object.metadata;
  const found = { apiVersion: object.apiVersion, kind: object.kind };
  if (namespace !== undefined) found.namespace = namespace;
  found.name = name;
  if (uid !== undefined) found.uid = uid;
  return found;
}

export function sibling(object, apiVersion, kind) {
  const { namespace, name } = object.metadata;
  return namespace === undefined ? { apiVersion, kind, name } : { apiVersion, kind, namespace, name };
}

export function controllerOf(object) {
  return object.metadata.ownerReferences?.find((owner) => owner.controller === true);
}

export function isControlledBy(object, owner) {
  return owner.metadata.uid !== undefined && controllerOf(object)?.uid === owner.metadata.uid;
}

export function ownerReference(owner) {
  const { apiVersion, kind, metadata } = owner;
  return { apiVersion, kind, name: metadata.name, uid: metadata.uid, controller: true, blockOwnerDeletion: true };
}

export function selectorText({ matchLabels, matchExpressions }) {
  const labels = Object.entries(matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  return [...labels.sort(), ...(matchExpressions ?? []).map(requirementText)].join(',');
}

function requirementText({ key, operator, values }) {
  const set = [...new Set(values ?? [])].sort();
  const hasSet = operator === 'In' || operator === 'NotIn';
  if (hasSet && set.length === 0) throw new TypeError(`the operator ${operator} of a label selector needs values, and "${key}" has none`);
  switch (operator) {
    case 'In': return `${key} in (${set.join(',')})`;
    case 'NotIn': return `${key} notin (${set.join(',')})`;
    case 'Exists': return key;
    case 'DoesNotExist': return `!${key}`;
    default: throw new TypeError(`the operator of a label selector is In, NotIn, Exists or DoesNotExist, and not ${operator}`);
  }
}

export function hasFields(object, wanted) {
  if (Array.isArray(wanted)) {
    return Array.isArray(object) && wanted.every((part) => object.some((element) => hasFields(element, part)));
  }
  if (typeof wanted === 'object' && wanted !== null) {
    return (
      typeof object === 'object' && object !== null && !Array.isArray(object) &&
      Object.keys(wanted).every((key) => wanted[key] === undefined || (Object.hasOwn(object, key) && hasFields(object[key], wanted[key])))
    );
  }
  return areEqual(object, wanted);
}

/** Whether two values that are neither objects nor lists are equal. A BigInt equals the number of the same value. */
export function areEqual(one, other) {
  // `==` compares a number and a BigInt by their exact values.
  return one === other || (isNumber(one) && isNumber(other) && one == other);
}

function isNumber(value) {
  return typeof value === 'number' || typeof value === 'bigint';
}

export function deepEqual(a, b) {
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((part, place) => deepEqual(part, b[place]));
  }
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return areEqual(a, b);
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => deepEqual(a[key], b[key]));
}
