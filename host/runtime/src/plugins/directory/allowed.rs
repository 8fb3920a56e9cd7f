//! The digests that an operator allows (`--allowed-digests`). Files with other digests are not loaded.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::rejections::Digest;
use windlass_files::read_whole;

/// Why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AllowedError {
    /// The list cannot be read.
    #[error("cannot read the list of allowed digests {} (--allowed-digests): {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        source: std::io::Error,
    },
    /// The file is empty, for example because it is being written.
    #[error(
        "the list of allowed digests {} is empty: if no plugin is to run, say so in a comment (# …)", path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line has no digest.
    #[error(
        "{}:{line}: {text:?} does not begin with a SHA-256 of 64 hexadecimal digits, as sha256sum prints it", path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The text of the line.
        text: String,
    },
}

/// The digests that may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    path: PathBuf,
    digests: HashSet<Digest>,
}

impl Allowed {
    /// The largest size of a list, in bytes, which is enough for a million digests.
    pub(crate) const DIGESTS_BYTES_MAX: u64 = 64 << 20;

    /// Reads the list in the file `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, AllowedError> {
        let text = read_whole(path, Self::DIGESTS_BYTES_MAX)
            .map_err(|source| AllowedError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(path, &String::from_utf8_lossy(&text))
    }

    /// Parses one digest a line; the rest of the line is ignored. `#` begins a comment.
    fn parse(path: &Path, text: &str) -> Result<Self, AllowedError> {
        if text.trim().is_empty() {
            return Err(AllowedError::Empty { path: path.to_owned() });
        }
        let mut digests = HashSet::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let Some(word) = line.split_whitespace().next() else { continue };
            let digest = word.strip_prefix("sha256:").unwrap_or(word);
            if digest.len() != 64 || !digest.chars().all(|digit| digit.is_ascii_hexdigit()) {
                let text = line.chars().take(80).collect();
                return Err(AllowedError::Line { path: path.to_owned(), line: at + 1, text });
            }
            digests.insert(digest.to_ascii_lowercase().into());
        }
        Ok(Self { path: path.to_owned(), digests })
    }

    /// Whether `digest` may run.
    pub(crate) fn holds(&self, digest: &str) -> bool {
        self.digests.contains(digest)
    }

    /// The number of allowed digests.
    pub(crate) fn len(&self) -> usize {
        self.digests.len()
    }

    /// Where the list is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Allowed, String> {
        Allowed::parse(Path::new("allowed"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_of_digests_is_read_as_sha256sum_prints_it_with_comments() {
        let (a, b) = ("a".repeat(64), "B".repeat(64));
        let list = parse(&format!("# reviewed\n{a}  webapp.wasm\n\nsha256:{b} # by hand\n")).expect("a list");
        assert!(list.holds(&a) && list.holds(&b.to_lowercase()) && !list.holds(&"c".repeat(64)));
        assert_eq!(list.len(), 2);
        assert_eq!(parse("# none is trusted\n").expect("a list").len(), 0);
    }

    #[test]
    fn a_malformed_list_is_refused_with_its_line() {
        let error = parse(&format!("{}\nwebapp.wasm\n", "a".repeat(64))).expect_err("no digest");
        assert!(error.contains("allowed:2") && error.contains("webapp.wasm"), "{error}");
        assert!(parse("").expect_err("nothing at all").contains("is empty"));
    }
}
