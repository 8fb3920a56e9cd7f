//! The commands that exchange plugins with a registry.

pub(crate) mod access;
pub(crate) mod documents;
pub(crate) mod progress;
pub(crate) mod pull;
pub(crate) mod push;

use windlass_oci::OciError;

/// Exit code: the plugin, or the artefact in the registry, is not right.
pub(crate) const NOT_A_PLUGIN: u8 = 1;
/// Exit code: it could not be tried, or the registry does not do it.
pub(crate) const FAILED: u8 = 2;

/// The exit code of a command that failed.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if error.downcast_ref().is_some_and(OciError::is_of_the_artefact) { NOT_A_PLUGIN } else { FAILED }
}
