//! The results of calls.

use std::time::Duration;

use windlass_core::cache::mapping::Target;
use windlass_core::cache::related::RelatedRule;
use windlass_core::call::compose::Composition;
use windlass_core::queue::outcome::CallResult;

use crate::memory::Held;

/// A call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    pub result: CallResult,
    /// The processor time that the call used on the guest's thread.
    pub cpu: Duration,
    /// Whether the plugin was called. If not, the host knew the result without a call, and the result says nothing
    /// about the plugin.
    pub made: bool,
    /// Whether the object must keep its finalizer although the call succeeded: the object is being deleted, and its
    /// composer has not released it.
    pub keeps_finalizer: bool,
    /// Whether the call was not made because it could have changed nothing.
    pub saved: bool,
}

impl Called {
    /// A call that was made and used `cpu`.
    #[must_use]
    pub fn made(result: CallResult, cpu: Duration) -> Self {
        Self { result, cpu, made: true, keeps_finalizer: false, saved: false }
    }

    /// A call that was not made, because the host knew the result without it.
    #[must_use]
    pub fn not_made(result: CallResult) -> Self {
        Self { result, cpu: Duration::ZERO, made: false, keeps_finalizer: false, saved: false }
    }

    /// A call that was not made, because it would have read what the last call about its key read, and that call
    /// changed nothing. The host used `cpu` to find that out.
    #[must_use]
    pub fn saved(cpu: Duration) -> Self {
        Self { saved: true, cpu, ..Self::not_made(CallResult::Done) }
    }
}

/// A call of `compose` that has ended.
#[derive(Debug)]
pub struct Composed {
    /// The plugin's answer. The error is the result of a failed call.
    pub answer: Result<Composition, CallResult>,
    /// The processor time that the call used on the guest's thread.
    pub cpu: Duration,
    /// The wall time that remains of the call's deadline, to carry out the answer.
    pub left: Duration,
    /// The answer's share of the memory that all guests have together, held while the answer is used. `None` if there
    /// is no answer.
    pub held: Option<Held>,
}

/// A call of `map` that has ended.
#[derive(Debug)]
pub struct Mapped {
    /// The targets of each change. The error is the result of a failed call.
    pub answer: Result<Vec<Vec<Target>>, CallResult>,
    /// The processor time that the call used on the guest's thread.
    pub cpu: Duration,
}

/// A call of `matches` that has ended.
#[derive(Debug)]
pub struct Matched {
    /// Whether each change passes the plugin's predicate. The error is the result of a failed call.
    pub answer: Result<Vec<bool>, CallResult>,
    /// The processor time that the call used on the guest's thread.
    pub cpu: Duration,
}

/// A call of `customize` that has ended.
#[derive(Debug)]
pub struct Customized {
    /// The rules. The error is the result of a failed call.
    pub answer: Result<Vec<RelatedRule>, CallResult>,
    /// The processor time that the call used on the guest's thread.
    pub cpu: Duration,
    /// The wall time that remains of the call's deadline, to carry out the answer.
    pub left: Duration,
}
