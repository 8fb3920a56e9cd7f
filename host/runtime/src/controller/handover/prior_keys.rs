//! The keys of a controller's last round whose writes its caches had not shown yet. The next round needs them, as its
//! caches know nothing of these writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::write::expectations::DoubtfulKey;
use windlass_core::write::gate::Gate;

/// The gate of the round, or the keys that the gate has left.
#[derive(Default)]
pub(in crate::controller) struct PriorKeys {
    left: Mutex<PriorGate>,
    has_run: AtomicBool,
}

enum PriorGate {
    /// A round is running, or has ended by a panic.
    Gate(Arc<Gate>),
    /// The round has ended. Keeping its gate would keep its caches in memory.
    Keys(Vec<DoubtfulKey>),
}

impl Default for PriorGate {
    fn default() -> Self {
        Self::Keys(Vec::new())
    }
}

impl PriorGate {
    fn keys(self) -> Vec<DoubtfulKey> {
        match self {
            Self::Gate(gate) => gate.unseen(),
            Self::Keys(keys) => keys,
        }
    }
}

impl PriorKeys {
    /// Begins a round with `gate`. Returns the keys that the last round has left.
    pub(in crate::controller) fn follow(&self, gate: Arc<Gate>) -> Vec<DoubtfulKey> {
        self.has_run.store(true, Ordering::Relaxed);
        std::mem::replace(&mut *self.lock(), PriorGate::Gate(gate)).keys()
    }

    /// Whether there was a round. Its calls may have seen what other caches do not show yet.
    pub(in crate::controller) fn has_run(&self) -> bool {
        self.has_run.load(Ordering::Relaxed)
    }

    /// Records that the round has ended, with all its calls.
    pub(in crate::controller) fn rest(&self) {
        let mut left = self.lock();
        let keys = std::mem::take(&mut *left).keys();
        *left = PriorGate::Keys(keys);
    }

    fn lock(&self) -> MutexGuard<'_, PriorGate> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
