//! Snapshots of the whole state.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use crate::resources::resource::GroupResource;
use crate::storage::state::{Shared, State};

/// The whole state of a server at one moment: its objects with their history, the pending work of its controllers, its
/// clock and its random numbers. Taking and restoring a snapshot is cheap, because the server and the snapshot share
/// the objects until the server changes them.
#[derive(Clone)]
pub struct Snapshot(Arc<Taken>);

struct Taken {
    state: State,
    at: Instant,
}

impl Snapshot {
    pub(crate) fn take(shared: &Shared) -> Snapshot {
        let state = shared.lock().clone();
        Snapshot(Arc::new(Taken { state, at: Instant::now() }))
    }

    /// Replaces the state of a server by this state. The snapshot may have been taken from another server. The watches
    /// of the restored server end.
    pub(crate) fn restore(&self, shared: &Shared) {
        let Taken { state: kept, at } = &*self.0;
        let mut restored = kept.clone();
        restored.time = kept.time.set_back(*at);
        restored.store.begin_anew(*at, Arc::clone(&shared.changed));
        let mut state = shared.lock();
        restored.era = state.era + 1;
        restored.by_roles = state.by_roles;
        restored.collects = state.collects;
        restored.empties_namespaces = state.empties_namespaces;
        let replaced = std::mem::replace(&mut *state, restored);
        drop(state);
        drop(replaced);
        shared.changed.notify_one();
    }

    /// The revision of the server when the snapshot was taken.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.0.state.store.revision()
    }

    /// All objects in their stored version, each with its resource, such as `deployments.apps`.
    #[must_use]
    pub fn objects(&self) -> Vec<(String, Arc<Value>)> {
        let store = &self.0.state.store;
        let of = |resource: GroupResource| {
            let name = resource.to_string();
            store.list(&resource, None).map(|object| (name.clone(), Arc::clone(object))).collect::<Vec<_>>()
        };
        store.resources().into_iter().flat_map(of).collect()
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("resource_version", &self.resource_version()).finish_non_exhaustive()
    }
}
