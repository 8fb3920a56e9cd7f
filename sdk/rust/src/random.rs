//! The host's randomness, so that a call can be replayed. Cryptographically secure.

use crate::bindings::windlass::plugin::random;
use crate::native::needs_host;

/// Four random bytes as a number.
#[must_use]
pub fn number() -> u32 {
    needs_host("random::number");
    random::get_u32()
}

/// As many random bytes as asked for.
#[must_use]
pub fn bytes(length: u32) -> Vec<u8> {
    needs_host("random::bytes");
    random::get_bytes(length)
}
