import * as host from '#host/cache';
import { all, each, one, QUERY, query, read } from './lists.js';
import { apiErrorFrom, ask, kind, known, list as array, optionalU32, reference, text, texts } from './wire.js';

export function get(target, options) {
  const [wanted, fields] = [reference(target, 'target'), fieldsOf(options, 'the options of cache.get')];
  return read(ask(() => host.get(wanted, fields)));
}

export function getMany(targets, options) {
  const wanted = array(targets, 'targets').map((target, place) => reference(target, `targets[${place}]`));
  const answers = host.getMany(wanted, fieldsOf(options, 'the options of cache.getMany'));
  return answers.map(({ tag, val }) => (tag === 'ok' ? { object: read(val) } : { error: apiErrorFrom(val) }));
}

function fieldsOf(options, what) {
  const { fields } = known(options, ['fields'], what);
  return fields === undefined ? undefined : texts(fields, 'fields');
}

export const list = (conditions) => all(fetch, asked(conditions));
export const page = (conditions) => one(fetch, asked(conditions));
export const iterate = (conditions) => each(fetch, asked(conditions));

const fetch = (query) => ask(() => host.list(query));

function asked(conditions) {
  const given = known(conditions, [...QUERY, 'index', 'owned', 'fields', 'maxBytes'], 'the query of the cache');
  const index = known(given.index, ['name', 'value'], 'index');
  return {
    ...query(given),
    kind: kind(given, 'the query'),
    index: given.index && { index: text(index.name, 'index.name'), value: text(index.value, 'index.value') },
    owned: given.owned === true,
    fields: given.fields === undefined ? undefined : texts(given.fields, 'fields'),
    maxBytes: optionalU32(given.maxBytes, 'maxBytes'),
  };
}
