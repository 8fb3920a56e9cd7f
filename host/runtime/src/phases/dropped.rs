//! Counts the keys that a stop drops and the next start queues again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use windlass_core::object::ObjectKey;
use windlass_core::queue::Queue;

/// Counts the keys that one round drops. They count towards a stop that begins during the round. If the round ends
/// earlier, they do not, because the next round queues them again.
#[derive(Debug)]
pub(crate) struct Dropped {
    keys: AtomicUsize,
    /// Number of keys that count towards the stop.
    all: Arc<AtomicUsize>,
    /// Cancelled when the host stops.
    stop: CancellationToken,
}

impl Dropped {
    pub(super) fn new(all: &Arc<AtomicUsize>, stop: &CancellationToken) -> Self {
        Self { keys: AtomicUsize::new(0), all: all.clone(), stop: stop.clone() }
    }

    /// Counts `keys` more dropped keys.
    pub(crate) fn add(&self, keys: usize) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
        self.all.fetch_add(keys, Ordering::Relaxed);
    }

    /// Drops the keys that wait in `queue`, which accepts no more keys. Returns the number of keys.
    pub(crate) fn drop_keys(&self, queue: &Queue<ObjectKey>) -> usize {
        // Begins a drain and does not wait for it. After a plain shutdown, held keys would not be counted.
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
