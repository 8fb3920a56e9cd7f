//! Records how the calls of one generation end. Dispatch writes the record, and a swap is judged by it.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use windlass_core::life::probation::{self, CallCounts, FirstCalls, OwnFailure, ProbationVerdict, Recent, Subject};

/// How the calls of one generation ended, and its probation.
#[derive(Debug)]
pub(crate) struct CallRecord {
    counted: Mutex<Counted>,
    /// Whether a call of this generation was not what its reads had predicted.
    is_unpredictable: AtomicBool,
    /// Notified when a probation ends, and when its time starts.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Counted {
    recent: Recent,
    probation: Option<Probation>,
    judged: Option<Judged>,
}

#[derive(Debug)]
struct Probation {
    /// The time at which the first call ended after calls became possible. `None` if no call has ended since.
    since: Option<Instant>,
    first: FirstCalls,
    /// The counts of the previous generation.
    former: CallCounts,
}

/// The result of a probation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The generation stays.
    Passed,
    /// The generation is rolled back, for this reason.
    Failed(String),
}

impl CallRecord {
    /// The record of a generation that has not been called.
    pub(crate) fn new() -> Arc<Self> {
        let is_unpredictable = AtomicBool::new(false);
        Arc::new(Self { counted: Mutex::default(), is_unpredictable, changed: watch::Sender::default() })
    }

    /// Saves no calls of this generation any more.
    pub(crate) fn stop_saving(&self) {
        self.is_unpredictable.store(true, Ordering::Relaxed);
    }

    /// Whether what calls read may be kept, to save calls now or later.
    pub(crate) fn may_keep(&self) -> bool {
        !self.is_unpredictable.load(Ordering::Relaxed)
    }

    /// Whether calls may be saved now: a generation on probation is judged by its calls.
    pub(crate) fn may_save(&self) -> bool {
        self.may_keep() && self.lock().probation.is_none()
    }

    /// Records a call that was saved. It would have ended well, as the call before it, and a later generation is judged
    /// by the share of failures.
    pub(crate) fn saved(&self) {
        self.lock().recent.add(false);
    }

    /// Records the end of a call about `subject`. `failure` is the text of the failure if the plugin is at fault.
    /// `others_at_work` is true if calls about other objects still run.
    pub(crate) fn called(
        &self,
        subject: &Subject,
        failure: Option<(OwnFailure, &str)>,
        others_at_work: impl FnOnce() -> bool,
    ) {
        let mut counted = self.lock();
        counted.recent.add(failure.is_some());
        let Some(probation) = &mut counted.probation else { return };
        probation.first.add(subject, failure.map(|(kind, _)| kind), others_at_work());
        let is_first = probation.since.is_none();
        let age = probation.since.get_or_insert_with(Instant::now).elapsed();
        let (record, former) = (probation.first.counts(), probation.former);
        let judged = match probation::judge(record, age, former) {
            ProbationVerdict::Open if is_first => None,
            ProbationVerdict::Open => return,
            ProbationVerdict::Passed => Some(Judged::Passed),
            ProbationVerdict::Failed => {
                let last = failure.map_or("the failures before", |(_, text)| text);
                Some(Judged::Failed(format!(
                    "{} of its first {} calls failed, and {} of the last {} before it; the last failure: {last}",
                    record.failures, record.calls, former.failures, former.calls
                )))
            }
        };
        if judged.is_some() {
            (counted.probation, counted.judged) = (None, judged);
        }
        drop(counted);
        self.changed.send_replace(());
    }

    /// Records that no call can be made now, so that the time of the probation stops until the next call.
    pub(crate) fn rests(&self) {
        if let Some(probation) = &mut self.lock().probation {
            probation.since = None;
        }
    }

    /// Counts of the last calls.
    pub(crate) fn record(&self) -> CallCounts {
        self.lock().recent.record()
    }

    /// Starts a probation against the previous generation, whose last calls were `former`.
    pub(crate) fn begin_probation(&self, former: CallCounts) {
        let probation = Probation { since: None, first: FirstCalls::default(), former };
        let mut counted = self.lock();
        (counted.probation, counted.judged) = (Some(probation), None);
    }

    /// Completes when the probation has ended, at once if it already has. Cancel-safe.
    pub(crate) async fn judged(&self) -> Judged {
        let mut changed = self.changed.subscribe();
        loop {
            let until = match self.judged_by_now() {
                Ok(judged) => return judged,
                Err(until) => until,
            };
            let by_time = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                // This cannot fail: `self` holds the sender.
                _ = changed.changed() => {}
                () = by_time => {}
            }
        }
    }

    /// The result of the probation. While the probation goes on, the error is the time at which it ends, or `None` if
    /// its time does not run.
    fn judged_by_now(&self) -> Result<Judged, Option<Instant>> {
        let mut counted = self.lock();
        if let Some(Probation { since, .. }) = &counted.probation {
            let until = since.map(|since| since + probation::PROBATION_TIME_MAX);
            if until.is_none_or(|until| until > Instant::now()) {
                return Err(until);
            }
            (counted.probation, counted.judged) = (None, Some(Judged::Passed));
        }
        Ok(counted.judged.clone().unwrap_or(Judged::Passed))
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use windlass_core::object::ObjectKey;

    use super::*;

    fn after(calls: u64, failures: u64) -> Arc<CallRecord> {
        let record = CallRecord::new();
        record.begin_probation(CallCounts { calls, failures });
        record
    }

    /// Ends a call about an arbitrary key.
    fn called(record: &CallRecord, failure: Option<&str>) {
        let failure = failure.map(|text| (OwnFailure::Trap, text));
        let subject = ("webapps".into(), ObjectKey::namespaced("prod", "shop"));
        record.called(&subject, failure, || false);
    }

    #[tokio::test(start_paused = true)]
    async fn a_generation_that_fails_where_the_one_before_did_not_is_judged_at_once() {
        let record = after(1_000, 2);
        for _ in 0..4 {
            called(&record, Some("trapped"));
        }
        assert_eq!(record.judged().now_or_never(), None);
        called(&record, Some("trapped: unreachable"));
        let Some(Judged::Failed(why)) = record.judged().now_or_never() else { panic!("five of five") };
        assert!(why.contains("5 of its first 5") && why.contains("unreachable"), "{why}");
    }

    /// How long `judged` takes for a task that polls it repeatedly.
    async fn passes_after(record: &CallRecord) -> Duration {
        let began = Instant::now();
        loop {
            if let Ok(judged) = tokio::time::timeout(Duration::from_secs(7), record.judged()).await {
                assert_eq!(judged, Judged::Passed);
                return began.elapsed();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_generation_passes_a_minute_after_its_first_call() {
        let record = after(1_000, 0);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(record.judged().now_or_never(), None, "it may be paused, so nothing is known of it");
        let waiting = {
            let record = record.clone();
            tokio::spawn(async move { record.judged().await })
        };
        tokio::task::yield_now().await;
        called(&record, None);
        let took = passes_after(&record).await;
        assert!(took.abs_diff(Duration::from_mins(1)) < Duration::from_millis(10), "{took:?}");
        assert_eq!(
            waiting.await.expect("no panic"),
            Judged::Passed,
            "a task that waited before the first call is notified too"
        );
        (0..9).for_each(|_| called(&record, Some("late")));
        assert_eq!(record.judged().now_or_never(), Some(Judged::Passed), "later failures are no reason for a rollback");
        assert_eq!(record.record(), CallCounts { calls: 10, failures: 9 });
    }

    #[tokio::test(start_paused = true)]
    async fn while_no_call_can_be_made_no_time_passes_and_nothing_is_forgotten() {
        let record = after(1_000, 0);
        (0..4).for_each(|_| called(&record, Some("trapped")));
        tokio::time::advance(Duration::from_secs(59)).await;
        record.rests();
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(record.judged().now_or_never(), None);
        let (well, badly) = (record.clone(), record.clone());
        called(&badly, Some("trapped"));
        assert!(matches!(badly.judged().now_or_never(), Some(Judged::Failed(why)) if why.contains("5 of its first 5")));
        well.begin_probation(CallCounts { calls: 9, failures: 0 });
        called(&well, None);
        well.rests();
        called(&well, None);
        assert!(passes_after(&well).await.abs_diff(Duration::from_mins(1)) < Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn fifty_calls_are_enough() {
        let record = after(1_000, 0);
        for call in 0..50 {
            assert_eq!(record.judged().now_or_never(), None, "{call}");
            called(&record, (call % 13 == 0).then_some("sometimes"));
        }
        assert_eq!(record.judged().now_or_never(), Some(Judged::Passed), "four failures");
    }
}
