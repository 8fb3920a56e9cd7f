//! Names a component by its bytes.

use sha2::{Digest as _, Sha256};

/// The SHA-256 of `bytes`, 64 hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let hash = Sha256::digest(bytes);
    hash.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_digest_is_the_one_that_sha256sum_prints() {
        assert_eq!(super::sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
