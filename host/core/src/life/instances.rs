//! Whether calls of a plugin share an instance. Policies choose this, and the sandbox implements it.

use serde::Deserialize;

/// Which instance serves a call. Read from a policy's `instances`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Instances {
    /// Each call gets a new instance, which is dropped when the call ends.
    #[default]
    Fresh,
    /// A call gets an instance that has served earlier calls, if one is free. This is faster, and the instance's
    /// memory from earlier calls is still there.
    Reuse,
}
