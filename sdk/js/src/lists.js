// Lists, which the host returns one page at a time.

import { parse } from './json.js';
import { optionalText, u32 } from './wire.js';

/** The fields that all queries share. */
export const QUERY = ['apiVersion', 'kind', 'namespace', 'labelSelector', 'limit', 'pageToken'];

export function query({ namespace, labelSelector, limit = 500, pageToken }) {
  return {
    namespace: optionalText(namespace, 'namespace'),
    labelSelector: optionalText(labelSelector, 'labelSelector'),
    limit: u32(limit, 'limit'),
    pageToken: optionalText(pageToken, 'pageToken'),
  };
}

/** Returns one page. `fetch` reads the page that the query's token names. */
export function one(fetch, asked) {
  const { items, nextToken } = fetch(asked);
  const page = { items: items.map(parse) };
  if (nextToken !== undefined && nextToken !== null) page.nextToken = nextToken;
  return page;
}

/** Yields the objects of this page and all later ones. */
export function* each(fetch, asked) {
  let pageToken = asked.pageToken;
  do {
    const { items, nextToken } = fetch({ ...asked, pageToken });
    for (const item of items) yield parse(item);
    pageToken = nextToken ?? undefined;
  } while (pageToken !== undefined);
}

/** Returns the objects of this page and all later ones as a list. */
export function all(fetch, asked) {
  const objects = [];
  let pageToken = asked.pageToken;
  do {
    const { items, nextToken } = fetch({ ...asked, pageToken });
    for (const item of items) objects.push(parse(item));
    pageToken = nextToken ?? undefined;
  } while (pageToken !== undefined);
  return objects;
}

/** Parses an object that may be missing. */
export function read(text) {
  return text === undefined || text === null ? undefined : parse(text);
}
