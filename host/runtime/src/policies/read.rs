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
    Kept(UnusablePolicy),
    /// The file cannot be used, and no policy is in force.
    Broken(UnusablePolicy),
}

/// Why the file of a policy cannot be used.
pub(super) struct UnusablePolicy {
    pub(super) error: String,
    /// Whether it could not be read although it is there. A later look may succeed.
    pub(super) is_unread: bool,
}

impl UnusablePolicy {
    fn wrong(error: String) -> Self {
        Self { error, is_unread: false }
    }
}

/// Changes `state` for a changed file of the `plugin`. `None` if no policy was in force and none is now. A file that
/// cannot be used leaves the former policy in force, except for a policy `of_object`: it may have been narrowed, and an
/// object has no earlier state. Logs nothing, because the new state is not in force yet.
pub(super) fn take_policy(state: &mut PolicySet, plugin: &str, change: &Change, of_object: bool) -> Option<Taken> {
    let file = change.path.display();
    let read = match &change.content {
        Content::Gone => {
            state.broken.remove(plugin);
            return state.policies.remove(plugin).map(|_| Taken::Gone);
        }
        Content::TooLarge(most) => {
            Err(UnusablePolicy::wrong(format!("{file}: it has more than {most} bytes, and is not read")))
        }
        // The next look tries again by itself.
        Content::Unreadable(problem) | Content::Withheld(problem) => {
            Err(UnusablePolicy::wrong(format!("{file}: cannot read it: {problem}")))
        }
        Content::Is(_) => match policy_text(&change.path) {
            Ok(text) => {
                document::policy(&change.path, &text, plugin).map_err(|error| UnusablePolicy::wrong(error.to_string()))
            }
            Err(error) => Err(UnusablePolicy { error, is_unread: true }),
        },
    };
    Some(match read {
        Ok(policy) => {
            state.broken.remove(plugin);
            let rules = policy.allowance.rules.len();
            state.policies.insert(plugin.to_owned(), Arc::new(policy));
            Taken::InForce(rules)
        }
        Err(error) if !of_object && state.policies.contains_key(plugin) => Taken::Kept(error),
        Err(error) => {
            state.policies.remove(plugin);
            state.broken.insert(plugin.to_owned(), error.error.clone());
            Taken::Broken(error)
        }
    })
}

/// Reads the policy of `plugin`.
pub fn read_policy(path: &Path, plugin: &str) -> Result<Policy, String> {
    document::policy(path, &policy_text(path)?, plugin).map_err(|error| error.to_string())
}

fn policy_text(path: &Path) -> Result<Vec<u8>, String> {
    read_whole(path, document::POLICY_BYTES_MAX).map_err(|error| format!("{}: cannot read it: {error}", path.display()))
}

/// Reads a ceiling.
pub fn read_ceiling(path: &Path) -> Result<Arc<Allowance>, String> {
    document::ceiling(path, &policy_text(path)?).map_err(|error| error.to_string())
}

/// The plugin to which the policy at `path` applies, according to the file name.
pub(super) fn plugin_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    (!name.is_empty()).then(|| name.to_owned())
}
