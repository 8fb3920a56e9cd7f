//! Places for pulls: few in all, and fewer for each server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places for pulls.
pub(crate) struct PullSlots {
    all: Arc<Semaphore>,
    per_server: usize,
    servers: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A place for one pull.
pub(crate) struct PullSlot {
    _of_server: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl PullSlots {
    pub(crate) fn new(all: usize, per_server: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), per_server, servers: Mutex::default() }
    }

    /// Waits for a place for a pull from `server`. A pull that waits for its server takes no place from others.
    pub(crate) async fn take(&self, server: &str) -> Option<PullSlot> {
        let of_server = self.of(server).acquire_owned().await.ok()?;
        let of_all = self.all.clone().acquire_owned().await.ok()?;
        Some(PullSlot { _of_server: of_server, _of_all: of_all })
    }

    fn of(&self, server: &str) -> Arc<Semaphore> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        // Each pull that waits or runs holds a clone.
        servers.retain(|_, slots| Arc::strong_count(slots) > 1);
        servers.entry(server.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.per_server))).clone()
    }
}
