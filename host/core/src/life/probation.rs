//! Decides whether a new generation may stay (ADR 13): by how its first calls end, beside those of the one before it.
//!
//! Nothing here knows the time or a plugin; the host counts and asks after each call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::object::ObjectKey;
use crate::queue::outcome::{CallResult, Decision, Retry};

/// How long a generation is on probation from its first call on, at most.
pub const PROBATION_TIME_MAX: Duration = Duration::from_mins(1);
/// How many calls a generation is on probation for, at most.
pub const PROBATION_CALLS_MAX: u64 = 50;
/// A generation with fewer failures on probation is not judged by them: an object may be at fault.
pub const PROBATION_FAILURES_MIN: u64 = 5;
/// How many times as often as the one before it a generation must fail to be the cause.
pub const FAILURE_RATIO_MIN: u64 = 3;

/// How many calls of a generation say how it does now; what is older does not.
const RECENT_CALLS_MAX: u64 = 500;

/// Calls, and those of them that failed by the plugin's own fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// How many calls have ended.
    pub calls: u64,
    /// How many of them failed.
    pub failures: u64,
}

impl CallCounts {
    /// One more call has ended.
    pub fn add(&mut self, failed: bool) {
        self.calls += 1;
        self.failures += u64::from(failed);
    }

    fn plus(self, other: Self) -> Self {
        Self { calls: self.calls + other.calls, failures: self.failures + other.failures }
    }
}

/// The record of the last calls: of `RECENT_CALLS_MAX` to twice as many. What failed last month says nothing of today,
/// nor does what went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    before: CallCounts,
    now: CallCounts,
}

impl Recent {
    /// One more call has ended.
    pub fn add(&mut self, failed: bool) {
        if self.now.calls == RECENT_CALLS_MAX {
            self.before = std::mem::take(&mut self.now);
        }
        self.now.add(failed);
    }

    /// All that is remembered.
    #[must_use]
    pub fn record(&self) -> CallCounts {
        self.before.plus(self.now)
    }
}

/// A failure of a call by its plugin's own fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnFailure {
    /// It trapped, or was stopped at a limit.
    Trap,
    /// It ended, and reported a failure that counts.
    Report,
    /// It reported a failure about an object about which the generation before had failed last, too.
    OldReport,
}

/// The subject of a call: a controller's name, and the key of one of its primaries.
pub type Subject = (Arc<str>, ObjectKey);

/// The first calls of a generation, by their subjects.
#[derive(Clone, Debug, Default)]
pub struct FirstCalls {
    calls: u64,
    traps: u64,
    reports: BTreeMap<Subject, u64>,
    succeeded: BTreeSet<Subject>,
    others_at_work: bool,
}

impl FirstCalls {
    /// One more call, about `subject`, has ended. `others_at_work`: calls about others still run.
    ///
    /// A report about an object with which the generation before could do nothing either says nothing of this one.
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

    /// Counts them. A key is tried again at once, five times in a fifth of a second. So the reports about one subject count
    /// as less than [`PROBATION_FAILURES_MIN`] while calls about others end well or still run: its object may be at fault, or
    /// what a cache shows of it may be old. No object may make a plugin trap.
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

/// The verdict about a generation on probation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbationVerdict {
    /// It is too early to say.
    Open,
    Passed,
    /// The one before it was better, and is to come back.
    Failed,
}

/// Judges a generation that has been called for so long, and whose calls since it began are `new`, after one whose last
/// calls were `old`.
///
/// Who has never been called is no better than anybody: then the new one stays.
#[must_use]
pub fn judge(new: CallCounts, called_for: Duration, old: CallCounts) -> ProbationVerdict {
    if called_for >= PROBATION_TIME_MAX {
        return ProbationVerdict::Passed;
    }
    // As products, so that nothing is divided by nothing.
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

/// Whether a call that ended with `result` and led to `decision` failed by its plugin's own fault: a trap, a limit, or a
/// failure that counts. What the API server did, and what the plugin says that an object's owner must mend, does not.
/// `failed_before`: the generation before had failed about the object last.
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
    fn one_object_that_fails_again_and_again_while_others_do_well_says_nothing() {
        assert_eq!(judged(&[GOOD, BAD, BAD, BAD, BAD, BAD, BAD, BAD]), ProbationVerdict::Open);
        let worse = ("worse", Some(OwnFailure::Report));
        assert_eq!(
            judged(&[GOOD, BAD, BAD, BAD, BAD, BAD, worse]),
            ProbationVerdict::Failed,
            "two may not be at fault"
        );
    }

    #[test]
    fn nothing_is_said_of_one_object_before_the_calls_about_others_have_ended() {
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
    fn objects_that_failed_under_the_generation_before_too_say_nothing_unless_it_traps() {
        let old = |name| (name, Some(OwnFailure::OldReport));
        let many = ["a", "b", "c"].map(old).repeat(20);
        assert_eq!(judged(&many), ProbationVerdict::Open, "they do not prove it either");
        assert_eq!(judged(&[&many[..], &[GOOD]].concat()), ProbationVerdict::Open);
    }

    #[test]
    fn objects_of_two_kinds_and_one_name_are_two() {
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
    fn a_generation_that_does_nothing_well_is_judged_by_one_object_too() {
        assert_eq!(judged(&[BAD; 5]), ProbationVerdict::Failed);
        assert_eq!(judged(&[("bad", None), BAD, BAD, BAD, BAD, BAD]), ProbationVerdict::Failed, "no other does well");
    }

    #[test]
    fn four_failures_say_nothing() {
        assert_eq!(judge(record(4, 4), EARLY_TIME, WELL), ProbationVerdict::Open);
        assert_eq!(judge(record(5, 5), EARLY_TIME, WELL), ProbationVerdict::Failed);
    }

    #[test]
    fn it_must_fail_three_times_as_often() {
        let old = record(100, 1_000);
        assert_eq!(judge(record(14, 49), EARLY_TIME, old), ProbationVerdict::Open);
        assert_eq!(judge(record(15, 49), EARLY_TIME, old), ProbationVerdict::Failed);
        assert_eq!(judge(record(15, 50), EARLY_TIME, old), ProbationVerdict::Failed, "exactly three times");
        assert_eq!(judge(record(14, 50), EARLY_TIME, old), ProbationVerdict::Passed);
    }

    #[test]
    fn after_one_that_always_failed_nothing_is_worse() {
        assert_eq!(judge(record(49, 49), EARLY_TIME, record(8, 8)), ProbationVerdict::Open);
        assert_eq!(judge(record(50, 50), EARLY_TIME, record(1, 2)), ProbationVerdict::Passed, "twice as often at most");
    }

    #[test]
    fn one_that_was_hardly_called_counts_as_far_as_it_goes() {
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
    fn what_a_generation_did_long_ago_is_forgotten() {
        let mut recent = Recent::default();
        (0..500).for_each(|_| recent.add(true));
        assert_eq!(recent.record(), record(500, 500));
        (0..500).for_each(|_| recent.add(false));
        assert_eq!(recent.record(), record(500, 2 * 500));
        recent.add(false);
        assert_eq!(recent.record(), record(0, 500 + 1));
    }

    #[test]
    fn only_what_counts_against_a_plugin_is_its_own_failure() {
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
