//! The fence of one term: open while the lease was renewed recently enough, by the clock and by nobody's leave, so that
//! it closes also when whoever renews does not run; and closed for good once the term is over.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_core::clock::Clock;
use windlass_core::life::lease::LeaseTerm;
use windlass_core::rights::fence::{Fence, LeaseLost};
use windlass_core::write::settle::Hold;

/// How far a lease term reaches, as it is renewed.
#[derive(Debug, Default)]
pub(super) struct TermReach(Mutex<Option<LeaseTerm>>);

impl TermReach {
    /// It was renewed. None: it is over.
    pub(super) fn set(&self, term: Option<LeaseTerm>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = term;
    }

    fn get(&self) -> Option<LeaseTerm> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by everything that may still start something; while it is held, the lease is not released.
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
