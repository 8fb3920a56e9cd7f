//! The files that plugins run, and where they came from.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plugin::PluginSource;

/// The place that a policy must name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArtefactOrigin {
    /// A repository of a registry, as HOST/REPOSITORY.
    Repository(String),
    /// A `ConfigMap` in the host's namespace.
    ConfigMap(String),
}

impl fmt::Display for ArtefactOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repository(repository) => write!(f, "the repository {repository}"),
            Self::ConfigMap(name) => write!(f, "the ConfigMap {name}"),
        }
    }
}

/// A file that was fetched for a plugin. The host keeps it beside the file that it installs, so that a policy which
/// changes later is judged against what really runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledArtefact {
    /// The source as the object had it.
    pub source: PluginSource,
    /// The digest of the artefact in the registry, as `sha256:…`. `None` for a `ConfigMap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The SHA-256 of the file, as `sha256:…`.
    pub file_digest: String,
}

impl InstalledArtefact {
    /// The digest by which a policy names it: the artefact's in a registry, or the file's in a `ConfigMap`.
    #[must_use]
    pub fn named_digest(&self) -> &str {
        self.digest.as_deref().unwrap_or(&self.file_digest)
    }

    /// The artefact with its digest, as HOST/REPOSITORY@DIGEST. `None` for a `ConfigMap`.
    #[must_use]
    pub fn image(&self) -> Option<String> {
        match (self.source.origin().ok()?, &self.digest) {
            (ArtefactOrigin::Repository(repository), Some(digest)) => Some(format!("{repository}@{digest}")),
            _ => None,
        }
    }
}
