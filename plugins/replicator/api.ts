// The annotations, the configuration, and the kinds that are replicated. Pure: nothing here calls the host.

import type { KubernetesObject, ObjectMeta, ObjectRef } from 'windlass';

const ORIGINAL = 'replicator.v1.mittwald.de';
const OURS = 'replicator.windlass.dev';

/** On a source: the namespaces to copy it to, as names or patterns. */
export const TO = `${ORIGINAL}/replicate-to`;
/** On a source: a label selector of namespaces to copy it to. */
export const TO_MATCHING = `${ORIGINAL}/replicate-to-matching`;
/** On a source: `true` if other objects may copy its data. */
export const ALLOWED = `${ORIGINAL}/replication-allowed`;
/** On a source: the namespaces, as names or patterns, of objects that may copy its data. */
export const ALLOWED_NAMESPACES = `${ORIGINAL}/replication-allowed-namespaces`;
/** On a source: `true` if its labels are not copied. */
export const STRIP_LABELS = `${ORIGINAL}/strip-labels`;
/** On a target: the `namespace/name` of the source. */
export const FROM = `${ORIGINAL}/replicate-from`;

/** On a copy: the source's resource version, the time, and the copied keys. */
export const FROM_VERSION = `${ORIGINAL}/replicated-from-version`;
export const AT = `${ORIGINAL}/replicated-at`;
export const KEYS = `${ORIGINAL}/replicated-keys`;

/** On a pushed copy: the `namespace/name` of the source. The original does not record it. */
export const SOURCE = `${OURS}/source`;
/** On a pushed copy: the keys of the copied labels. */
export const LABELS = `${OURS}/labels`;
/** On a pushed copy: `true` if the object existed before, so that it stays when the source goes. */
export const MERGED = `${OURS}/merged`;

/** All annotations that the plugin writes. */
export const WRITTEN = [FROM_VERSION, AT, KEYS, SOURCE, LABELS, MERGED];

/** The operator's configuration. */
export interface Config {
  /** Kinds whose objects may be copied without their permission. */
  allowAll?: Array<{ apiVersion: string; kind: string }>;
  /** Namespaces, as names or patterns, that get no copies. */
  excludeNamespaces?: string[];
}

/** A kind that is replicated. */
export interface Kind {
  apiVersion: 'v1';
  kind: 'Secret' | 'ConfigMap';
  /** The prefix of its controllers' names. */
  prefix: 'secret' | 'configmap';
  /** The fields with keys and values. */
  fields: ReadonlyArray<'data' | 'binaryData'>;
}

export const KINDS: readonly Kind[] = [
  { apiVersion: 'v1', kind: 'Secret', prefix: 'secret', fields: ['data'] },
  { apiVersion: 'v1', kind: 'ConfigMap', prefix: 'configmap', fields: ['data', 'binaryData'] },
];

/** The values that the API server requires in a Secret of some types, empty as far as it permits. */
const REQUIRED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'kubernetes.io/tls': { 'tls.crt': '', 'tls.key': '' },
  'kubernetes.io/ssh-auth': { 'ssh-privatekey': '' },
  'kubernetes.io/basic-auth': { username: '' },
  // `{}` in base64.
  'kubernetes.io/dockercfg': { '.dockercfg': 'e30=' },
  'kubernetes.io/dockerconfigjson': { '.dockerconfigjson': 'e30=' },
};

/** The value for a key that has lost its source. Null removes the key. */
export function emptyValue(type: unknown, key: string): string | null {
  return REQUIRED[String(type)]?.[key] ?? null;
}

/** The value of an annotation. Undefined if it is missing. */
export function annotation(object: { metadata: ObjectMeta }, key: string): string | undefined {
  return object.metadata.annotations?.[key];
}

/** The parts of a list that is separated by commas, without the space around them. */
export function parts(text: string | undefined): string[] {
  return (text ?? '').split(',').map((part) => part.trim()).filter((part) => part !== '');
}

/** `namespace/name`. */
export function nameOf({ metadata }: { metadata: ObjectMeta }): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** The reference that a text `namespace/name` names. Undefined if the text has another form. */
export function refTo({ apiVersion, kind }: Kind, text: string): ObjectRef | undefined {
  const [, namespace, name] = /^([a-z0-9-]+)\/([a-z0-9.-]+)$/.exec(text.trim()) ?? [];
  return namespace === undefined || name === undefined ? undefined : { apiVersion, kind, namespace, name };
}

/** Whether the object is a source that is pushed to namespaces. */
export function isPushed(object: KubernetesObject): boolean {
  return annotation(object, TO) !== undefined || annotation(object, TO_MATCHING) !== undefined;
}
