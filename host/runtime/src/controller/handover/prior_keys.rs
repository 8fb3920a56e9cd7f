//! The keys of a controller's last round whose writes its caches had not shown yet. The next round needs them, as its
//! caches know nothing of these writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::write::expectations::DoubtfulKey;
use windlass_core::write::gate::Gate;

/// The gate of the round, or the keys that the gate has left.
#[derive(Default)]
pub(in crate::controller) struct PriorKeys(Mutex<PriorGate>);

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
        std::mem::replace(&mut *self.lock(), PriorGate::Gate(gate)).keys()
    }

    /// Records that the round with `gate` has ended, with all its calls. Does nothing if another round has begun since.
    pub(in crate::controller) fn rest(&self, gate: &Arc<Gate>) {
        let mut left = self.lock();
        if matches!(&*left, PriorGate::Gate(current) if Arc::ptr_eq(current, gate)) {
            *left = PriorGate::Keys(gate.unseen());
        }
    }

    fn lock(&self) -> MutexGuard<'_, PriorGate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
