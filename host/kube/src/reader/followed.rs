//! A watch whose changes run keys.

use std::fmt;
use std::sync::Arc;

use windlass_core::object::{Object, ObjectKey};

use crate::reader::Readable;

/// Whether a change of an object runs a key.
pub type Runs = Arc<dyn Fn(&Object, &ObjectKey) -> bool + Send + Sync>;

/// A watch of a controller.
#[derive(Clone)]
pub struct Followed {
    /// The watch and its objects.
    pub readable: Readable,
    /// Whether a change of the object runs the key. `None` if a predicate may suppress changes, so that no write is
    /// skipped because of this watch.
    pub runs: Option<Runs>,
    /// Whether the object alone decides which keys its changes run. If not, changes of a primary may end that.
    pub maps_by_object: bool,
}

impl Followed {
    /// Whether a write of `object` by a call about `key` may be skipped: a change by another client would run the key.
    pub(crate) fn skips(&self, object: &Object, key: &ObjectKey) -> bool {
        !object.header.deleting && self.runs.as_ref().is_some_and(|runs| runs(object, key))
    }
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("readable", &self.readable).finish_non_exhaustive()
    }
}
