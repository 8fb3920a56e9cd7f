//! What a plugin's generations have in common: what is told of a swap, and how each generation's calls end.
//!
//! A generation is one [`Plugin`](windlass_wasm::Plugin): the bytes of a file at one time. `leadership::serve` puts one in the
//! place of the other; dispatch counts; whoever loads plugins hears of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use windlass_core::probation::{self, Recent, Record, Verdict};
use windlass_wasm::Plugin;

/// What has become of the newest generation that a plugin was to run.
#[derive(Clone, Debug)]
pub(crate) enum Swapped {
    /// It runs.
    Runs,
    /// It does not run yet, and this is why.
    Pending(String),
    /// It did not prove itself, and the last one that has is to run again.
    RolledBack {
        /// The digest of the one that did not.
        rejected: Arc<str>,
        /// The one that has.
        to: Arc<Plugin>,
        /// How it failed.
        because: String,
    },
}

/// Where is told what becomes of generations, with the plugin's name.
pub(crate) type Reports = mpsc::UnboundedSender<(Arc<str>, Swapped)>;

/// How the calls of one generation end.
#[derive(Debug)]
pub(crate) struct Tally {
    counted: Mutex<Counted>,
    judged: watch::Sender<Option<Judged>>,
}

#[derive(Debug, Default)]
struct Counted {
    recent: Recent,
    probation: Option<Probation>,
}

#[derive(Debug)]
struct Probation {
    since: Instant,
    record: Record,
    /// Of the one before it.
    former: Record,
}

/// How a probation has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// It stays.
    Passed,
    /// It does not, and this is why.
    Failed(String),
}

impl Tally {
    /// Of a generation that has not been called.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { counted: Mutex::default(), judged: watch::Sender::default() })
    }

    /// A call has ended. `failure`: by the plugin's own fault, and this is what it says.
    pub(crate) fn called(&self, failure: Option<&str>) {
        let mut counted = self.lock();
        counted.recent.add(failure.is_some());
        let Some(probation) = &mut counted.probation else { return };
        probation.record.add(failure.is_some());
        let Probation { record, former, since } = probation;
        let judged = match probation::judge(*record, since.elapsed(), *former) {
            Verdict::Open => return,
            Verdict::Passed => Judged::Passed,
            Verdict::Failed => {
                let last = failure.unwrap_or("the failures before");
                Judged::Failed(format!(
                    "{} of its first {} calls failed, of the last {} of the one before it {}; the last failure: {last}",
                    record.failures, record.calls, former.calls, former.failures
                ))
            }
        };
        counted.probation = None;
        self.judged.send_replace(Some(judged));
    }

    /// How its last calls have ended.
    pub(crate) fn record(&self) -> Record {
        self.lock().recent.record()
    }

    /// It has to prove itself from now on, after one whose last calls were `former`.
    pub(crate) fn begin_probation(&self, former: Record) {
        let probation = Probation { since: Instant::now(), record: Record::default(), former };
        self.lock().probation = Some(probation);
        self.judged.send_replace(None);
    }

    /// Completes when its probation has ended; at once if it has before. Cancel-safe.
    pub(crate) async fn judged(&self) -> Judged {
        let mut judged = self.judged.subscribe();
        let until = self.lock().probation.as_ref().map_or_else(Instant::now, |it| it.since + probation::TIME);
        let mut by_calls = std::pin::pin!(judged.wait_for(Option::is_some));
        tokio::select! {
            biased;
            // The sender is in `self`.
            Ok(judged) = &mut by_calls => return judged.clone().unwrap_or(Judged::Passed),
            () = sleep_until(until) => {}
        }
        self.lock().probation = None;
        let judged = self.judged.borrow().clone();
        judged.unwrap_or(Judged::Passed)
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    fn after(calls: u64, failures: u64) -> Arc<Tally> {
        let tally = Tally::new();
        tally.begin_probation(Record { calls, failures });
        tally
    }

    #[tokio::test(start_paused = true)]
    async fn a_generation_that_fails_where_the_one_before_did_not_is_judged_at_once() {
        let tally = after(1_000, 2);
        for _ in 0..4 {
            tally.called(Some("trapped"));
        }
        assert_eq!(tally.judged().now_or_never(), None);
        tally.called(Some("trapped: unreachable"));
        let Some(Judged::Failed(why)) = tally.judged().now_or_never() else { panic!("five of five") };
        assert!(why.contains("5 of its first 5") && why.contains("unreachable"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_generation_that_is_not_called_passes_after_a_minute() {
        let (tally, began) = (after(1_000, 0), Instant::now());
        assert_eq!(tally.judged().await, Judged::Passed);
        assert!(began.elapsed().abs_diff(Duration::from_mins(1)) < Duration::from_millis(10));
        (0..9).for_each(|_| tally.called(Some("late")));
        assert_eq!(tally.judged().now_or_never(), Some(Judged::Passed), "what fails later is no reason to go back");
        assert_eq!(tally.record(), Record { calls: 9, failures: 9 });
    }

    #[tokio::test(start_paused = true)]
    async fn fifty_calls_are_enough() {
        let tally = after(1_000, 0);
        for call in 0..50 {
            assert_eq!(tally.judged().now_or_never(), None, "{call}");
            tally.called((call % 13 == 0).then_some("sometimes"));
        }
        assert_eq!(tally.judged().now_or_never(), Some(Judged::Passed), "four failures");
    }
}
