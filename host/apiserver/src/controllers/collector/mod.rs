//! The background task that a real cluster's garbage collector, namespace controller, CRD finalizer and role aggregation are: it follows
//! every change and, under the lock, does what the change asks for: at once, but for what a gone owner leaves behind.
//! Nothing polls; one change leads to the next.

mod definitions;
mod namespaces;
mod owners;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::controllers::cluster_roles;
use crate::object;
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::change_log::Change;
use crate::storage::state::{Shared, State};
use crate::verbs::delete::{self, DeleteOptions, Propagation};

/// Between the end of an owner and that of what it leaves behind. A real collector takes as long or longer; with none, a
/// client hears of the dependent's deletion before its owner's, and makes the dependent again.
const COLLECT_AFTER: Duration = Duration::from_millis(100);

/// Reacts to changes until the server stops.
pub(crate) async fn run(shared: Arc<Shared>, mut changes: mpsc::UnboundedReceiver<(GroupResource, Change)>) {
    // In order of time, as all wait equally long.
    let mut abandoned: VecDeque<(Instant, ObjectKey)> = VecDeque::new();
    loop {
        let due = abandoned.front().map(|(due, _)| *due);
        tokio::select! {
            () = shared.stop.cancelled() => return,
            change = changes.recv() => {
                let Some((resource, change)) = change else { return };
                let mut state = shared.lock();
                let due = Instant::now() + COLLECT_AFTER;
                abandoned.extend(owners::react(&mut state, &resource, &change).into_iter().map(|key| (due, key)));
                namespaces::react(&mut state, &resource, &change);
                definitions::react(&mut state, &resource, &change);
                cluster_roles::react(&mut state, &resource);
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                if let Some((_, key)) = abandoned.pop_front() {
                    owners::review(&mut shared.lock(), &key);
                }
            }
        }
    }
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
        state.erase(key);
    }
}
