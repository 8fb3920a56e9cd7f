//! The hooks that an operator opens, each with the keys of the Secrets that sign its deliveries.

use serde::Deserialize;

/// The most secrets that one hook may have: the current one, and a few during a rotation.
pub const HOOK_SECRETS_MAX: usize = 4;

/// A hook of a plugin that other systems may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenHook {
    /// Its name in the manifest.
    pub name: String,
    /// The secrets, each of which signs deliveries: one, or several while one replaces another.
    pub secrets: Vec<SecretKeyRef>,
}

/// A key of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKeyRef {
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// The key in its data.
    pub key: String,
}
