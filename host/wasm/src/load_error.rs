//! The reasons why a file is not loaded as a plugin.

use std::path::PathBuf;

use windlass_manifest::ManifestError;

use crate::abi::AbiVersion;
use crate::compile::CompileFailure;
use crate::component::ComponentError;
use crate::text::single_line;

/// A file that is not a plugin.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", .path.display())]
pub struct LoadError {
    pub path: PathBuf,
    /// The problem and how to solve it.
    pub problem: LoadProblem,
}

/// The reason why a file was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadProblem {
    /// The file cannot be read.
    #[error("cannot read it: {0}")]
    Read(#[source] std::io::Error),
    /// The path leads to a directory, a pipe or a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// The file is larger than a plugin's file may be.
    #[error(
        "it is larger than {limit} bytes, the most that a plugin's file may have; build it in release mode, stripped, or \
         raise it with `--limit file=SIZE`"
    )]
    TooLarge {
        /// `Limits::file_bytes`
        limit: u64,
    },
    /// The file's name is not valid for a plugin.
    #[error(
        "its name without `.wasm` is {stem:?}, which cannot name a plugin: up to 63 lower-case letters, digits and \
         dashes, beginning and ending with a letter or digit"
    )]
    FileName { stem: String },
    /// The file is not a component for this host.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// The component is damaged, or uses features that this host does not allow.
    #[error("it does not compile: {0}")]
    Compile(String),
    /// The component compiles, but no call has room for it.
    #[error(
        "it compiles, but this host has no room for it: {0} (`--limit memory=SIZE`, `--limit memories=N` and \
         `--limit instances=N` give more)"
    )]
    NoRoom(String),
    /// The compiler was stopped at a limit, or failed.
    #[error(transparent)]
    Stopped(#[from] CompileFailure),
    /// The component's imports or exports have the right names but the wrong types.
    #[error(
        "it does not fit the interface `windlass:plugin@{abi}`, so it was built from a different text of that interface: {reason}"
    )]
    Link {
        /// The version in the name of the export.
        abi: AbiVersion,
        /// The reason why the component does not fit.
        reason: String,
    },
    /// `describe` failed.
    #[error("its `describe` failed ({reason}): {message}")]
    Describe {
        /// The class, a fixed label: `trap`, `deadline`, ….
        reason: &'static str,
        message: String,
    },
    /// `describe` does not always return the same answer.
    #[error(
        "its `describe` answered differently when called again with another clock and seed, first at {at}: it must be \
         constant"
    )]
    Unstable {
        /// Where the answers differ.
        at: String,
    },
    /// The manifest is invalid.
    #[error("its manifest is not valid: {0}")]
    Manifest(#[from] ManifestError),
    /// The manifest has another name than the file.
    #[error(
        "its manifest is named {manifest:?}, its file {file:?}: rename the file to `{manifest}.wasm`, or change the \
         name in the manifest"
    )]
    OtherName {
        /// The name in the manifest.
        manifest: String,
        file: String,
    },
    /// The host itself failed, or is shutting down.
    #[error("the host could not load it: {0}")]
    Host(String),
}

impl LoadProblem {
    /// The label of metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::NotAFile => "read",
            Self::TooLarge { .. } => "too-large",
            Self::FileName { .. } | Self::OtherName { .. } => "name",
            Self::Component(_) => "component",
            Self::Compile(_) => "compile",
            Self::NoRoom(_) => "too-much",
            Self::Stopped(failure) => failure.reason(),
            Self::Link { .. } => "link",
            Self::Describe { .. } | Self::Unstable { .. } => "describe",
            Self::Manifest(_) => "manifest",
            Self::Host(_) => "host",
        }
    }
}

/// wasmtime's error with its causes, on one line. It may contain names that the plugin's author chose.
pub(crate) fn explained(error: &wasmtime::Error) -> String {
    single_line(&format!("{error:#}"), 1000)
}
