// Finds the mistakes in the annotations of a source, and in the configuration.

import type { KubernetesObject } from 'windlass';
import { ALLOWED_NAMESPACES, annotation, type Config, parts, TO, TO_MATCHING } from './api.js';
import { selectorError } from './namespaces.js';
import { patternError } from './pattern.js';

/** Whether a pattern or the selector that says where to push a source cannot be read. */
export function hasUnreadableDestination(source: KubernetesObject): boolean {
  return parts(annotation(source, TO)).some((pattern) => patternError(pattern) !== undefined) || selectorError(source) !== undefined;
}

/** Why a pattern of the configuration cannot be read. Undefined if all can. */
export function configError({ excludeNamespaces = [] }: Config): string | undefined {
  for (const pattern of excludeNamespaces) {
    const error = patternError(pattern);
    if (error !== undefined) return `the pattern "${pattern}" in excludeNamespaces excludes nothing: ${error}`;
  }
  return undefined;
}

/** A sentence for each pattern or selector that matches nothing because it cannot be read. */
export function mistakesOf(source: KubernetesObject): string[] {
  const ofPatterns = [TO, ALLOWED_NAMESPACES].flatMap((key) =>
    parts(annotation(source, key)).flatMap((pattern) => {
      const error = patternError(pattern);
      return error === undefined ? [] : [`the pattern "${pattern}" in ${key} matches nothing: ${error}`];
    }));
  const ofSelector = selectorError(source);
  return ofSelector === undefined ? ofPatterns : [...ofPatterns, `the selector in ${TO_MATCHING} matches nothing: ${ofSelector}`];
}
