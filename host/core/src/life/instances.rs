//! The instances of a plugin that its calls take place in: what a policy says, and the sandbox does.

use serde::Deserialize;

/// The instances that serve the calls of a plugin. Read from a policy's `instances`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Instances {
    /// Each call gets an instance of its own, which is gone when the call has ended.
    #[default]
    Fresh,
    /// A call gets an instance that has served calls before, if one is free. That is quicker, and what the plugin keeps in
    /// its memory is still there.
    Reuse,
}
