//! Decides which plugins run: from the files in the plugin directory, the results of loading them, the list of allowed
//! digests, and the rejections. Nothing is read or started here; `reload` does that and reports back.
//!
//! A plugin has the name of its file without the extension. After each change, [`Catalog::next`] compares the desired
//! with the actual state and returns the steps to take, each once.

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
    /// The directory cannot be read.
    #[error("cannot read the plugin directory {}: {problem}; name one with --plugins", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        problem: String,
    },
}

/// Whether `path` is a file of a plugin. Hidden files are not: they are the temporary files of editors and copies.
pub(crate) fn is_plugin(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wasm")
}

/// Whether a host that follows its directory would treat `path` as a plugin's file.
#[must_use]
pub fn is_plugin_file(path: &Path) -> bool {
    !is_hidden(path) && is_plugin(path)
}

/// `digest` in hexadecimal.
pub(crate) fn hexadecimal(digest: &[u8; 32]) -> Digest {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect::<String>().into()
}

/// A loaded file.
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
    /// Load the file, which had this digest when it was seen.
    Load { plugin: Arc<str>, path: PathBuf, digest: Digest },
    /// Start a plugin that does not run.
    Start { plugin: Arc<str>, loaded: LoadedFile<G> },
    /// Give a running plugin its newer generation.
    Replace { plugin: Arc<str>, loaded: LoadedFile<G> },
    /// Stop the running generation: drain its queue, and end it.
    Stop { plugin: Arc<str>, why: StopReason },
    /// Withdraw the generation that was to take over, because it must no longer run.
    Withdraw { plugin: Arc<str>, digest: Digest },
    /// Do not take the file. If a generation runs, it continues.
    Refuse { plugin: Arc<str>, digest: Option<Digest>, refusal: FileRefusal, runs: bool },
    /// A file that was refused is now the running one.
    Agree { plugin: Arc<str> },
    /// Forget the rejection, as the file has changed.
    Pardon { plugin: Arc<str>, digest: Digest },
    /// Forget the plugin, of which nothing is left.
    Forget { plugin: Arc<str> },
}
