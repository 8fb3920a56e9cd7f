//! Instances between two calls, for plugins whose operator has enabled reuse.
//!
//! Their number is limited for each plugin and in total. So are their waiting time, the number of calls that each
//! serves, and their growth. Their memory is part of the guests' budget, and they are dropped as soon as a call waits
//! for memory. A parked store has no data of the previous call: its state has been replaced (`CallState::parked`),
//! because otherwise a key would never settle.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use wasmtime::Store;
use windlass_core::call::ports::CallContext;
use windlass_core::rights::grants::Grants;
use windlass_core::secret::confidential::Confidential;

use crate::abi::linked::{Instance, LinkedPlugin};
use crate::counters::PluginCounters;
use crate::memory::IdleMemory;
use crate::state::CallState;

/// The operator's terms for a plugin: what it may read and do; and the code of the instance. An instance may keep data
/// that a call got under its terms, so the instance serves no call under different terms. (Usually the terms are the
/// same allocation, which is compared first.) The code is part of the terms so that no call goes back to slower code.
#[derive(Clone)]
pub(crate) struct ReuseTerms {
    config: Confidential,
    grants: Arc<Grants>,
    code: Arc<LinkedPlugin>,
}

impl ReuseTerms {
    /// The current terms of `call`, with this `code`.
    pub(crate) fn of(call: &CallContext, code: &Arc<LinkedPlugin>) -> Self {
        Self { config: call.config.clone(), grants: call.principal.grants(), code: code.clone() }
    }
}

impl PartialEq for ReuseTerms {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.code, &other.code) && self.config == other.config && self.grants == other.grants
    }
}

/// The calls that an instance has served.
#[derive(Clone, Copy, Default)]
pub(crate) struct Service {
    calls: u32,
    /// The free memory after the instance's first call, in bytes.
    room: usize,
}

impl Service {
    /// Adds a call that has left `room` bytes. `None` if the instance may not serve another call. This is the case
    /// after `most` calls, and when less than half of the initial memory is left, so that a language's memory leak
    /// costs a fresh instance and no failed call.
    pub(crate) fn and_one(self, room: usize, most: u32) -> Option<Self> {
        let first = if self.calls == 0 { room } else { self.room };
        let served = Self { calls: self.calls + 1, room: first };
        (served.calls < most && room >= first / 2).then_some(served)
    }
}

/// An instance that may serve the next call.
pub(crate) struct Parked {
    /// The counters of the plugin generation that the instance belongs to.
    pub(crate) owner: Arc<PluginCounters>,
    pub(crate) store: Store<CallState>,
    pub(crate) instance: Instance,
    /// The terms of the instance's first call.
    pub(crate) terms: ReuseTerms,
    pub(crate) served: Service,
    pub(crate) since: Instant,
}

/// The parked instances, the longest idle first.
pub(crate) struct ParkingLot {
    parked: Mutex<VecDeque<Parked>>,
    most: usize,
    most_of_one: usize,
}

impl std::fmt::Debug for ParkingLot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParkingLot").field("most", &self.most).field("parked", &self.len()).finish_non_exhaustive()
    }
}

impl ParkingLot {
    /// A lot for `most` instances, with at most `most_of_one` of each plugin.
    pub(crate) fn new(most: usize, most_of_one: usize) -> Self {
        Self { parked: Mutex::default(), most, most_of_one }
    }

    pub(crate) fn len(&self) -> usize {
        self.parked().len()
    }

    /// The instance of `owner` that was used last, because its memory is the warmest. Drops instances with other terms.
    pub(crate) fn take(&self, owner: &Arc<PluginCounters>, terms: &ReuseTerms) -> Option<Parked> {
        let mut outdated = Vec::new();
        let mut parked = self.parked();
        let found = loop {
            let Some(last) = parked.iter().rposition(|one| Arc::ptr_eq(&one.owner, owner)) else { break None };
            match parked.remove(last) {
                Some(one) if one.terms != *terms => outdated.push(one),
                found => break found,
            }
        };
        // Dropping a store takes time, so this happens outside of the lock.
        drop(parked);
        drop(outdated);
        found
    }

    /// Keeps `one` if there is room, unless `is_needed` says that its memory is needed. `is_needed` is called while
    /// nothing can be evicted, so that a waiting call finds either the instance or its memory.
    pub(crate) fn park(&self, one: Parked, is_needed: impl FnOnce() -> bool) {
        let mut parked = self.parked();
        let of_one = parked.iter().filter(|other| Arc::ptr_eq(&other.owner, &one.owner)).count();
        if is_needed() || of_one >= self.most_of_one || self.most == 0 {
            drop(parked);
            return drop(one);
        }
        let oldest = if parked.len() >= self.most { parked.pop_front() } else { None };
        parked.push_back(one);
        // Dropping a store takes time, so this happens outside of the lock.
        drop(parked);
        drop(oldest);
    }

    /// Drops the instances that were not called for `time`. Returns when the next instance is due. `None` if no
    /// instance is left.
    pub(crate) fn evict_idle(&self, time: Duration) -> Option<Instant> {
        loop {
            let mut parked = self.parked();
            let due = parked.front()?.since + time;
            if due > Instant::now() {
                return Some(due);
            }
            let idle = parked.pop_front();
            drop(parked);
            drop(idle);
        }
    }

    /// Drops all instances of `owner`.
    pub(crate) fn forget(&self, owner: &Arc<PluginCounters>) {
        let mut parked = self.parked();
        if parked.is_empty() {
            return;
        }
        let is_its = |one: &Parked| Arc::ptr_eq(&one.owner, owner);
        let (its, others): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut *parked).into_iter().partition(is_its);
        *parked = others;
        drop(parked);
        drop(its);
    }

    fn parked(&self) -> MutexGuard<'_, VecDeque<Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleMemory for ParkingLot {
    fn evict_oldest(&self) -> bool {
        let oldest = self.parked().pop_front();
        oldest.is_some()
    }
}
