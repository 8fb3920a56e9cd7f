//! Why a file does not run, and why a running plugin is stopped, as operators read it.

use std::path::PathBuf;
use std::sync::Arc;

use windlass_wasm::LoadProblem;

use crate::rejections::Digest;

/// Why a file does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileRefusal {
    /// The file cannot be read.
    #[error("{}: cannot read it: {problem}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        problem: String,
    },
    /// The plugin's other files forbid that the file runs.
    #[error("{}: {problem}", .path.display())]
    Withheld {
        /// The file.
        path: PathBuf,
        problem: String,
    },
    /// The file is larger than a plugin may be, and was not read.
    #[error("{}: {}", .path.display(), LoadProblem::TooLarge { limit: *.most })]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        most: u64,
    },
    /// The file is not a plugin, or a broken plugin.
    #[error("{message}")]
    NotLoaded {
        /// A fixed label for metrics.
        reason: &'static str,
        /// The file, and what is wrong with it.
        message: String,
    },
    /// The operator does not allow the file's digest.
    #[error("its digest {digest} is not allowed: add it to {}, if you trust {}", list.display(), path.display())]
    NotAllowed {
        /// The plugin's file.
        path: PathBuf,
        /// The digest that is missing.
        digest: Digest,
        /// The list that lacks the digest.
        list: PathBuf,
    },
    /// The file ran, and was rolled back.
    #[error(
        "{}, digest {digest}, was rolled back and does not run again until the file changes: {because}{}", path.display(),
        former.as_ref().map(|former| format!("; the version before it has the digest {former}")).unwrap_or_default()
    )]
    Rejected {
        /// The plugin's file.
        path: PathBuf,
        /// Its digest.
        digest: Digest,
        /// Why it was rolled back.
        because: String,
        /// The digest that ran before it.
        former: Option<String>,
    },
    /// Two versions of one definition would replace each other for ever.
    #[error("it brings the definition {definition}, which the plugin {first} brings already; remove one of the two")]
    Rival {
        /// The definition.
        definition: String,
        /// The running plugin that brings the definition.
        first: Arc<str>,
    },
}

impl FileRefusal {
    /// The label for metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "read",
            Self::Withheld { .. } => "withheld",
            Self::TooLarge { most: limit, .. } => LoadProblem::TooLarge { limit: *limit }.reason(),
            Self::NotLoaded { reason, .. } => reason,
            Self::NotAllowed { .. } => "not-allowed",
            Self::Rejected { .. } => "rejected",
            Self::Rival { .. } => "rival",
        }
    }
}

/// Why the version before a rejected file is not started in its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotRevived {
    /// The version is not needed, or not needed yet.
    #[error("the file has changed meanwhile, or the running version has not ended yet")]
    Superfluous,
    /// The operator does not allow the version.
    #[error("its digest {digest} is not allowed: add it to {}, if you trust it", list.display())]
    NotAllowed {
        /// The digest that is missing.
        digest: Digest,
        /// The list that lacks the digest.
        list: PathBuf,
    },
    /// The plugin belongs to an object, whose policy does not cover the version.
    #[error(
        "the policy of the plugin's object does not cover the file {digest}: name a version in the object that it covers"
    )]
    NotCovered {
        /// The digest of the version's file.
        digest: Digest,
    },
    /// Another plugin that brings the same definition has started meanwhile.
    #[error(transparent)]
    Rival(FileRefusal),
}

/// Why a plugin is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// Its file is gone.
    Deleted,
    /// The running generation is no longer on the list of allowed digests.
    NotAllowed {
        /// The running digest.
        digest: Digest,
        /// The list.
        list: PathBuf,
    },
    /// Another replica has rolled the running generation back.
    Rejected {
        /// The running digest.
        digest: Digest,
        /// Why it was rolled back.
        because: String,
    },
}
