//! Reads policy files into the policies in force.

use std::path::Path;
use std::sync::Arc;

use windlass_core::rights::grants::Allowance;

use super::PolicySet;
use crate::files::{Change, Content};
use windlass_files::read_whole;
use windlass_policy::{Policy, document};

/// The suffix of a policy's file, after the plugin's name.
pub const SUFFIX: &str = ".policy.yaml";

/// The outcome of reading a policy's file.
pub(super) enum Taken {
    /// The file is in force, with this many rules.
    InForce(usize),
    /// The file is gone; it was in force.
    Gone,
    /// The file cannot be used, so the previous policy stays in force.
    Kept(String),
    /// The file cannot be used, and there is no previous policy.
    Broken(String),
}

/// Changes `state` for a changed file of the `plugin`. `None` if no policy was in force and none is now. Logs nothing,
/// because the new state is not in force yet.
pub(super) fn take_policy(state: &mut PolicySet, plugin: &str, change: &Change) -> Option<Taken> {
    let file = change.path.display();
    let read = match &change.content {
        Content::Gone => {
            state.broken.remove(plugin);
            return state.policies.remove(plugin).map(|_| Taken::Gone);
        }
        Content::TooLarge(most) => Err(format!("{file}: it has more than {most} bytes, and is not read")),
        Content::Unreadable(problem) | Content::Withheld(problem) => Err(format!("{file}: cannot read it: {problem}")),
        Content::Is(_) => read_policy(&change.path, plugin),
    };
    Some(match read {
        Ok(policy) => {
            state.broken.remove(plugin);
            let rules = policy.allowance.rules.len();
            state.policies.insert(plugin.to_owned(), Arc::new(policy));
            Taken::InForce(rules)
        }
        Err(error) if state.policies.contains_key(plugin) => Taken::Kept(error),
        Err(error) => {
            state.broken.insert(plugin.to_owned(), error.clone());
            Taken::Broken(error)
        }
    })
}

/// Reads the policy of `plugin`.
pub fn read_policy(path: &Path, plugin: &str) -> Result<Policy, String> {
    let text = read_whole(path, document::POLICY_BYTES_MAX)
        .map_err(|error| format!("{}: cannot read it: {error}", path.display()))?;
    document::policy(path, &text, plugin).map_err(|error| error.to_string())
}

/// Reads a ceiling.
pub fn read_ceiling(path: &Path) -> Result<Arc<Allowance>, String> {
    let text = read_whole(path, document::POLICY_BYTES_MAX)
        .map_err(|error| format!("{}: cannot read it: {error}", path.display()))?;
    document::ceiling(path, &text).map_err(|error| error.to_string())
}

/// The plugin to which the policy at `path` applies, according to the file name.
pub(super) fn plugin_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    (!name.is_empty()).then(|| name.to_owned())
}
