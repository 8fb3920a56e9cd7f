// Finds the mistakes in the annotations of a source.

import type { KubernetesObject } from 'windlass';
import { ALLOWED_NAMESPACES, annotation, parts, TO, TO_MATCHING } from './api.js';
import { selectorError } from './namespaces.js';
import { patternError } from './pattern.js';

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
