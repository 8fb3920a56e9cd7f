//! Writes that a read-only host (`--read-only`) did not send, for status and logs.

use crate::object::ObjectRef;
use crate::object::difference::Difference;

/// The effect that the write would have had on the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WithheldEffect {
    /// The object does not exist and would be created.
    Create,
    /// The object would be changed.
    Change,
    /// The object would be deleted, at once or after its finalizers are removed.
    Delete,
}

impl WithheldEffect {
    /// For status and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Delete => "delete",
        }
    }
}

/// A write that was not sent because the host is read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithheldWrite {
    pub verb: &'static str,
    /// Resource, group and subresource, such as `deployments.apps/scale`.
    pub resource: String,
    /// The object. A generated name ends with `*`, because the server would generate another name next time.
    pub object: ObjectRef,
    pub effect: WithheldEffect,
    /// The fields that would change.
    pub difference: Difference,
    /// Why the server has not checked the write by a dry run. `None` if it has.
    pub unjudged: Option<String>,
}
