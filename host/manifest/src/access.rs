//! The access that a controller asks for by watching and owning, by kind: manifests know kinds, grants know resources
//! in plural, and only discovery knows which belong together.

use windlass_core::object::ObjectKind;

use super::{Controller, Watch};

const READ: &[&str] = &["get", "list", "watch"];
const OWN: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];
const STATUS: &[&str] = &["get", "update", "patch"];

/// Access that a controller implies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImpliedAccess {
    /// The verb of a sentence about the controller and the kind, such as "owns".
    pub does: &'static str,
    pub kind: ObjectKind,
    /// To which subresource of it. None: the objects themselves.
    pub subresource: Option<&'static str>,
    pub verbs: &'static [&'static str],
    /// Empty: all, and cluster-scoped objects.
    pub namespaces: Vec<String>,
}

impl Controller {
    /// The access that the watches imply: reading what is watched, all of what is owned, and the status of primaries.
    #[must_use]
    pub fn implied_access(&self) -> Vec<ImpliedAccess> {
        let primary = [
            access("reconciles", &self.primary, None, READ),
            access("writes the status of", &self.primary, Some("status"), STATUS),
        ];
        let owned = self.owns.iter().map(|watch| access("owns", watch, None, OWN));
        let watched = self.watches.iter().map(|watch| access("watches", watch, None, READ));
        primary.into_iter().chain(owned).chain(watched).collect()
    }
}

fn access(
    does: &'static str,
    watch: &Watch,
    subresource: Option<&'static str>,
    verbs: &'static [&'static str],
) -> ImpliedAccess {
    ImpliedAccess { does, kind: watch.object_kind(), subresource, verbs, namespaces: watch.namespaces.clone() }
}
