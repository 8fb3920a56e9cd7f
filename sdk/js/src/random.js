import * as host from '#host/random';
import { u32 as checked } from './wire.js';

export function u32() {
  return host.getU32() >>> 0;
}

export function bytes(length) {
  return host.getBytes(checked(length, 'length'));
}
