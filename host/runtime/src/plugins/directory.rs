//! Which plugins are to run: decided from the files of the plugin directory, what came of loading them, the list of
//! allowed digests, and what was rejected. Nothing is read or started here; `manager::reload` does, and says what came
//! of it.
//!
//! A plugin goes by its file's stem. Whatever changes, [`Catalog::next`] compares what should be with what is, and
//! names the steps from one to the other, each once.

mod allowed;
mod catalog;
mod entry;
pub(crate) mod plugin_files;
mod refusal;
mod steps;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use self::allowed::Allowed;
pub use self::allowed::AllowedError;
pub(crate) use self::catalog::Catalog;
pub(crate) use self::refusal::{FileRefusal, NotRevived, StopReason};
use crate::files::is_hidden;
use crate::rejections::Digest;

/// Why a directory of plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be read.
    #[error("cannot read the plugin directory {}: {problem}; name one with --plugins", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Why.
        problem: String,
    },
}

/// Whether the file `path` is one of a plugin's. Hidden files are nobody's, as editors and copies in progress make
/// them.
pub(crate) fn is_plugin(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wasm")
}

/// Whether a host that follows its directory takes the file `path` for a plugin's.
#[must_use]
pub fn is_plugin_file(path: &Path) -> bool {
    !is_hidden(path) && is_plugin(path)
}

/// The digits of a digest.
pub(crate) fn hexadecimal(digest: &[u8; 32]) -> Digest {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect::<String>().into()
}

/// A file that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedFile<G> {
    pub(crate) digest: Digest,
    /// The definitions that it brings.
    pub(crate) definitions: Vec<String>,
    pub(crate) generation: G,
}

/// A step to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryStep<G> {
    /// Load the file, which had this digest when it was looked at.
    Load { plugin: Arc<str>, path: PathBuf, digest: Digest },
    /// Start a plugin that does not run.
    Start { plugin: Arc<str>, loaded: LoadedFile<G> },
    /// Give a plugin that runs its newer generation.
    Replace { plugin: Arc<str>, loaded: LoadedFile<G> },
    /// Have what runs drain and end.
    Stop { plugin: Arc<str>, why: StopReason },
    /// The generation that was to replace what runs is not to: it must not be run any more.
    Withdraw { plugin: Arc<str>, digest: Digest },
    /// The file is not taken. What runs, if any, goes on.
    Refuse { plugin: Arc<str>, digest: Option<Digest>, refusal: FileRefusal, runs: bool },
    /// A file that was refused has become the one that runs again.
    Agree { plugin: Arc<str> },
    /// The file is not the rejected one any more, which is forgotten.
    Pardon { plugin: Arc<str>, digest: Digest },
    /// There is nothing of the plugin any more.
    Forget { plugin: Arc<str> },
}
