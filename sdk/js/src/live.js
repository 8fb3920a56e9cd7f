import * as host from '#host/live';
import { all, each, one, QUERY, query, read } from './lists.js';
import { ask, kind, known, milliseconds, optionalText, optionalU32, reference, texts } from './wire.js';

export function get(target, options) {
  const given = known(options, ['subresource', 'fields', 'metadataOnly'], 'the options of live.get');
  const [wanted, subresource, view] = [reference(target, 'target'), optionalText(given.subresource, 'subresource'), viewOf(given)];
  return read(ask(() => host.get(wanted, subresource, view)));
}

function viewOf({ fields, metadataOnly }) {
  if (metadataOnly === true) return { tag: 'metadata' };
  return fields === undefined ? { tag: 'whole' } : { tag: 'fields', val: texts(fields, 'fields') };
}

export const list = (conditions) => all(fetch, asked(conditions));
export const page = (conditions) => one(fetch, asked(conditions));
export const iterate = (conditions) => each(fetch, asked(conditions));

const fetch = (query) => ask(() => host.list(query));

function asked(conditions) {
  const given = known(conditions, [...QUERY, 'fieldSelector', 'fields', 'metadataOnly'], 'the query of live reads');
  return {
    ...query(given),
    kind: kind(given, 'the query'),
    fieldSelector: optionalText(given.fieldSelector, 'fieldSelector'),
    view: viewOf(given),
  };
}

export function log(pod, options) {
  const names = ['container', 'previous', 'tailLines', 'sinceMs', 'limitBytes'];
  const { container, previous, tailLines, sinceMs, limitBytes } = known(options, names, 'the options of live.log');
  const asked = {
    target: { ...reference(pod, 'pod'), uid: undefined },
    container: optionalText(container, 'container'),
    previous: previous === true,
    tailLines: optionalU32(tailLines, 'tailLines'),
    sinceMs: sinceMs === undefined || sinceMs === null ? undefined : milliseconds(sinceMs, 'sinceMs'),
    limitBytes: optionalU32(limitBytes, 'limitBytes'),
  };
  return ask(() => host.log(asked));
}

export function served(of) {
  const wanted = kind(of, 'the kind');
  const found = ask(() => host.served(wanted));
  return found === undefined || found === null ? undefined : servedFrom(found);
}

export function kinds() {
  return ask(() => host.kinds()).map(({ kind, served }) => ({ apiVersion: kind.apiVersion, kind: kind.kind, ...servedFrom(served) }));
}

function servedFrom({ resource, namespaced, verbs, subresources }) {
  return { resource, namespaced, verbs, subresources };
}
