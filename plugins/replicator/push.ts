// Creates the missing copies of one source, and adopts copies that the original has made. update.ts brings each
// existing copy to the state of its source.

import {
  type ApiError, cache, events, isApiError, type KubernetesObject, live, type ObjectRef, type Outcome, refOf, requeueAfter,
  throwAll, writes,
} from 'windlass';
import { annotation, FROM, FROM_VERSION, type Kind, MERGED, nameOf, refTo, SOURCE } from './api.js';
import { newCopy } from './copies.js';
import { isPushedTo, namespacesOf } from './namespaces.js';

/** The most writes of a call. Writes to all namespaces of a large cluster would exceed the host's limits. */
const WRITES_MAX = 200;
/** The pause before the next call, which continues with the rest. */
const CONTINUE_AFTER_MS = 10;

/** The annotations of an object that say whose copy it is. */
const ORIGINS = [FROM, SOURCE, FROM_VERSION].map((key) => `/metadata/annotations/${key.replace('/', '~1')}`);

/** Creates the copies of a source that namespaces lack. */
export function push(kind: Kind, source: KubernetesObject): Outcome | undefined {
  const { apiVersion, kind: kindName } = kind;
  const name = source.metadata.name as string;
  const targets = namespacesOf(source).map((namespace) => ({ apiVersion, kind: kindName, namespace, name }));
  const errors: unknown[] = [];
  const operations: writes.Operation[] = [];
  cache.getMany(targets, { fields: [...ORIGINS, '/metadata/resourceVersion'] }).forEach(({ object: found, error }, place) => {
    if (error !== undefined) {
      errors.push(error);
    } else if (found === undefined) {
      const copy = newCopy(kind, source, targets[place]!.namespace, new Date());
      operations.push({ op: 'create', object: copy, options: { fields: [] } });
    } else if (isUnclaimed(found)) {
      operations.push(adoption(found, source));
    } else {
      reportTaken(kind, source, found);
    }
  });
  errors.push(...send(source, operations.slice(0, WRITES_MAX)));
  throwAll(errors);
  return operations.length > WRITES_MAX ? requeueAfter(CONTINUE_AFTER_MS) : undefined;
}

/** Whether an object belongs to no source: the original has made it, or another client. */
function isUnclaimed(object: KubernetesObject): boolean {
  return annotation(object, FROM) === undefined && annotation(object, SOURCE) === undefined;
}

/** Carries out the operations, and returns the errors that are worth a retry. */
function send(source: KubernetesObject, operations: writes.Operation[]): unknown[] {
  if (operations.length === 0) return [];
  console.info('creates copies', { kind: source.kind, source: nameOf(source), count: operations.length });
  return writes.batch(operations).flatMap(({ error }, place) => {
    if (error === undefined || isNamespaceGone(error)) return [];
    const operation = operations[place]!;
    if (!isApiError(error, 'already-exists') || operation.op !== 'create') return [error];
    return merge(source, refOf(operation.object as KubernetesObject));
  });
}

/** Whether a write failed because its namespace goes. If the namespace comes again, it is a new one. */
function isNamespaceGone(error: ApiError): boolean {
  return isApiError(error, 'namespace-terminating') || (isApiError(error, 'not-found') && error.object === undefined);
}

/** Makes an existing object, which is no copy yet, a copy that keeps its own content. */
function merge(source: KubernetesObject, target: ObjectRef): unknown[] {
  try {
    const existing = live.get(target, { metadataOnly: true });
    // A copy that the cache does not show yet will run the source again, and so will an object that has gone.
    if (existing === undefined || !isUnclaimed(existing)) return [];
    return writes.batch([adoption(existing, source)]).flatMap(({ error }) => error ?? []);
  } catch (error) {
    return [error];
  }
}

/** Marks an object as a copy of a source. update.ts then gives it the source's data. */
function adoption(object: KubernetesObject, source: KubernetesObject): writes.Operation {
  const isOfOriginal = annotation(object, FROM_VERSION) !== undefined;
  const annotations = { [SOURCE]: nameOf(source), ...(!isOfOriginal && { [MERGED]: 'true' }) };
  const resourceVersion = object.metadata.resourceVersion ?? '';
  return { op: 'patch', target: refOf(object), patchType: 'merge', patch: { metadata: { annotations } }, options: { resourceVersion, fields: [] } };
}

/** Reports that the name of a copy belongs to another source, unless that source is about to release it. */
function reportTaken(kind: Kind, source: KubernetesObject, found: KubernetesObject): void {
  const [from, owner] = [annotation(found, FROM), annotation(found, SOURCE)];
  if (from === undefined) {
    const ref = owner === nameOf(source) ? undefined : refTo(kind, owner ?? '');
    const other = ref === undefined ? undefined : cache.get(ref);
    if (other === undefined || !isPushedTo(other, found.metadata.namespace as string)) return;
  }
  const what = from === undefined ? `a copy of ${owner}` : `pulled from ${from}`;
  const place = nameOf(found);
  events.warning('TargetTaken', 'Replicate', `not replicated to ${place}, which is ${what}; rename one of the two sources`);
}
