//! Digests of contents. Only SHA-256 is accepted: registries use nothing else by default.

use std::fmt;

use sha2::{Digest as _, Sha256};

const ALGORITHM: &str = "sha256:";

/// A SHA-256, written as `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentDigest(String);

impl ContentDigest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::finished(Sha256::new_with_prefix(bytes))
    }

    /// The digest of everything that `hash` was given.
    #[must_use]
    pub fn finished(hash: Sha256) -> Self {
        let digits = hash.finalize().iter().flat_map(|byte| [byte >> 4, byte & 15]).collect::<Vec<_>>();
        let digits = digits.into_iter().filter_map(|digit| char::from_digit(u32::from(digit), 16));
        Self(format!("{ALGORITHM}{}", digits.collect::<String>()))
    }

    /// Reads a digest. `None` if `text` is anything else, such as a digest of another algorithm.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(ALGORITHM)?;
        let is_hex = digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hex.then(|| Self(text.to_owned()))
    }

    /// The digits alone.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.0[ALGORITHM.len()..]
    }

    /// The text of the digest, with the algorithm.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_as_it_is_written_and_others_are_not_read() {
        let digest = ContentDigest::of(b"abc");
        assert_eq!(digest.as_str(), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(ContentDigest::parse(digest.as_str()), Some(digest.clone()));
        let digits = digest.as_str().trim_start_matches("sha256:");
        let upper = format!("sha256:{}", digits.to_uppercase());
        for bad in [digits, &upper, &digest.as_str()[..70], "sha256:", &format!("md5:{digits}"), "sha256:../../etc"] {
            assert_eq!(ContentDigest::parse(bad), None, "{bad}");
        }
    }
}
