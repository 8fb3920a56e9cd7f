//! What a plugin asks for by watching and owning, by kind: manifests know kinds, grants know resources in plural, and
//! only discovery knows which belong together.

use windlass_core::object::ObjectKind;

use super::{Controller, Manifest, Watch};

const READ: &[&str] = &["get", "list", "watch"];
const OWN: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];
const STATUS: &[&str] = &["get", "update", "patch"];

/// Access that a manifest implies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImpliedAccess {
    /// To which kind.
    pub kind: ObjectKind,
    /// To which subresource of it. None: the objects themselves.
    pub subresource: Option<&'static str>,
    /// API verbs.
    pub verbs: &'static [&'static str],
    /// Empty: all, and cluster-scoped objects.
    pub namespaces: Vec<String>,
}

impl Manifest {
    /// What the watches imply: reading what is watched, all of what is owned, and the status of primaries.
    #[must_use]
    pub fn implied_access(&self) -> Vec<ImpliedAccess> {
        let mut all = Vec::new();
        for access in self.controllers.iter().flat_map(of_controller) {
            if !all.contains(&access) {
                all.push(access);
            }
        }
        all
    }
}

fn of_controller(controller: &Controller) -> impl Iterator<Item = ImpliedAccess> {
    let primary = [access(&controller.primary, None, READ), access(&controller.primary, Some("status"), STATUS)];
    let owned = controller.owns.iter().map(|watch| access(watch, None, OWN));
    let watched = controller.watches.iter().map(|watch| access(watch, None, READ));
    primary.into_iter().chain(owned).chain(watched)
}

fn access(watch: &Watch, subresource: Option<&'static str>, verbs: &'static [&'static str]) -> ImpliedAccess {
    ImpliedAccess { kind: watch.object_kind(), subresource, verbs, namespaces: watch.namespaces.clone() }
}
