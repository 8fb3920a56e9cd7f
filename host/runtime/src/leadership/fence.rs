//! The fence of one lease term. It is open for a fixed time after each renewal, judged by the clock alone, so that it
//! closes even if the elector stops running. It closes for good once the term is over.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_core::clock::Clock;
use windlass_core::life::lease::LeaseTerm;
use windlass_core::rights::fence::{Fence, LeaseLost};
use windlass_core::write::settle::Hold;

/// The time until which a lease term lasts, extended by each renewal.
#[derive(Debug, Default)]
pub(super) struct TermReach(Mutex<Option<LeaseTerm>>);

impl TermReach {
    /// Sets the renewed term; `None` when the term is over.
    pub(super) fn set(&self, term: Option<LeaseTerm>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = term;
    }

    fn get(&self) -> Option<LeaseTerm> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by everything that may still start a write. While it is held, the lease is not released.
pub(super) struct LeaseFence {
    pub(super) lease: Arc<str>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reach: Arc<TermReach>,
    pub(super) _hold: Hold,
}

impl Fence for LeaseFence {
    fn may_start(&self) -> Result<Duration, LeaseLost> {
        let limit = self.reach.get().and_then(|term| term.may_start(self.clock.now()));
        limit.ok_or_else(|| LeaseLost { lease: self.lease.clone() })
    }
}

impl fmt::Debug for LeaseFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseFence").field("lease", &self.lease).field("reach", &self.reach).finish_non_exhaustive()
    }
}
