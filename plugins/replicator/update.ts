// Brings one copy to the state of its source, or removes it.

import { cache, config, events, isApiError, type KubernetesObject, live, type ObjectRef, refOf, writes } from 'windlass';
import { annotation, type Config, FROM, KEYS, type Kind, nameOf, refTo, SOURCE } from './api.js';
import { clearPatch, isWhollyCopied, type Patch, permits, pullPatch, pushPatch } from './copies.js';
import { hasUnreadableDestination } from './mistakes.js';
import { isPushedTo, mayGetCopies } from './namespaces.js';

/** The most objects of a chain in which each one pulls from the next. */
const CHAIN_LENGTH_MAX = 16;

/** Updates a copy. An object that names no source is left alone: the original has made it, and its source is gone. */
export function update(kind: Kind, copy: KubernetesObject): void {
  const [from, source] = [annotation(copy, FROM), annotation(copy, SOURCE)];
  if (from !== undefined) {
    pull(kind, copy, from);
  } else if (source !== undefined) {
    const ref = refTo(kind, source);
    if (ref === undefined) warn('InvalidAnnotation', `${SOURCE} is "${source}", so the object stays as it is: remove the annotation, or write NAMESPACE/NAME`);
    else follow(kind, copy, ref);
  }
}

/** Updates an object that names its source in an annotation. */
function pull(kind: Kind, copy: KubernetesObject, from: string): void {
  const ref = refTo(kind, from);
  const namespace = copy.metadata.namespace as string;
  if (ref === undefined) {
    warn('InvalidAnnotation', `${FROM} is "${from}": write it as NAMESPACE/NAME`);
    return;
  }
  if (isInCycle(kind, copy, ref)) {
    warn('InvalidAnnotation', `${FROM} leads in a circle by ${from}: remove it from one of the objects`);
    return;
  }
  const isAllAllowed = (config.get<Config>().allowAll ?? []).some((it) => it.apiVersion === kind.apiVersion && it.kind === kind.kind);
  // The cache has only the metadata of some sources then.
  const source = isAllAllowed ? live.get(ref) : cache.get(ref);
  if (source !== undefined && (isAllAllowed || permits(source, namespace))) {
    patch(copy, pullPatch(kind, copy, source, new Date()), 'updated a target');
    return;
  }
  // The cache has no source without annotations. Only the server can say whether the source is gone or has lost them.
  const isGone = source === undefined && (isAllAllowed || annotation(copy, KEYS) === undefined || live.get(ref, { metadataOnly: true }) === undefined);
  if (isGone) patch(copy, clearPatch(kind, copy), 'cleared a target, because its source is gone');
  // The text is the same in both cases, so that it does not show which objects other namespaces have.
  warn('SourceUnavailable', `${kind.kind} ${from} does not exist, or does not permit replication to ${namespace}; it needs the annotations replication-allowed and replication-allowed-namespaces`);
}

/** Whether the chain of sources of a target leads back to one of its objects. */
function isInCycle({ apiVersion, kind }: Kind, copy: KubernetesObject, ref: ObjectRef): boolean {
  const seen = new Set([nameOf(copy)]);
  let next: ObjectRef | undefined = ref;
  while (next !== undefined && seen.size < CHAIN_LENGTH_MAX) {
    const name = `${next.namespace}/${next.name}`;
    if (seen.has(name)) return true;
    seen.add(name);
    const found: KubernetesObject | undefined = cache.get(next);
    const from: string | undefined = found === undefined ? undefined : annotation(found, FROM);
    next = from === undefined ? undefined : refTo({ apiVersion, kind } as Kind, from);
  }
  return next !== undefined;
}

/**
 * Updates a pushed copy, or removes it if its source is gone or is no longer pushed to its namespace. A copy stays as
 * it is while its namespace is excluded or not known yet, and while its source has a pattern or a selector that cannot
 * be read.
 */
function follow(kind: Kind, copy: KubernetesObject, ref: ObjectRef): void {
  const source = cache.get(ref);
  const namespace = copy.metadata.namespace as string;
  if (source === undefined) {
    // The watch of sources may lag behind that of copies, such as while a backup is restored. It runs the copy again.
    const current = live.get(ref, { metadataOnly: true });
    if (current !== undefined && isPushedTo(current, namespace)) return;
    remove(kind, copy, 'its source is gone');
  } else if (!mayGetCopies(namespace)) {
    console.info('left a copy, because its namespace is excluded', { kind: kind.kind });
  } else if (!isPushedTo(source, namespace)) {
    // What cannot be read may be what selects this namespace. plugin.ts reports it.
    if (hasUnreadableDestination(source)) return;
    // Labels of a namespace may select it. The namespace runs the copy when it appears.
    if (cache.get({ apiVersion: 'v1', kind: 'Namespace', name: namespace }) === undefined) return;
    remove(kind, copy, 'its source is no longer pushed to this namespace');
  } else if (source['type'] !== copy['type'] && isWhollyCopied(kind, copy)) {
    // The type cannot be changed. push.ts creates the copy again.
    remove(kind, copy, 'its source has another type');
  } else {
    patch(copy, pushPatch(kind, copy, source, new Date()), 'updated a copy');
  }
}

/** Deletes a copy. An object with content of its own only loses the content of the source. */
function remove(kind: Kind, copy: KubernetesObject, because: string): void {
  if (!isWhollyCopied(kind, copy)) {
    patch(copy, clearPatch(kind, copy), 'removed the content of the source');
    return;
  }
  try {
    writes.delete(refOf(copy), { resourceVersion: copy.metadata.resourceVersion });
    console.info('deleted a copy', { kind: kind.kind, because });
  } catch (error) {
    if (!isApiError(error, 'not-found')) throw error;
  }
}

/** Patches the version of a copy that the decision is about. */
function patch(copy: KubernetesObject, wanted: Patch | undefined, what: string): void {
  if (wanted === undefined) return;
  try {
    writes.patch(refOf(copy), 'merge', wanted, { resourceVersion: copy.metadata.resourceVersion, fields: [] });
    console.info(what, { kind: copy.kind });
  } catch (error) {
    if (isApiError(error, 'invalid')) warn('Refused', `the API server refuses the data of the source: ${(error as Error).message}`);
    throw error;
  }
}

function warn(reason: string, note: string): void {
  events.warning(reason, 'Replicate', note);
}
