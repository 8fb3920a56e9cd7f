import * as host from '#host/owners';
import { Collected } from './errors.js';
import { apiErrorFrom, isRefusal, kind, referenceFrom, text } from './wire.js';

export function claim(of, labelSelector) {
  const [wanted, selector] = [kind(of, 'kind'), text(labelSelector, 'labelSelector')];
  let claimed;
  try {
    claimed = host.claim(wanted, selector);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    throw new Collected(error.payload.map(apiErrorFrom), `not all of ${wanted.kind} could be claimed`);
  }
  return { adopted: claimed.adopted.map(referenceFrom), released: claimed.released.map(referenceFrom) };
}
