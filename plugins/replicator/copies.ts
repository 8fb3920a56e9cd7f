// The desired copies, and how the existing ones differ. Pure: nothing here calls the host.

import { deepEqual, type KubernetesObject } from 'windlass';
import {
  annotation, ALLOWED, ALLOWED_NAMESPACES, AT, emptyValue, FROM_VERSION, KEYS, type Kind, LABELS, MERGED, nameOf, parts, SOURCE,
  STRIP_LABELS, WRITTEN,
} from './api.js';
import { fitsAny } from './pattern.js';

/** The words for `true` that the original takes. */
const TRUE: ReadonlySet<string> = new Set(['1', 't', 'T', 'TRUE', 'true', 'True']);

/** A JSON merge patch of an object. */
export type Patch = Record<string, Record<string, unknown>>;

/** Whether a source permits objects of a namespace to copy its data. */
export function permits(source: KubernetesObject, namespace: string): boolean {
  const patterns = parts(annotation(source, ALLOWED_NAMESPACES));
  return TRUE.has(annotation(source, ALLOWED)?.trim() ?? '') && fitsAny(patterns, namespace);
}

/** The labels that pushed copies of a source get. */
function labelsFor(source: KubernetesObject): Record<string, string> {
  return annotation(source, STRIP_LABELS)?.trim() === 'true' ? {} : source.metadata.labels ?? {};
}

/** The sorted keys of maps, as the text of an annotation. */
function keysText(...maps: unknown[]): string {
  return maps.flatMap((map) => Object.keys(map ?? {})).sort().join(',');
}

/** The annotations that show where a copy is from. They change only with the copy, so that they cause no writes. */
function origin(kind: Kind, source: KubernetesObject): Record<string, string> {
  return { [KEYS]: keysText(...kind.fields.map((field) => source[field])) };
}

function stamps(source: KubernetesObject, now: Date): Record<string, string> {
  return { [AT]: now.toISOString().replace(/\.\d+Z$/, 'Z'), [FROM_VERSION]: source.metadata.resourceVersion ?? '' };
}

function pushOrigin(kind: Kind, source: KubernetesObject): Record<string, string> {
  return { ...origin(kind, source), [SOURCE]: nameOf(source), [LABELS]: keysText(labelsFor(source)) };
}

/** A new copy in a namespace that has no object of this name. */
export function newCopy(kind: Kind, source: KubernetesObject, namespace: string, now: Date): KubernetesObject {
  const { apiVersion, kind: name, fields } = kind;
  const copy: KubernetesObject = {
    apiVersion,
    kind: name,
    metadata: {
      name: source.metadata.name,
      namespace,
      labels: labelsFor(source),
      annotations: { ...pushOrigin(kind, source), ...stamps(source, now) },
    },
  };
  for (const field of fields) if (source[field] !== undefined) copy[field] = source[field];
  if (source['type'] !== undefined) copy['type'] = source['type'];
  return copy;
}

/** The patch that gives a target the data of its source. Undefined if it has them. */
export function pullPatch(kind: Kind, copy: KubernetesObject, source: KubernetesObject, now: Date): Patch | undefined {
  // An object that was pushed before, and now pulls, no longer belongs to the pushing source.
  const former = Object.fromEntries([SOURCE, LABELS, MERGED].map((key) => [key, null]));
  return stamped(copy, source, now, { ...dataPatch(kind, copy, source), metadata: { annotations: { ...former, ...origin(kind, source) } } });
}

/** The patch that brings a pushed copy to the state of its source. Undefined if it has that state. */
export function pushPatch(kind: Kind, copy: KubernetesObject, source: KubernetesObject, now: Date): Patch | undefined {
  const metadata: Record<string, unknown> = { annotations: pushOrigin(kind, source) };
  // The labels of an object that existed before belong to its owner.
  if (annotation(copy, MERGED) === undefined) {
    const labels = labelsFor(source);
    const former = parts(annotation(copy, LABELS)).filter((key) => !Object.hasOwn(labels, key));
    metadata['labels'] = { ...Object.fromEntries(former.map((key) => [key, null])), ...labels };
  } else {
    metadata['annotations'] = { ...pushOrigin(kind, source), [LABELS]: '' };
  }
  return stamped(copy, source, now, { ...dataPatch(kind, copy, source), metadata });
}

/** The patch that removes what came from a source. Undefined if nothing did. */
export function clearPatch(kind: Kind, copy: KubernetesObject): Patch | undefined {
  const gone = { ...copy, data: {}, binaryData: {} } as KubernetesObject;
  const labels = annotation(copy, MERGED) === undefined ? parts(annotation(copy, LABELS)) : [];
  const metadata = {
    annotations: Object.fromEntries(WRITTEN.map((key) => [key, null])),
    labels: Object.fromEntries(labels.map((key) => [key, null])),
  };
  return reduced(copy, { ...dataPatch(kind, copy, gone), metadata });
}

/** Whether a pushed copy has nothing but what came from its source. */
export function isWhollyCopied(kind: Kind, copy: KubernetesObject): boolean {
  const copied = new Set(parts(annotation(copy, KEYS)));
  const keys = kind.fields.flatMap((field) => Object.keys(copy[field] ?? {}));
  return annotation(copy, MERGED) === undefined && keys.every((key) => copied.has(key));
}

/** The data of the source, and null for keys that the copy had from an earlier state of the source. */
function dataPatch({ fields }: Kind, copy: KubernetesObject, source: KubernetesObject): Patch {
  const former = parts(annotation(copy, KEYS));
  const patch: Patch = {};
  for (const field of fields) {
    const wanted: Record<string, unknown> = { ...source[field] };
    // A key of the copy may be in one of the two fields only.
    const others = fields.filter((other) => other !== field).flatMap((other) => Object.keys(source[other] ?? {}));
    for (const key of [...former, ...others]) {
      if (!Object.hasOwn(wanted, key)) wanted[key] = emptyValue(copy['type'], key);
    }
    patch[field] = wanted;
  }
  return patch;
}

/** The part of a patch that changes something, with the time and version of the change. */
function stamped(copy: KubernetesObject, source: KubernetesObject, now: Date, patch: Patch): Patch | undefined {
  const needed = reduced(copy, patch);
  if (needed === undefined) return undefined;
  const { annotations } = needed['metadata'] ?? {};
  return { ...needed, metadata: { ...needed['metadata'], annotations: { ...(annotations as object), ...stamps(source, now) } } };
}

/** The part of a patch that changes something. Undefined if nothing would change. */
function reduced(current: unknown, patch: Patch): Patch | undefined {
  return reducedValue(current, patch) as Patch | undefined;
}

function reducedValue(current: unknown, wanted: unknown): unknown {
  if (wanted === null) return current === undefined || current === null ? undefined : null;
  if (typeof wanted !== 'object') return deepEqual(current, wanted) ? undefined : wanted;
  const fields = Object.entries(wanted)
    .map(([key, value]) => [key, reducedValue((current as Record<string, unknown> | undefined)?.[key], value)] as const)
    .filter(([, value]) => value !== undefined);
  return fields.length === 0 ? undefined : Object.fromEntries(fields);
}
