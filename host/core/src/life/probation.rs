//! Decides whether a new generation of a plugin may stay (ADR 13), by comparing the results of its first calls with
//! the results of the previous generation.
//!
//! This module reads no clock and calls no plugin. The host counts the calls, and asks for a verdict after
//! each call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::object::ObjectKey;
use crate::queue::outcome::{CallResult, Decision, Retry};

/// The longest probation, from the generation's first call on.
pub const PROBATION_TIME_MAX: Duration = Duration::from_mins(1);
/// The most calls of a probation.
pub const PROBATION_CALLS_MAX: u64 = 50;
/// A generation that has fewer failures than this on probation is not rejected: a single object may be at fault.
pub const PROBATION_FAILURES_MIN: u64 = 5;
/// A generation is rejected only if it fails at least this many times as often as the previous generation.
pub const FAILURE_RATIO_MIN: u64 = 3;

/// How many recent calls of a generation count.
const RECENT_CALLS_MAX: u64 = 500;

/// A number of calls, and how many of them failed through the plugin's own fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// How many calls have ended.
    pub calls: u64,
    /// How many of them failed.
    pub failures: u64,
}

impl CallCounts {
    /// Counts a call.
    pub fn add(&mut self, failed: bool) {
        self.calls += 1;
        self.failures += u64::from(failed);
    }

    fn plus(self, other: Self) -> Self {
        Self { calls: self.calls + other.calls, failures: self.failures + other.failures }
    }
}

/// The counts of recent calls: of the last `RECENT_CALLS_MAX` calls, or of up to twice as many. Calls from last month
/// say nothing about today.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    before: CallCounts,
    now: CallCounts,
}

impl Recent {
    /// Counts a call.
    pub fn add(&mut self, failed: bool) {
        if self.now.calls == RECENT_CALLS_MAX {
            self.before = std::mem::take(&mut self.now);
        }
        self.now.add(failed);
    }

    /// The counts of the recent calls.
    #[must_use]
    pub fn record(&self) -> CallCounts {
        self.before.plus(self.now)
    }
}

/// A failure of a call through the plugin's own fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnFailure {
    /// The call trapped or exceeded a limit.
    Trap,
    /// The call returned an error that counts as the plugin's fault.
    Report,
    /// The call returned an error about an object, and the previous generation's last call about that object had failed
    /// too.
    OldReport,
}

/// The subject of a call: the controller's name and the primary's key.
pub type Subject = (Arc<str>, ObjectKey);

/// The first calls of a generation, by subject.
#[derive(Clone, Debug, Default)]
pub struct FirstCalls {
    calls: u64,
    traps: u64,
    reports: BTreeMap<Subject, u64>,
    succeeded: BTreeSet<Subject>,
    others_at_work: bool,
}

impl FirstCalls {
    /// Records a call about `subject`. `others_at_work` says that calls about other subjects still run.
    ///
    /// An error about an object says nothing about this generation if the previous generation also failed for that
    /// object.
    pub fn add(&mut self, subject: &Subject, failure: Option<OwnFailure>, others_at_work: bool) {
        self.others_at_work = others_at_work;
        match failure {
            None => {
                self.succeeded.insert(subject.clone());
            }
            Some(OwnFailure::Trap) => self.traps += 1,
            Some(OwnFailure::Report) => *self.reports.entry(subject.clone()).or_default() += 1,
            Some(OwnFailure::OldReport) => return,
        }
        self.calls += 1;
    }

    /// The counts for [`judge`]. A failing key is retried five times within a fifth of a second. So errors about one
    /// subject count as fewer than [`PROBATION_FAILURES_MIN`] while calls about other subjects succeed or still run:
    /// that object may be at fault, or its cached state may be old. Traps always count, because no object may make a
    /// plugin trap.
    #[must_use]
    pub fn counts(&self) -> CallCounts {
        let counted = |(subject, failures): (&Subject, &u64)| {
            let others_may_do_well = self.others_at_work || self.succeeded.iter().any(|other| other != subject);
            if others_may_do_well { (*failures).min(PROBATION_FAILURES_MIN - 1) } else { *failures }
        };
        let reports: u64 = self.reports.iter().map(counted).sum();
        CallCounts { calls: self.calls, failures: self.traps + reports }
    }
}

/// The verdict on a generation on probation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbationVerdict {
    /// Too early to say.
    Open,
    Passed,
    /// The previous generation was better and should come back.
    Failed,
}

/// Judges a generation whose first call was `called_for` ago, with the counts `new`, against the recent counts `old` of
/// the previous generation.
///
/// If the previous generation was never called, it is not known to be better, so the new generation stays.
#[must_use]
pub fn judge(new: CallCounts, called_for: Duration, old: CallCounts) -> ProbationVerdict {
    if called_for >= PROBATION_TIME_MAX {
        return ProbationVerdict::Passed;
    }
    // Compare products to avoid dividing by zero.
    let is_worse = u128::from(new.failures) * u128::from(old.calls)
        >= u128::from(FAILURE_RATIO_MIN) * u128::from(old.failures) * u128::from(new.calls);
    if new.failures >= PROBATION_FAILURES_MIN && old.calls > 0 && is_worse {
        ProbationVerdict::Failed
    } else if new.calls >= PROBATION_CALLS_MAX {
        ProbationVerdict::Passed
    } else {
        ProbationVerdict::Open
    }
}

/// Whether a call with `result` and `decision` failed through the plugin's own fault: a trap, a limit, or an error that
/// counts. Errors of the API server, and errors that the object's owner must fix, do not count. `failed_before` says
/// that the previous generation's last call about the object had failed.
#[must_use]
pub fn own_failure(result: &CallResult, decision: &Decision, failed_before: bool) -> Option<OwnFailure> {
    let is_own = matches!(decision, Decision::Retry { retry: Retry::Counted, .. });
    let kind = match result {
        CallResult::Trapped { .. } => OwnFailure::Trap,
        _ if failed_before => OwnFailure::OldReport,
        _ => OwnFailure::Report,
    };
    is_own.then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY_TIME: Duration = Duration::from_secs(1);
    const WELL: CallCounts = CallCounts { calls: 1_000, failures: 0 };

    fn record(failures: u64, calls: u64) -> CallCounts {
        CallCounts { calls, failures }
    }

    #[test]
    fn probation_ends_with_the_fiftieth_call() {
        assert_eq!(judge(record(0, 49), EARLY_TIME, WELL), ProbationVerdict::Open);
        assert_eq!(judge(record(0, 50), EARLY_TIME, WELL), ProbationVerdict::Passed);
        assert_eq!(judge(record(5, 50), EARLY_TIME, WELL), ProbationVerdict::Failed, "the fiftieth call counts");
    }

    #[test]
    fn probation_ends_after_a_minute_whatever_has_failed() {
        let late = Duration::from_millis(59_999);
        assert_eq!(judge(record(1, 2), late, WELL), ProbationVerdict::Open);
        assert_eq!(judge(record(5, 5), late, WELL), ProbationVerdict::Failed);
        assert_eq!(judge(record(5, 5), Duration::from_mins(1), WELL), ProbationVerdict::Passed);
        assert_eq!(
            judge(record(0, 0), Duration::from_mins(1), WELL),
            ProbationVerdict::Passed,
            "it may have nothing to do"
        );
    }

    fn about(name: &str) -> Subject {
        let (controller, name) = name.split_once('/').unwrap_or(("webapps", name));
        (controller.into(), ObjectKey::namespaced("prod", name))
    }

    fn judged(calls: &[(&str, Option<OwnFailure>)]) -> ProbationVerdict {
        let mut first = FirstCalls::default();
        for (name, failure) in calls {
            first.add(&about(name), *failure, false);
        }
        judge(first.counts(), EARLY_TIME, WELL)
    }

    const GOOD: (&str, Option<OwnFailure>) = ("good", None);
    const BAD: (&str, Option<OwnFailure>) = ("bad", Some(OwnFailure::Report));

    #[test]
    fn one_failing_object_among_others_that_succeed_does_not_count() {
        assert_eq!(judged(&[GOOD, BAD, BAD, BAD, BAD, BAD, BAD, BAD]), ProbationVerdict::Open);
        let worse = ("worse", Some(OwnFailure::Report));
        assert_eq!(
            judged(&[GOOD, BAD, BAD, BAD, BAD, BAD, worse]),
            ProbationVerdict::Failed,
            "two may not be at fault"
        );
    }

    #[test]
    fn one_failing_object_does_not_count_while_others_still_run() {
        let mut first = FirstCalls::default();
        (0..5).for_each(|_| first.add(&about("bad"), BAD.1, true));
        assert_eq!(judge(first.counts(), EARLY_TIME, WELL), ProbationVerdict::Open);
        let mut others_fail = first.clone();
        others_fail.add(&about("worse"), BAD.1, false);
        assert_eq!(judge(others_fail.counts(), EARLY_TIME, WELL), ProbationVerdict::Failed);
        first.add(&about("good"), None, false);
        assert_eq!(judge(first.counts(), EARLY_TIME, WELL), ProbationVerdict::Open);
    }

    #[test]
    fn objects_that_failed_before_count_only_if_the_plugin_traps() {
        let old = |name| (name, Some(OwnFailure::OldReport));
        let many = ["a", "b", "c"].map(old).repeat(20);
        assert_eq!(judged(&many), ProbationVerdict::Open, "they do not prove it either");
        assert_eq!(judged(&[&many[..], &[GOOD]].concat()), ProbationVerdict::Open);
    }

    #[test]
    fn objects_of_two_kinds_with_one_name_differ() {
        let kind = |subject| (subject, Some(OwnFailure::Report));
        assert_eq!(
            judged(&[&[("webapps/shop", None)][..], &[kind("databases/shop"); 7]].concat()),
            ProbationVerdict::Open
        );
        let both = [GOOD, kind("webapps/shop"), kind("webapps/shop"), kind("webapps/shop"), kind("databases/shop")];
        assert_eq!(judged(&[&both[..], &[kind("databases/shop")]].concat()), ProbationVerdict::Failed);
    }

    #[test]
    fn a_generation_that_traps_over_one_object_is_judged_by_it() {
        let trap = ("bad", Some(OwnFailure::Trap));
        assert_eq!(judged(&[GOOD, trap, trap, trap, trap]), ProbationVerdict::Open);
        assert_eq!(judged(&[GOOD, trap, trap, trap, trap, trap]), ProbationVerdict::Failed);
    }

    #[test]
    fn without_any_success_one_failing_object_is_enough() {
        assert_eq!(judged(&[BAD; 5]), ProbationVerdict::Failed);
        assert_eq!(judged(&[("bad", None), BAD, BAD, BAD, BAD, BAD]), ProbationVerdict::Failed, "no other does well");
    }

    #[test]
    fn four_failures_are_too_few() {
        assert_eq!(judge(record(4, 4), EARLY_TIME, WELL), ProbationVerdict::Open);
        assert_eq!(judge(record(5, 5), EARLY_TIME, WELL), ProbationVerdict::Failed);
    }

    #[test]
    fn a_rejected_generation_fails_three_times_as_often() {
        let old = record(100, 1_000);
        assert_eq!(judge(record(14, 49), EARLY_TIME, old), ProbationVerdict::Open);
        assert_eq!(judge(record(15, 49), EARLY_TIME, old), ProbationVerdict::Failed);
        assert_eq!(judge(record(15, 50), EARLY_TIME, old), ProbationVerdict::Failed, "exactly three times");
        assert_eq!(judge(record(14, 50), EARLY_TIME, old), ProbationVerdict::Passed);
    }

    #[test]
    fn no_generation_is_worse_than_one_that_always_failed() {
        assert_eq!(judge(record(49, 49), EARLY_TIME, record(8, 8)), ProbationVerdict::Open);
        assert_eq!(judge(record(50, 50), EARLY_TIME, record(1, 2)), ProbationVerdict::Passed, "twice as often at most");
    }

    #[test]
    fn a_previous_generation_with_few_calls_still_counts() {
        assert_eq!(judge(record(5, 5), EARLY_TIME, record(0, 1)), ProbationVerdict::Failed);
        assert_eq!(judge(record(5, 5), EARLY_TIME, record(1, 3)), ProbationVerdict::Failed);
        assert_eq!(
            judge(record(5, 5), EARLY_TIME, record(0, 0)),
            ProbationVerdict::Open,
            "nothing says that it was better"
        );
        assert_eq!(judge(record(50, 50), EARLY_TIME, record(0, 0)), ProbationVerdict::Passed);
    }

    #[test]
    fn calls_of_long_ago_are_forgotten() {
        let mut recent = Recent::default();
        (0..500).for_each(|_| recent.add(true));
        assert_eq!(recent.record(), record(500, 500));
        (0..500).for_each(|_| recent.add(false));
        assert_eq!(recent.record(), record(500, 2 * 500));
        recent.add(false);
        assert_eq!(recent.record(), record(0, 500 + 1));
    }

    #[test]
    fn only_failures_that_count_are_the_plugins_own() {
        let retry = |retry| Decision::Retry { retry, at_least: None };
        let reported = CallResult::Failed(Vec::new());
        let trapped = CallResult::Trapped { reason: "trap", message: "unreachable".to_owned() };
        let counted = retry(Retry::Counted);
        assert_eq!(own_failure(&reported, &counted, false), Some(OwnFailure::Report));
        assert_eq!(own_failure(&reported, &counted, true), Some(OwnFailure::OldReport));
        for before in [false, true] {
            assert_eq!(own_failure(&trapped, &counted, before), Some(OwnFailure::Trap));
        }
        for other in [
            retry(Retry::Uncounted),
            Decision::Forget,
            Decision::Leave(None),
            Decision::ForgetAndReport("the object is wrong".to_owned()),
        ] {
            assert_eq!(own_failure(&reported, &other, false), None, "{other:?}");
        }
    }
}
