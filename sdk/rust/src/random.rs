//! The host's randomness, so that a call can be replayed. Cryptographically secure.

use crate::native::random;

/// Four random bytes as a number.
#[must_use]
pub fn number() -> u32 {
    random::get_u32()
}

/// The requested number of random bytes.
#[must_use]
pub fn bytes(length: u32) -> Vec<u8> {
    random::get_bytes(length)
}
