//! Identifies a component by its bytes.

use sha2::{Digest as _, Sha256};

/// The digests that identify a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digests {
    /// The digest of the component's file, which identifies the plugin and its manifest.
    pub(crate) file: String,
    /// The digest of the compiled part, which is the file without its script. It identifies the machine code.
    pub(crate) code: String,
}

impl Digests {
    /// The digests of a file whose first bytes, the `code`, are compiled.
    pub(crate) fn of(file: &[u8], code: &[u8]) -> Self {
        let digest = sha256(file);
        let code = if code.len() == file.len() { digest.clone() } else { sha256(code) };
        Self { file: digest, code }
    }

    /// The digests of a file that is compiled as a whole.
    pub(crate) fn of_whole(digest: &str) -> Self {
        Self { file: digest.to_owned(), code: digest.to_owned() }
    }
}

/// The SHA-256 of `bytes`, 64 hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Whether `text` has the form of a [`sha256`]. Checked because the text becomes a part of a file's name.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Hashes values that implement `Hash`. The result is the same in every process of this build.
#[derive(Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    /// 64 hexadecimal digits.
    pub(crate) fn hex(self) -> String {
        hex(&self.0.finalize())
    }
}

impl std::hash::Hasher for Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let hash = self.0.clone().finalize();
        hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

fn hex(hash: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    hash.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_digest_equals_the_output_of_sha256sum() {
        assert!(super::is_sha256(&super::sha256(b"abc")) && !super::is_sha256(&"../".repeat(22)[..64]));
        assert_eq!(super::sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
