//! The seal of a file in the cache. It proves that an owner of the directory's key wrote exactly this content under
//! exactly this name.
//!
//! ```text
//! content | note: u64, little-endian | MAGIC | HMAC-SHA-256 over the name's length, the name, and all before
//! ```
//! The seal is at the end, so that the content can be mapped from the file's beginning.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

const MAGIC: &[u8; 8] = b"windlas1";
const NOTE_BYTES: usize = 8;
const MAC_BYTES: usize = 32;
const END_BYTES: usize = NOTE_BYTES + MAGIC.len() + MAC_BYTES;
pub(super) const KEY_BYTES: usize = 32;

/// The key of a directory.
#[derive(Clone)]
pub(super) struct SealKey([u8; KEY_BYTES]);

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey")
    }
}

/// The reason why a file is not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum SealError {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it has no seal: it was truncated, or belongs to another program")]
    None,
    #[error("its seal does not match: it was changed, copied from elsewhere, or sealed with another key")]
    Broken,
}

/// A file whose seal matches its content. Only [`SealKey::unseal`] creates one.
#[derive(Debug)]
pub(super) struct Unsealed {
    file: File,
    name: String,
    key: SealKey,
    length: u64,
    note: u64,
}

impl SealKey {
    pub(super) fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The seal for `content` in the file `name`. `note` is a number that is stored with it.
    pub(super) fn seal(&self, name: &str, content: &[u8], note: u64) -> [u8; END_BYTES] {
        let mut mac = self.mac(name);
        mac.update(content);
        let mut end = [0; END_BYTES];
        end[..NOTE_BYTES].copy_from_slice(&note.to_le_bytes());
        end[NOTE_BYTES..NOTE_BYTES + MAGIC.len()].copy_from_slice(MAGIC);
        mac.update(&end[..NOTE_BYTES + MAGIC.len()]);
        end[NOTE_BYTES + MAGIC.len()..].copy_from_slice(&mac.finalize().into_bytes());
        end
    }

    /// Reads all of `file`, which has the name `name`, and checks its seal.
    pub(super) fn unseal(&self, name: &str, mut file: File) -> Result<Unsealed, SealError> {
        let length = file.metadata()?.len().checked_sub(END_BYTES as u64).ok_or(SealError::None)?;
        file.seek(SeekFrom::Start(0))?;
        let mut mac = self.mac(name);
        let mut buffer = vec![0; 64 << 10];
        let mut left = length;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            file.read_exact(&mut buffer[..most])?;
            mac.update(&buffer[..most]);
            left -= most as u64;
        }
        let mut end = [0; END_BYTES];
        file.read_exact(&mut end)?;
        let (sealed, seal) = end.split_at(NOTE_BYTES + MAGIC.len());
        let (note, magic) = sealed.split_at(NOTE_BYTES);
        if magic != MAGIC {
            return Err(SealError::None);
        }
        mac.update(sealed);
        mac.verify_slice(seal).map_err(|_| SealError::Broken)?;
        let note = u64::from_le_bytes(note.try_into().map_err(|_| SealError::None)?);
        Ok(Unsealed { file, name: name.to_owned(), key: self.clone(), length, note })
    }

    fn mac(&self, name: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.update(&(name.len() as u64).to_le_bytes());
        mac.update(name.as_bytes());
        mac
    }
}

impl Unsealed {
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn note(&self) -> u64 {
        self.note
    }

    /// The content, read and checked again.
    pub(super) fn content(&self) -> io::Result<Vec<u8>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        file.take(self.length + END_BYTES as u64).read_to_end(&mut bytes)?;
        let content = usize::try_from(self.length).map_err(io::Error::other)?;
        let end = bytes.split_off(content.min(bytes.len()));
        if end == self.key.seal(&self.name, &bytes, self.note) {
            Ok(bytes)
        } else {
            Err(io::Error::other("it changed while it was read"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(parts: &[&[u8]]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&parts.concat()).expect("written");
        file
    }

    #[test]
    fn a_sealed_file_is_read_back_with_its_note() {
        let key = SealKey::new([7; KEY_BYTES]);
        let content = vec![3; 200_000];
        let end = key.seal("a", &content, 42);
        let unsealed = key.unseal("a", file(&[&content, &end])).expect("ours");
        assert_eq!((unsealed.content().expect("read"), unsealed.note()), (content, 42));
    }

    #[test]
    fn a_changed_byte_length_name_or_key_breaks_the_seal() {
        let key = SealKey::new([7; KEY_BYTES]);
        let whole = [b"content".as_slice(), &key.seal("a", b"content", 1)].concat();
        assert!(key.unseal("a", file(&[&whole])).is_ok());
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert!(key.unseal("a", file(&[&other])).is_err(), "byte {at}");
            assert!(key.unseal("a", file(&[&whole[..at]])).is_err(), "{at} bytes");
            assert!(key.unseal("a", file(&[&whole[at..=at], &whole])).is_err(), "one byte more");
        }
        assert!(key.unseal("b", file(&[&whole])).is_err());
        assert!(SealKey::new([8; KEY_BYTES]).unseal("a", file(&[&whole])).is_err());
    }
}
