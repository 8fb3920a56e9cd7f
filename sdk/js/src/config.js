import * as host from '#host/config';
import { parse } from './json.js';

export function get() {
  return parse(host.get());
}
