//! The keys of a controller's last round that had something left to see, for the next round, whose caches know nothing
//! of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::write::expectations::DoubtfulKey;
use windlass_core::write::gate::Gate;

/// The gate of the round, or what is left of it.
#[derive(Default)]
pub(in crate::controller) struct PriorKeys {
    left: Mutex<PriorGate>,
    has_run: AtomicBool,
}

enum PriorGate {
    /// A round goes on, or has ended by a panic.
    Gate(Arc<Gate>),
    /// It has ended. The gate would keep its caches from being freed.
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
    /// A round begins with `gate`. Returns the keys that the last one has left.
    pub(in crate::controller) fn follow(&self, gate: Arc<Gate>) -> Vec<DoubtfulKey> {
        self.has_run.store(true, Ordering::Relaxed);
        std::mem::replace(&mut *self.lock(), PriorGate::Gate(gate)).keys()
    }

    /// Whether there was a round: its calls may have seen what other caches do not show yet.
    pub(in crate::controller) fn has_run(&self) -> bool {
        self.has_run.load(Ordering::Relaxed)
    }

    /// The round has ended, and all its calls with it.
    pub(in crate::controller) fn rest(&self) {
        let mut left = self.lock();
        let keys = std::mem::take(&mut *left).keys();
        *left = PriorGate::Keys(keys);
    }

    fn lock(&self) -> MutexGuard<'_, PriorGate> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
