//! From files to what is in force.

use std::path::Path;
use std::sync::Arc;

use windlass_core::grants::Allowance;

use super::State;
use crate::files::{Change, Content, read_whole};
use crate::policy::{Policy, document};

/// What a policy's file is called, after the plugin's name.
pub(crate) const SUFFIX: &str = ".policy.yaml";

pub(super) fn take_policy(state: &mut State, plugin: &str, change: &Change) {
    let file = change.path.display();
    let read = match &change.content {
        Content::Gone => {
            state.broken.remove(plugin);
            if state.policies.remove(plugin).is_some() {
                tracing::warn!(plugin, %file, "the policy is gone, and with it all that it granted");
            }
            return;
        }
        Content::TooLarge(most) => Err(format!("{file}: it has more than {most} bytes, and is not read")),
        Content::Unreadable(problem) => Err(format!("{file}: cannot read it: {problem}")),
        Content::Is(_) => read_policy(&change.path, plugin),
    };
    match read {
        Ok(policy) => {
            state.broken.remove(plugin);
            tracing::info!(plugin, %file, rules = policy.allowance.rules.len(), "policy in force");
            state.policies.insert(plugin.to_owned(), Arc::new(policy));
        }
        Err(error) if state.policies.contains_key(plugin) => {
            tracing::error!(plugin, error, "the policy cannot be used: the former one stays in force");
        }
        Err(error) => {
            tracing::error!(plugin, error, "the policy cannot be used: the plugin waits");
            state.broken.insert(plugin.to_owned(), error);
        }
    }
}

/// Reads the policy of `plugin`.
pub(crate) fn read_policy(path: &Path, plugin: &str) -> Result<Policy, String> {
    let text = read_whole(path, document::MOST_BYTES)
        .map_err(|error| format!("{}: cannot read it: {error}", path.display()))?;
    document::policy(path, &text, plugin).map_err(|error| error.to_string())
}

/// Reads a ceiling.
pub(crate) fn read_ceiling(path: &Path) -> Result<Arc<Allowance>, String> {
    let text = read_whole(path, document::MOST_BYTES)
        .map_err(|error| format!("{}: cannot read it: {error}", path.display()))?;
    document::ceiling(path, &text).map_err(|error| error.to_string())
}

/// Which plugin's policy a file is, by its name.
pub(super) fn plugin_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    (!name.is_empty()).then(|| name.to_owned())
}
