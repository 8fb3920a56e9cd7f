//! The background work that a real cluster's garbage collector, namespace controller, CRD finalizer and role
//! aggregation do: it follows every change and does what the change asks for: at once, but for what a gone owner leaves
//! behind. Nothing polls; one change leads to the next.

mod definitions;
mod invalid_owners;
mod namespace_conditions;
mod namespaces;
mod owners;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub(super) use owners::review;

use crate::controllers::cluster_roles;
use crate::object;
use crate::resources::crd;
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::agenda::Errand;
use crate::storage::change_log::{Change, ChangeKind};
use crate::storage::state::State;
use crate::verbs::delete::{self, DeleteOptions, Propagation};

/// The program of a cluster whose controllers these are.
const MANAGER: &str = "kube-controller-manager";

/// Between the end of an owner and that of what it leaves behind. A real collector takes as long or longer; with none,
/// a client hears of the dependent's deletion before its owner's, and makes the dependent again.
const COLLECT_DELAY: Duration = Duration::from_millis(100);

/// Reacts to a change.
pub(super) fn react(state: &mut State, resource: &GroupResource, change: &Change) {
    if state.collects {
        let mut concerned = owners::react(state, resource, change);
        if crd::is_definition(resource) && change.kind != ChangeKind::Deleted {
            concerned.extend(owners::dependents_of_kind(state, &change.object));
        }
        for key in concerned {
            state.store.agenda.put_off(Errand::ReviewOwners(key), COLLECT_DELAY);
        }
    }
    if state.empties_namespaces {
        namespaces::react(state, resource, change);
    }
    definitions::react(state, resource, change);
    cluster_roles::react(state, resource);
}

/// Deletes an object as the collector does: with its dependents after it, unless it already asks for something else.
fn collect(state: &mut State, key: &ObjectKey, propagation: Option<Propagation>) {
    let Some(resource) = state.registry.storage_type(&key.resource).cloned() else { return };
    delete::remove(state, &resource, key, &DeleteOptions { propagation, ..DeleteOptions::default() });
}

/// Deletes those of the objects that are not yet terminating. True if there are none at all.
fn collect_all(state: &mut State, objects: &[(GroupResource, Arc<Value>)]) -> bool {
    for (resource, object) in objects.iter().filter(|(_, object)| !object::is_terminating(object)) {
        collect(state, &ObjectKey::of(resource, object), Some(Propagation::Background));
    }
    objects.is_empty()
}

/// Writes an object that the collector changed; one that nothing holds any more goes.
fn rewrite(state: &mut State, key: &ObjectKey, object: Value) {
    let released = object::is_terminating(&object) && !object::is_held(&object);
    state.commit(key, object);
    if released {
        delete::erase(state, key);
    }
}
