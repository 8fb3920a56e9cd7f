//! Instances between two calls, of plugins whose operator wants them used again.
//!
//! Bounded in number for each plugin and for all, in how long they wait, in how many calls one serves and in how far it
//! grows; what memory they have counts (`memory`), and they are given up as soon as a call waits for memory. A store
//! that is parked knows nothing of the call before: its state has been put aside (`CallState::parked`), or a key would
//! never come to rest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use wasmtime::Store;
use windlass_core::call::ports::CallContext;
use windlass_core::rights::grants::Grants;
use windlass_core::secret::confidential::Confidential;

use crate::abi::v0_2_0::{Instance, LinkedPlugin};
use crate::counters::PluginCounters;
use crate::memory::IdleMemory;
use crate::state::CallState;

/// The operator's terms for a plugin: what it may know and do. An instance keeps things of a call under its terms, so
/// it serves no call under others. (Mostly they are not just equal but the same, which is looked at first.) And the
/// code that it is an instance of: nobody goes back to slower code.
#[derive(Clone)]
pub(crate) struct ReuseTerms {
    config: Confidential,
    grants: Arc<Grants>,
    code: Arc<LinkedPlugin>,
}

impl ReuseTerms {
    /// Those of `call` now, of `code`.
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
    /// Bytes of memory that its first call has left to it.
    room: usize,
}

impl Service {
    /// One call more, which has left `room` bytes. None: it serves no other. That is so after `most` calls, and when
    /// less than half is left of what there was in the beginning: what a language forgets to free costs a fresh
    /// instance then, and no call.
    pub(crate) fn and_one(self, room: usize, most: u32) -> Option<Self> {
        let first = if self.calls == 0 { room } else { self.room };
        let served = Self { calls: self.calls + 1, room: first };
        (served.calls < most && room >= first / 2).then_some(served)
    }
}

/// An instance that may serve the next call.
pub(crate) struct Parked {
    /// Whose it is: one generation of a plugin has one of these.
    pub(crate) owner: Arc<PluginCounters>,
    pub(crate) store: Store<CallState>,
    pub(crate) instance: Instance,
    /// Of its first call.
    pub(crate) terms: ReuseTerms,
    pub(crate) served: Service,
    pub(crate) since: Instant,
}

/// Where they wait, the one that has waited longest first.
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
    /// For `most` instances, of which no plugin has more than `most_of_one`.
    pub(crate) fn new(most: usize, most_of_one: usize) -> Self {
        Self { parked: Mutex::default(), most, most_of_one }
    }

    pub(crate) fn len(&self) -> usize {
        self.parked().len()
    }

    /// The one of `owner`'s that was used last: its memory is the warmest. Those of other terms go.
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
        // A store takes its time to go: nobody need wait for that.
        drop(parked);
        drop(outdated);
        found
    }

    /// Keeps `one` if there is room, unless `is_needed` says that its memory is needed. The answer is taken while
    /// nothing can be evicted, so that who waits sees either the instance or its memory.
    pub(crate) fn park(&self, one: Parked, is_needed: impl FnOnce() -> bool) {
        let mut parked = self.parked();
        let of_one = parked.iter().filter(|other| Arc::ptr_eq(&other.owner, &one.owner)).count();
        if is_needed() || of_one >= self.most_of_one || self.most == 0 {
            drop(parked);
            return drop(one);
        }
        let oldest = if parked.len() >= self.most { parked.pop_front() } else { None };
        parked.push_back(one);
        // A store takes its time to go: nobody need wait for that.
        drop(parked);
        drop(oldest);
    }

    /// Gives up those that nobody has called for `time`. Returns when the next will be due; None: none is left.
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

    /// Gives up all of `owner`'s.
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
