//! Defects that a test seeds into the engine, one at a time, to see whether `windlass check` finds them (ADR 26).
//!
//! The code that a defect would break asks [`Defect::is_seeded`]. In a build without debug assertions, as every
//! release is, the answer is no at compile time. In other builds, only a test can seed a defect, on the thread
//! of its simulated world. No flag, file or environment variable seeds one.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;

thread_local! {
    static SEEDED: Cell<Option<Defect>> = const { Cell::new(None) };
}

/// A missing safeguard of the engine. Each is a bug that real controllers have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// The workqueue drops a key that is added while a worker has it.
    AddWhileRunningIsLost,
    /// A key that failed is not retried.
    FailureIsForgotten,
    /// A conflict is not retried, on the assumption that an event will come.
    ConflictIsForgotten,
    /// A plugin's request to run again later is ignored.
    RequeueAfterIsIgnored,
    /// A key runs before the caches show its own writes.
    GateHoldsNothing,
    /// After several writes of a call, the gate waits only for the first.
    FirstWriteIsEnough,
    /// An informer keeps an object that a new list lacks, if the watch did not show the deletion.
    UnseenDeletionIsKept,
    /// An index keeps an object's first state.
    IndexKeepsFirstState,
    /// When an object loses its owner, that owner is not queued.
    FormerOwnerIsNotTold,
    /// Objects that exist when a controller starts are not queued.
    StartQueuesNothing,
    /// An apply that only removes fields is skipped as a no-op.
    RemovedFieldIsKept,
    /// The finalizer is removed before the plugin has finished.
    FinalizerGoesFirst,
    /// The removal of the finalizer is not retried after a failure.
    FinalizerIsLeftOn,
    /// Children that are no longer composed are not pruned.
    NothingIsPruned,
    /// Adopted children are pruned when they are no longer composed.
    AdoptedIsPruned,
    /// Where the plugin's own code decides which primaries count, the objects that exist at a start are not rescanned.
    RescanIsLost,
    /// Where the plugin's own code decides which objects count, deletions do not count.
    JudgedDeletionIsLost,
    /// A cache's counter of changes misses removals, so that a list seems to be unchanged.
    RemovalIsNotCounted,
    /// A read whose state has changed counts as unchanged, without a look at the answer.
    DigestIsIgnored,
    /// A skipped write is skipped again, whatever becomes of the values that it sets and of their owners.
    SkipIgnoresValues,
    /// A key whose time has come need not be called if nothing has changed.
    DueTimerMayBeSaved,
    /// Calls are saved although the plugin's grants or configuration have changed since the last call.
    OldGrantsAreKept,
    /// A call that has asked for the time is saved like any other.
    ClockIsNotNoted,
}

/// While this is held, the engine has the defect on this thread.
#[must_use = "the defect is there only while this is held"]
pub struct SeededDefect {
    before: Option<Defect>,
    _stays: PhantomData<Rc<()>>,
}

impl Defect {
    /// The defects that `windlass check` must find.
    pub const ALL: [Self; 17] = [
        Self::AddWhileRunningIsLost,
        Self::FailureIsForgotten,
        Self::ConflictIsForgotten,
        Self::RequeueAfterIsIgnored,
        Self::GateHoldsNothing,
        Self::FirstWriteIsEnough,
        Self::UnseenDeletionIsKept,
        Self::IndexKeepsFirstState,
        Self::FormerOwnerIsNotTold,
        Self::StartQueuesNothing,
        Self::RemovedFieldIsKept,
        Self::FinalizerGoesFirst,
        Self::FinalizerIsLeftOn,
        Self::NothingIsPruned,
        Self::AdoptedIsPruned,
        Self::RescanIsLost,
        Self::JudgedDeletionIsLost,
    ];
    /// The defects of saved calls, which the tests of saved calls must find. Saving is off in `windlass check`.
    pub const OF_SAVED_CALLS: [Self; 6] = [
        Self::RemovalIsNotCounted,
        Self::DigestIsIgnored,
        Self::SkipIgnoresValues,
        Self::DueTimerMayBeSaved,
        Self::OldGrantsAreKept,
        Self::ClockIsNotNoted,
    ];

    /// Whether the defect is seeded on this thread.
    #[must_use]
    pub fn is_seeded(self) -> bool {
        cfg!(debug_assertions) && SEEDED.get() == Some(self)
    }

    /// Seeds the defect on this thread, in a build with debug assertions.
    pub fn seed(self) -> SeededDefect {
        SeededDefect { before: SEEDED.replace(Some(self)), _stays: PhantomData }
    }
}

impl Drop for SeededDefect {
    fn drop(&mut self) {
        SEEDED.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_is_bound_to_its_thread_and_guard() {
        let seeded = Defect::NothingIsPruned.seed();
        assert!(Defect::NothingIsPruned.is_seeded() && !Defect::AdoptedIsPruned.is_seeded());
        let elsewhere = std::thread::spawn(|| Defect::NothingIsPruned.is_seeded()).join().expect("no panic");
        assert!(!elsewhere);
        drop(seeded);
        assert!(Defect::ALL.iter().all(|defect| !defect.is_seeded()));
    }
}
