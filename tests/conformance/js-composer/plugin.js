// The composing probe: carries out the steps in its parent. See ../README.md.

import {
  ApiError, clock, conditions, config, defineComposer, log, ownerReference, random, requeueAfter, requeueWithBackoff, Terminal, Transient,
} from 'windlass';
import { languageSteps, outcome, withoutNull } from '../js/language.js';

const manifest = {
  name: 'conformance-composer',
  version: '0.1.0',
  controllers: [{
    name: 'compositions',
    primary: { apiVersion: 'conformance.windlass.dev/v1', kind: 'Composition' },
    owns: [{ apiVersion: 'v1', kind: 'ConfigMap', updateStrategy: 'recreate' }],
    watches: [
      { apiVersion: 'v1', kind: 'Secret', callFields: ['/data'], mapping: { type: 'sameName' } },
      { name: 'customized', apiVersion: 'v1', kind: 'Service', mapping: { type: 'customize' } },
    ],
  }],
};

const { calls, endings, resultOf } = languageSteps({
  ApiError, clock, conditions, config, log, ownerReference, random, requeueAfter, requeueWithBackoff, Terminal, Transient,
});

function compose(request) {
  const { steps = [], children = [], events = [], requeueAfterMs, requeueBackoff, allowEmpty = false, finalized = false } = withoutNull(request.parent.spec ?? {});
  const results = [];
  let ending = {};
  for (const { call, ...given } of steps) {
    const step = withoutNull(given);
    if (Object.hasOwn(endings, call)) {
      ending = endings[call](step);
      break;
    }
    results.push(outcome(() => (call === 'request' ? about(request) : calls[call](step)), resultOf));
  }
  const status = { results, children: names(request.children), related: names(request.related) };
  return { children, status, events, requeueAfterMs, requeueBackoff, allowEmpty, finalized, ...ending };
}

function names(objects) {
  return objects.map(({ metadata }) => metadata.name).sort();
}

// A composer's primary is its parent, so the request itself has no object.
function about({ controller, namespace, name, uid, deleting, attempt, traceId }) {
  return { controller, namespace, name, uid, deleting, attempt, traceId, hasObject: false };
}

function customize({ object }) {
  const { rules = [], failRules, raiseRules } = object.spec ?? {};
  if (failRules !== undefined) throw new Transient(failRules);
  if (raiseRules !== undefined) endings.raise({ message: raiseRules });
  return rules;
}

export const composer = defineComposer({ manifest, compose, customize });
