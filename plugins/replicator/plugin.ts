// The replicator: copies Secrets and ConfigMaps between namespaces.
//
// Each kind has two controllers. `…-sources` creates the copies that a source lacks, and reports mistakes in its
// annotations. `…-copies` brings one copy to the state of its source, or removes it. So a change of a source becomes
// one small call for each copy, and a copy whose source went while nothing ran is found at the next start.

import {
  type Change, config, type Controller, defineReconciler, events, type Manifest, type MappedWatch, type Outcome, type Request, selectorText,
  type Target, Terminal,
} from 'windlass';
import { ALLOWED, type Config, FROM, FROM_VERSION, isPushed, type Kind, KINDS, nameOf, SOURCE, TO, TO_MATCHING } from './api.js';
import { configError, mistakesOf } from './mistakes.js';
import { BY_NAME } from './namespaces.js';
import { push } from './push.js';
import { update } from './update.js';

/** The index of sources by their selectors, and one that has all of them under the name of their kind. */
const BY_SELECTOR = 'selector';
const BY_KIND = 'kind';
/** The indexes of copies: by their source, as it pushes or is pulled from, and by their namespace. */
const BY_SOURCE = 'source';
const BY_FROM = 'from';
const BY_NAMESPACE = 'namespace';

const mapping = { type: 'mapper' } as const;
const options = { status: false };

/** The namespaces, with their labels. */
const namespaces: MappedWatch = {
  apiVersion: 'v1',
  kind: 'Namespace',
  name: 'namespaces',
  projection: { type: 'metadata' },
  indexes: [{ name: BY_NAME, source: { type: 'field', pointer: '/metadata/name' } }],
  predicates: [{ type: 'labels' }],
  deleted: false,
  mapping,
};

/** Only objects that have one of the annotations. */
function having(...annotations: string[]) {
  return [{ any: annotations.map((annotation) => ({ annotation, exists: true })) }];
}

function controllers({ apiVersion, kind, prefix }: Kind): Controller[] {
  const sources = { apiVersion, kind, where: having(TO, TO_MATCHING, ALLOWED) };
  const copies = { apiVersion, kind, where: having(FROM, FROM_VERSION, SOURCE) };
  const selector = `/metadata/annotations/${TO_MATCHING.replace('/', '~1')}`;
  return [
    {
      name: `${prefix}-sources`,
      primary: {
        ...sources,
        indexes: [
          { name: BY_NAME, source: { type: 'field', pointer: '/metadata/name' } },
          { name: BY_KIND, source: { type: 'field', pointer: '/kind' } },
          { name: BY_SELECTOR, source: { type: 'selector', pointer: selector, form: 'text' } },
        ],
      },
      watches: [{ ...namespaces, name: `${prefix}-destinations` }, { ...copies, name: 'copies', predicates: [{ type: 'annotations' }], mapping }],
      options,
    },
    {
      name: `${prefix}-copies`,
      primary: {
        ...copies,
        indexes: [
          { name: BY_SOURCE, source: { type: 'annotation', key: SOURCE } },
          { name: BY_FROM, source: { type: 'annotation', key: FROM } },
          { name: BY_NAMESPACE, source: { type: 'field', pointer: '/metadata/namespace' } },
        ],
      },
      watches: [
        { ...sources, name: 'sources', mapping },
        namespaces,
        { kindsFrom: '/allowAll', projection: { type: 'metadata' }, mapping: { type: 'referencedBy', index: BY_FROM } },
      ],
      options,
    },
  ];
}

const manifest: Manifest = {
  name: 'replicator',
  version: '0.1.0',
  description: 'Copies Secrets and ConfigMaps between namespaces.',
  controllers: KINDS.flatMap(controllers),
  permissions: KINDS.map(({ prefix }) => ({ apiGroups: [''], resources: [`${prefix}s`], verbs: ['get', 'create', 'patch', 'delete'] })),
  config: {
    schema: {
      type: 'object',
      additionalProperties: false,
      properties: {
        allowAll: {
          type: 'array',
          items: { type: 'object', properties: { apiVersion: { const: 'v1' }, kind: { enum: KINDS.map(({ kind }) => kind) } } },
        },
        excludeNamespaces: { type: 'array', items: { type: 'string' } },
      },
    },
  },
};

function reconcile({ controller, object, deleting }: Request): Outcome | void {
  if (object === undefined || deleting) return;
  const error = configError(config.get<Config>());
  if (error !== undefined) throw new Terminal(error);
  const kind = KINDS.find(({ prefix }) => controller.startsWith(`${prefix}-`)) as Kind;
  if (controller.endsWith('-copies')) {
    update(kind, object);
    return;
  }
  for (const mistake of mistakesOf(object)) events.warning('InvalidAnnotation', 'Replicate', mistake);
  return isPushed(object) ? push(kind, object) : undefined;
}

/** The primaries that a change concerns, by the indexes of their watch. */
function map(watch: string, { old, new: current }: Change): Target[] {
  const object = (current ?? old)!;
  const name = object.metadata.name as string;
  switch (watch) {
    case 'sources': return [BY_SOURCE, BY_FROM].map((index) => ({ index, value: nameOf(object) }));
    case 'copies': return [{ index: BY_NAME, value: name }];
    case 'namespaces': return [{ index: BY_NAMESPACE, value: name }];
    default: {
      const { labels } = object.metadata;
      const kind = KINDS.find(({ prefix }) => watch.startsWith(prefix)) as Kind;
      // A new namespace may have any name, and patterns cannot be found by a name.
      return old !== null && labels !== undefined
        ? [{ index: BY_SELECTOR, value: selectorText({ matchLabels: labels }) }]
        : [{ index: BY_KIND, value: kind.kind }];
    }
  }
}

export const reconciler = defineReconciler({ manifest, reconcile, map });
