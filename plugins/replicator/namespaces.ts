// The namespaces that get copies of a source.

import { cache, config, isApiError, type KubernetesObject } from 'windlass';
import { annotation, type Config, parts, TO, TO_MATCHING } from './api.js';
import { fitsAny, isName } from './pattern.js';

/** The field of a namespace that matters, beside its name. */
const FIELDS = ['/metadata/deletionTimestamp'];

/** The index of namespaces by name. */
export const BY_NAME = 'name';

/** Whether the operator lets sources be pushed to a namespace. */
export function mayGetCopies(namespace: string): boolean {
  return !fitsAny(config.get<Config>().excludeNamespaces ?? [], namespace);
}

/** Whether a source is pushed to a namespace that exists. */
export function isPushedTo(source: KubernetesObject, namespace: string): boolean {
  if (source.metadata.namespace === namespace || !mayGetCopies(namespace)) return false;
  if (fitsAny(parts(annotation(source, TO)), namespace)) return true;
  const selector = selectorOf(source);
  return selector !== undefined && selected(selector, namespace).length > 0;
}

/** The names of the existing namespaces to which a source is pushed, in order. */
export function namespacesOf(source: KubernetesObject): string[] {
  const patterns = parts(annotation(source, TO));
  const selector = selectorOf(source);
  const found = [...named(patterns), ...(selector === undefined ? [] : selected(selector))];
  const existing = found.filter(({ metadata }) => metadata.deletionTimestamp === undefined).map(({ metadata }) => metadata.name as string);
  const own = source.metadata.namespace;
  return [...new Set(existing)].filter((name) => name !== own && mayGetCopies(name)).sort();
}

/** The namespaces whose names fit one of the patterns. */
function named(patterns: string[]): KubernetesObject[] {
  if (!patterns.every(isName)) {
    const all = cache.list({ apiVersion: 'v1', kind: 'Namespace', fields: FIELDS });
    return all.filter(({ metadata }) => fitsAny(patterns, metadata.name as string));
  }
  const refs = patterns.map((name) => ({ apiVersion: 'v1', kind: 'Namespace', name }));
  return cache.getMany(refs, { fields: FIELDS }).flatMap(({ object, error }) => {
    if (error !== undefined) throw error;
    return object ?? [];
  });
}

/** Why the selector of a source selects nothing: it is empty, or the API server would refuse it. */
export function selectorError(source: KubernetesObject): string | undefined {
  const selector = selectorOf(source);
  if (selector === undefined) {
    return annotation(source, TO_MATCHING) === undefined ? undefined : `it is empty; for all namespaces, write ".*" in ${TO}`;
  }
  try {
    cache.page({ apiVersion: 'v1', kind: 'Namespace', labelSelector: selector, fields: [], limit: 1 });
    return undefined;
  } catch (error) {
    if (!isApiError(error, 'invalid')) throw error;
    return (error as Error).message;
  }
}

/** The selector of a source. An empty one selects nothing, because it is more likely a mistake than all namespaces. */
function selectorOf(source: KubernetesObject): string | undefined {
  const selector = annotation(source, TO_MATCHING)?.trim();
  return selector === '' ? undefined : selector;
}

/** The namespaces, or the one of this name, with matching labels. An invalid selector matches nothing. */
function selected(labelSelector: string, namespace?: string): KubernetesObject[] {
  const index = namespace === undefined ? undefined : { name: BY_NAME, value: namespace };
  try {
    return cache.list({ apiVersion: 'v1', kind: 'Namespace', labelSelector, index, fields: FIELDS });
  } catch (error) {
    if (!isApiError(error, 'invalid')) throw error;
    return [];
  }
}
