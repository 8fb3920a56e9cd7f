//! The background task that a real cluster's garbage collector, namespace controller and CRD finalizer are: it follows
//! every change and, under the lock, does what the change asks for. Nothing polls; one change leads to the next.

mod definitions;
mod namespaces;
mod owners;

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::change_log::Change;
use crate::resource::GroupResource;
use crate::state::{Shared, State};
use crate::storage::ObjectKey;
use crate::verbs::delete::{self, DeleteOptions, Propagation};

/// Reacts to changes until the server stops.
pub(crate) async fn run(shared: Arc<Shared>, mut changes: mpsc::UnboundedReceiver<(GroupResource, Change)>) {
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => return,
            change = changes.recv() => {
                let Some((resource, change)) = change else { return };
                let mut state = shared.lock();
                owners::react(&mut state, &resource, &change);
                namespaces::react(&mut state, &resource, &change);
                definitions::react(&mut state, &resource, &change);
            }
        }
    }
}

/// Deletes an object as the collector does: with its dependents after it, unless it already asks for something else.
fn collect(state: &mut State, key: &ObjectKey, propagation: Option<Propagation>) {
    let Some(resource) = state.registry.storage_type(&key.resource).cloned() else { return };
    delete::remove(state, &resource, key, &DeleteOptions { propagation, ..DeleteOptions::default() });
}

/// Writes an object that the collector changed; one that nothing holds any more goes.
fn rewrite(state: &mut State, key: &ObjectKey, object: serde_json::Value) {
    let released = crate::object::is_terminating(&object)
        && crate::object::finalizers(&object).is_empty()
        && crate::object::strings(&object, "/spec/finalizers").is_empty();
    state.commit(key, object);
    if released {
        state.erase(key);
    }
}
