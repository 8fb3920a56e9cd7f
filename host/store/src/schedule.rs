//! Decides when a plugin is fetched: at once after an edit, again after a failure, and at intervals for a tag that the
//! host polls. Time and randomness are passed in.

use std::time::Duration;

use windlass_core::clock::Moment;
use windlass_core::retry::{Retries, RetryPolicy};

use crate::error::FetchError;

/// The pauses after failures. The jitter keeps plugins of one registry from asking it together.
const FETCH_BACKOFF: RetryPolicy =
    RetryPolicy::doubling(Duration::from_secs(5), Duration::from_mins(10)).jitter(0.8, 1.2);
/// The longest time that a registry can put off the next attempt.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);
/// The shortest interval between two polls of a tag.
const TAG_POLL_MIN: Duration = Duration::from_secs(30);

/// When a plugin is fetched next.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchSchedule {
    poll: Option<Duration>,
    failures: Retries,
    due: Option<Moment>,
}

impl FetchSchedule {
    /// A plugin that is due now. `poll` is the interval at which its tag is resolved again, if it is, but at least 30
    /// seconds.
    #[must_use]
    pub fn new(poll: Option<Duration>, now: Moment) -> Self {
        let poll = poll.map(|interval| interval.max(TAG_POLL_MIN));
        Self { poll, failures: FETCH_BACKOFF.begin(), due: Some(now) }
    }

    /// When the next fetch is due. `None` if the object must change first.
    #[must_use]
    pub fn due(&self) -> Option<Moment> {
        self.due
    }

    /// Makes the plugin due now, because the object, a secret or a setting of it has changed.
    pub fn edited(&mut self, poll: Option<Duration>, now: Moment) {
        *self = Self::new(poll, now);
    }

    /// Notes a fetch that has succeeded. `random` is from 0 to 1.
    pub fn succeeded(&mut self, now: Moment, random: f64) {
        self.failures.reset();
        self.due = self.poll.map(|interval| now + interval.mul_f64(0.9 + 0.2 * random));
    }

    /// Notes a fetch that has failed. `random` is from 0 to 1.
    pub fn failed(&mut self, error: &FetchError, now: Moment, random: f64) {
        let pause = self.failures.pause(random);
        let asked = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
        // Those that a registry puts off for the same time do not come back together.
        let asked = asked.mul_f64(1.0 + 0.2 * random);
        self.due = (!error.is_final()).then(|| now + pause.max(asked));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use windlass_oci::OciError;

    use super::*;

    const fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn busy(retry_after: Option<u64>) -> FetchError {
        let retry_after = retry_after.map(Duration::from_secs);
        FetchError::registry("r", OciError::Busy { server: "r".to_owned(), status: 429, waits: 0, retry_after })
    }

    fn refused(by_digest: bool) -> FetchError {
        FetchError::Artefact { registry: "r".to_owned(), by_digest, source: Arc::new(OciError::Archive) }
    }

    #[test]
    fn failures_wait_longer_and_longer_up_to_a_bound() {
        let mut schedule = FetchSchedule::new(None, at(1));
        assert_eq!(schedule.due(), Some(at(1)));
        let waits: Vec<_> = (0..10)
            .map(|_| {
                schedule.failed(&busy(None), at(100), 0.5);
                schedule.due().expect("it is tried again").0.as_secs() - 100
            })
            .collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
        schedule.succeeded(at(200), 0.5);
        assert_eq!(schedule.due(), None, "it does not poll");
        schedule.failed(&busy(None), at(300), 0.5);
        assert_eq!(schedule.due(), Some(at(305)), "a success starts over");
    }

    #[test]
    fn a_registry_is_given_the_wait_it_asks_for_within_a_bound() {
        for (asked, expected) in [(Some(0), 5), (Some(2), 5), (Some(60), 66), (Some(u64::MAX), 660), (None, 5)] {
            let mut schedule = FetchSchedule::new(None, at(0));
            schedule.failed(&busy(asked), at(0), 0.5);
            assert_eq!(schedule.due(), Some(at(expected)), "{asked:?}");
        }
    }

    #[test]
    fn an_edit_is_tried_at_once() {
        let mut schedule = FetchSchedule::new(None, at(0));
        schedule.failed(&busy(Some(1000)), at(0), 0.5);
        schedule.edited(None, at(7));
        assert_eq!(schedule, FetchSchedule::new(None, at(7)));
    }

    #[test]
    fn a_refused_digest_waits_for_an_edit_and_a_refused_tag_does_not() {
        let mut schedule = FetchSchedule::new(Some(Duration::from_mins(1)), at(0));
        schedule.failed(&refused(true), at(0), 0.5);
        assert_eq!(schedule.due(), None);
        schedule.failed(&refused(false), at(0), 0.5);
        assert!(schedule.due().is_some(), "the tag may lead to another artefact by then");
    }

    #[test]
    fn a_tag_is_polled_at_its_interval_but_not_all_the_time() {
        let mut schedule = FetchSchedule::new(Some(Duration::from_mins(5)), at(0));
        schedule.succeeded(at(100), 0.5);
        assert_eq!(schedule.due(), Some(at(400)));
        let mut schedule = FetchSchedule::new(Some(Duration::ZERO), at(0));
        schedule.succeeded(at(100), 0.5);
        assert_eq!(schedule.due(), Some(at(130)));
    }

    proptest! {
        #[test]
        fn the_next_attempt_is_never_at_once_and_never_too_late(
            asked in proptest::option::of(any::<u64>()), failures in 1_usize..100, random in 0.0..1.0,
        ) {
            let mut schedule = FetchSchedule::new(None, at(0));
            for _ in 0..failures {
                schedule.failed(&busy(asked), at(0), random);
            }
            let wait = schedule.due().expect("it is tried again").0;
            prop_assert!((Duration::from_secs(4)..=RETRY_AFTER_MAX * 6 / 5).contains(&wait), "{wait:?}");
        }
    }
}
