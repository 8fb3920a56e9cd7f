/** Four random bytes as a number. `Math.random()` and `crypto` use the same source, the host's. */
export function u32(): number;

/** This many random bytes. Cryptographically secure in `reconcile`. */
export function bytes(length: number): Uint8Array;
