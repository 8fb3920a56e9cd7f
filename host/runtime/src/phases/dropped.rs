//! How many keys are dropped, which the next start queues again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use windlass_core::object::ObjectKey;
use windlass_core::queue::Queue;

/// The keys that one round drops. They are on the account of a stop that comes while this is there. Of a round that has
/// ended before, they are not: whatever comes after it queues them again.
#[derive(Debug)]
pub(crate) struct Dropped {
    keys: AtomicUsize,
    /// Those on the account of the stop.
    all: Arc<AtomicUsize>,
    /// The host stops.
    stop: CancellationToken,
}

impl Dropped {
    pub(super) fn new(all: &Arc<AtomicUsize>, stop: &CancellationToken) -> Self {
        Self { keys: AtomicUsize::new(0), all: all.clone(), stop: stop.clone() }
    }

    /// So many more keys are dropped.
    pub(crate) fn add(&self, keys: usize) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
        self.all.fetch_add(keys, Ordering::Relaxed);
    }

    /// Drops what waits in `queue`, which takes nothing more. Returns how many keys.
    pub(crate) fn drop_keys(&self, queue: &Queue<ObjectKey>) -> usize {
        // Like a drain whose time is over: shut down, it would not count those that are held.
        let _ = queue.shut_down_with_drain().now_or_never();
        let dropped = queue.drop_ready();
        self.add(dropped);
        dropped
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        if !self.stop.is_cancelled() {
            self.all.fetch_sub(*self.keys.get_mut(), Ordering::Relaxed);
        }
    }
}
