//! The rules by which runs are judged.

use serde::{Deserialize, Serialize};

/// A rule that every run must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunRule {
    /// Each step of the scenario can be carried out.
    Steps,
    /// The scenario's expectations hold at the end.
    Expectation,
    /// The plugin ends in the same state as without faults (Sieve, OSDI '22: safety of the end state).
    Converges,
    /// The plugin stops writing when nothing changes any more (controller-runtime: a level-triggered reconciler is
    /// idempotent).
    Quiet,
    /// No object is created or deleted more often than without faults (Sieve, OSDI '22: number of creations and
    /// deletions).
    NotNeeded,
    /// An object that is being deleted disappears (Kubernetes: finalizers).
    Stuck,
    /// An object that remains has its owner (Kubernetes: garbage collection).
    Orphan,
    /// The end state depends on the current spec, and not on earlier ones (Acto, SOSP '23: differential oracle).
    History,
    /// A status names only a generation that existed (Kubernetes API conventions: observedGeneration).
    StatusAhead,
    /// A restarted host writes nothing (Kubernetes API conventions: level-based behaviour).
    SecondRun,
    /// A call ends with an answer of the plugin.
    Traps,
    /// When the world is quiet, no object's last call has failed.
    Fails,
    /// Another seed leads to the same end state: nothing depends on randomness, the order of a list or the clock.
    Chance,
}

impl RunRule {
    pub const ALL: [RunRule; 13] = [
        RunRule::Steps,
        RunRule::Expectation,
        RunRule::Converges,
        RunRule::Quiet,
        RunRule::NotNeeded,
        RunRule::Stuck,
        RunRule::Orphan,
        RunRule::History,
        RunRule::StatusAhead,
        RunRule::SecondRun,
        RunRule::Traps,
        RunRule::Fails,
        RunRule::Chance,
    ];

    /// A clause that says how a run violates the rule.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            RunRule::Steps => "a step of the scenario cannot be done",
            RunRule::Expectation => "what the scenario expects does not hold",
            RunRule::Converges => "the end is another one than without the fault",
            RunRule::Quiet => "it goes on writing, although nothing changes any more",
            RunRule::NotNeeded => "it makes or deletes more than without the fault",
            RunRule::Stuck => "an object that is being deleted does not go",
            RunRule::Orphan => "an object is left whose owner has gone",
            RunRule::History => "the end depends on what the spec was before",
            RunRule::StatusAhead => "a status claims a generation that the object has not had",
            RunRule::SecondRun => "it writes again when the host is begun again, although nothing has changed",
            RunRule::Traps => "a call traps",
            RunRule::Fails => "it fails, and goes on failing",
            RunRule::Chance => "the end depends on chance, on an order, or on the clock",
        }
    }

    /// The name of the rule in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RunRule::Steps => "steps",
            RunRule::Expectation => "expectation",
            RunRule::Converges => "converges",
            RunRule::Quiet => "quiet",
            RunRule::NotNeeded => "not-needed",
            RunRule::Stuck => "stuck",
            RunRule::Orphan => "orphan",
            RunRule::History => "history",
            RunRule::StatusAhead => "status-ahead",
            RunRule::SecondRun => "second-run",
            RunRule::Traps => "traps",
            RunRule::Fails => "fails",
            RunRule::Chance => "chance",
        }
    }
}
