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
    /// The plugin stops writing when nothing changes any more (controller-runtime: level-triggered reconcilers are
    /// idempotent).
    Quiet,
    /// No object is created or deleted more often than without faults (Sieve, OSDI '22: number of creations and
    /// deletions).
    NotNeeded,
    /// An object that is being deleted disappears (Kubernetes: finalizers).
    Stuck,
    /// The owner of each remaining object exists (Kubernetes: garbage collection).
    Orphan,
    /// The end state depends only on the current spec, not on earlier ones (Acto, SOSP '23: differential oracle).
    History,
    /// A status names only a generation that existed (Kubernetes API conventions: observedGeneration).
    StatusAhead,
    /// A restarted host writes nothing (Kubernetes API conventions: level-based behaviour).
    SecondRun,
    /// Each call ends with an answer of the plugin.
    Traps,
    /// When the world is quiet, the last call of each object has succeeded.
    Fails,
    /// Runs with other seeds end in the same state: nothing depends on randomness, the order of a list or the clock.
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
    pub fn violation(self) -> &'static str {
        match self {
            RunRule::Steps => "a step of the scenario cannot be carried out",
            RunRule::Expectation => "an expectation of the scenario does not hold",
            RunRule::Converges => "the end state differs from the one without the fault",
            RunRule::Quiet => "the plugin keeps writing although nothing changes any more",
            RunRule::NotNeeded => "the plugin creates or deletes more objects than without the fault",
            RunRule::Stuck => "an object that is being deleted does not disappear",
            RunRule::Orphan => "an object remains although its owner is gone",
            RunRule::History => "the end state depends on an earlier spec",
            RunRule::StatusAhead => "a status names a generation that the object never had",
            RunRule::SecondRun => "the plugin writes after a restart of the host although nothing has changed",
            RunRule::Traps => "a call traps",
            RunRule::Fails => "the plugin's calls fail and keep failing",
            RunRule::Chance => "the end state depends on randomness, on an order, or on the clock",
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
