//! The settings of policies, and the errors that stop a host from starting.

use std::path::PathBuf;

/// The source of plugins' rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum GrantMode {
    /// The operator: a plugin may do what its manifest asks for and its policy allows.
    Policy,
    /// The plugin's author: a plugin may do all that its manifest asks for.
    Manifest,
}

/// The sources of policies.
#[derive(Clone, Debug)]
pub struct PolicySettings {
    /// The source of plugins' rights.
    pub mode: GrantMode,
    /// The directory of `NAME.policy.yaml`.
    pub directory: PathBuf,
    /// The file of the ceiling over all policies.
    pub ceiling: Option<PathBuf>,
    /// The host's own namespace, which is denied to all plugins.
    pub host_namespace: Option<String>,
}

impl PolicySettings {
    /// Refuses a host that is confined to the namespace `only`, if the host itself runs there.
    pub(crate) fn check(&self, only: Option<&str>) -> Result<(), PoliciesError> {
        match (only, self.host_namespace.as_deref()) {
            (Some(only), Some(host)) if only == host => Err(PoliciesError::OwnNamespace { namespace: only.to_owned() }),
            _ => Ok(()),
        }
    }
}

/// An error of policies that stops the host from starting.
#[derive(Debug, thiserror::Error)]
pub enum PoliciesError {
    /// The ceiling cannot be used. Without it, plugins could have more than the operator wants.
    #[error("the ceiling cannot be used, so no plugin is started: {0}")]
    Ceiling(String),
    /// The host is confined to its own namespace, which is denied to all plugins.
    #[error(
        "the host lives in the namespace {namespace}, which is always denied to plugins, and --namespace {namespace} \
         leaves nothing else: run it in a namespace of its own"
    )]
    OwnNamespace {
        /// The namespace.
        namespace: String,
    },
    /// The directory of policies cannot be read.
    #[error("cannot read the directory of policies {}: {problem}; name one with --policy-dir", .path.display())]
    Directory {
        path: PathBuf,
        /// The reason.
        problem: String,
    },
}
