//! Does the work of a cluster's garbage collector, namespace controller, CRD finalizer and role aggregation. It reacts
//! to every change at once, except that dependents of a deleted owner are deleted a little later. It does not poll:
//! each write is a change that leads to the next reaction.

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

/// The program that runs these controllers in a real cluster.
const MANAGER: &str = "kube-controller-manager";

/// The delay between the deletions of an owner and of its dependents. A real collector takes at least as long. Without
/// the delay, a client could see the deletion of a dependent before that of its owner, and create the dependent again.
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

/// Deletes an object for the collector. Its dependents are deleted after it, unless its finalizers ask for another
/// propagation.
fn collect(state: &mut State, key: &ObjectKey, propagation: Option<Propagation>) {
    let Some(resource) = state.registry.storage_type(&key.resource).cloned() else { return };
    delete::remove(state, &resource, key, &DeleteOptions { propagation, ..DeleteOptions::default() });
}

/// Deletes the objects that are not being deleted yet. True if `objects` is empty.
fn collect_all(state: &mut State, objects: &[(GroupResource, Arc<Value>)]) -> bool {
    for (resource, object) in objects.iter().filter(|(_, object)| !object::is_terminating(object)) {
        collect(state, &ObjectKey::of(resource, object), Some(Propagation::Background));
    }
    objects.is_empty()
}

/// Writes an object that the collector has changed, or removes it if no finalizer is left.
fn rewrite(state: &mut State, key: &ObjectKey, object: Value) {
    let released = object::is_terminating(&object) && !object::is_held(&object);
    state.commit(key, object);
    if released {
        delete::erase(state, key);
    }
}
