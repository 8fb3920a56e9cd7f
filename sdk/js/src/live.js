import * as host from '#host/live';
import { all, each, one, QUERY, query, read } from './lists.js';
import { ask, kind, known, optionalText, reference } from './wire.js';

export function get(target) {
  const wanted = reference(target, 'target');
  return read(ask(() => host.get(wanted)));
}

export const list = (conditions) => all(fetch, asked(conditions));
export const page = (conditions) => one(fetch, asked(conditions));
export const iterate = (conditions) => each(fetch, asked(conditions));

const fetch = (query) => ask(() => host.list(query));

function asked(conditions) {
  const given = known(conditions, [...QUERY, 'fieldSelector'], 'the query of live reads');
  return {
    ...query(given),
    kind: kind(given, 'the query'),
    fieldSelector: optionalText(given.fieldSelector, 'fieldSelector'),
  };
}
