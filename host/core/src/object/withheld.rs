//! Writes that a read-only host (`--read-only`) has withheld, as status and logs tell of them.

use crate::object::ObjectRef;
use crate::object::difference::Difference;

/// The fate of the object, had the write been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WithheldEffect {
    /// There is no such object: it would be created.
    Create,
    /// It would be changed.
    Change,
    /// It would be deleted, at once or when its finalizers are off.
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

/// A write that was not carried out, because the host is read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithheldWrite {
    pub verb: &'static str,
    /// Resource, group and subresource: `deployments.apps/scale`.
    pub resource: String,
    /// The object. A name that the host has made up ends with `*`: the next one is another.
    pub object: ObjectRef,
    pub effect: WithheldEffect,
    /// The fields that would change.
    pub difference: Difference,
    /// Why the server has not judged it by a dry run. None: it has.
    pub unjudged: Option<String>,
}
