//! Defects that a test seeds into the engine, one at a time, to see whether `windlass check` finds them (ADR 26).
//!
//! The code that a defect would spoil asks [`Defect::is_seeded`]. A build without debug assertions, as every released one is,
//! knows at compile time that the answer is no. In the others the test has to say so on the thread of its told world: no flag,
//! file or variable does.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;

thread_local! {
    static SEEDED: Cell<Option<Defect>> = const { Cell::new(None) };
}

/// A guard of the engine that is missing. Each is a bug that controllers have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// The workqueue drops a key that is added while a worker has it.
    AddWhileRunningIsLost,
    /// A key that has failed is not tried again.
    FailureIsForgotten,
    /// A conflict is not tried again: an event is sure to come.
    ConflictIsForgotten,
    /// A plugin that asks to run again later does not.
    RequeueAfterIsIgnored,
    /// A key runs before the caches show what it has written.
    GateHoldsNothing,
    /// Of several writes of a call, the caches need only show the first.
    FirstWriteIsEnough,
    /// An informer does not notice what a list lacks: objects that have gone unseen stay in its cache.
    UnseenDeletionIsKept,
    /// An index has an object as it was when it came.
    IndexKeepsFirstState,
    /// An object that leaves its owner does not run the owner.
    FormerOwnerIsNotTold,
    /// The objects that are there when a controller begins do not run.
    StartQueuesNothing,
    /// An apply that only takes fields away is skipped, as one that changes nothing.
    RemovedFieldIsKept,
    /// The finalizer goes before the plugin has said that it is done.
    FinalizerGoesFirst,
    /// A finalizer that could not be removed stays on.
    FinalizerIsLeftOn,
    /// Children that are no longer composed stay.
    NothingIsPruned,
    /// Children that were only adopted go when they are no longer composed.
    AdoptedIsPruned,
}

/// While this is held, the engine of its thread has a defect. It stays on that thread.
#[must_use = "the defect is there only while this is held"]
pub struct SeededDefect {
    before: Option<Defect>,
    _stays: PhantomData<Rc<()>>,
}

impl Defect {
    pub const ALL: [Self; 15] = [
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
    ];

    /// Whether the engine has it here and now.
    #[must_use]
    pub fn is_seeded(self) -> bool {
        cfg!(debug_assertions) && SEEDED.get() == Some(self)
    }

    /// Has the engine of this thread have it, in a build with debug assertions.
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
    fn a_defect_is_of_its_thread_and_ends_with_its_guard() {
        let seeded = Defect::NothingIsPruned.seed();
        assert!(Defect::NothingIsPruned.is_seeded() && !Defect::AdoptedIsPruned.is_seeded());
        let elsewhere = std::thread::spawn(|| Defect::NothingIsPruned.is_seeded()).join().expect("no panic");
        assert!(!elsewhere);
        drop(seeded);
        assert!(Defect::ALL.iter().all(|defect| !defect.is_seeded()));
    }
}
