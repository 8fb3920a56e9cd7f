//! Asks the plugin's own code which changes count. A change about which it fails counts.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::queue::outcome::CallResult;

use super::asked_code::note_result;
use super::{CodeFailure, CodeFeeder, MapChanges, Trouble};
use crate::dispatch::feeder::EventSource;

/// After this many changes in a row about which the code failed, the code is not asked for a while, because it would
/// probably fail about the next changes too.
pub(super) const FAILURES_IN_A_ROW_MAX: usize = 16;
/// After failed calls have taken this long, the code is not asked for a while. Otherwise code that runs into its
/// deadline about some objects would hold up the whole first list. At the default deadline, this is enough to find one
/// such object in a full batch.
pub(super) const FAILED_CALLS_TIME_MAX: Duration = Duration::from_mins(5);
/// In the long run, failed calls may take one second of this many.
const SECONDS_PER_FAILED: u32 = 10;
/// How long the code is not asked after too many failures.
pub(super) const ASKING_PAUSE: Duration = Duration::from_mins(1);

/// The time in which all changes count without a question, because the code fails too often, or for too long.
#[derive(Debug, Default)]
pub(super) struct AskingPause {
    /// The number of changes in a row about which the code failed.
    failures: usize,
    /// The time that failed calls have taken, less what they may take in the long run.
    lost: Duration,
    /// When the last call failed.
    failed_at: Option<Instant>,
    until: Option<Instant>,
}

impl AskingPause {
    fn lasts(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    /// Records that the code has answered. The time of earlier failed calls still counts.
    pub(super) fn answers(&mut self) {
        self.failures = 0;
    }

    /// Records a failed call, which took this long. Returns whether a pause begins.
    pub(super) fn fails(&mut self, took: Duration, is_about_one_change: bool) -> bool {
        let now = Instant::now();
        let since = self.failed_at.map_or(Duration::ZERO, |last| now - last);
        self.failed_at = Some(now);
        self.lost = self.lost.saturating_sub(since.saturating_sub(took) / SECONDS_PER_FAILED) + took;
        self.failures += usize::from(is_about_one_change);
        let begins = self.failures >= FAILURES_IN_A_ROW_MAX || self.lost >= FAILED_CALLS_TIME_MAX;
        if begins {
            *self = Self { until: Some(now + ASKING_PAUSE), ..Self::default() };
        }
        begins
    }
}

impl<S: EventSource, M: MapChanges> CodeFeeder<S, M> {
    /// Drops the changes of the batch in hand that the code filters out. Returns an error if the code failed about more
    /// than one change.
    pub(super) async fn judge(&mut self) -> Result<(), Trouble> {
        let route = &self.sink.route;
        let asked: Vec<_> =
            (0..self.in_hand.len()).filter(|at| route.is_decided_by_code(&self.in_hand[*at].event)).collect();
        if asked.is_empty() || self.asking_pause.lasts() {
            return Ok(());
        }
        let changes = asked.iter().filter_map(|at| self.in_hand[*at].change.clone()).collect();
        let call = self.mapper.matches(self.batch_of(changes));
        match self.answer(call).await {
            Ok(counts) => {
                self.asking_pause.answers();
                for at in &asked {
                    self.note_judged(*at, &CallResult::Done);
                }
                let filtered: BTreeSet<_> =
                    asked.iter().zip(counts).filter(|(_, counts)| !counts).map(|(at, _)| *at).collect();
                self.mapper.filtered(filtered.len());
                let mut at = 0..;
                self.in_hand.retain(|_| at.next().is_none_or(|at| !filtered.contains(&at)));
                Ok(())
            }
            Err(failure) => self.fails(failure, &asked),
        }
    }

    /// Handles a failure of the code about the changes at these places of the batch in hand. If it is a single change,
    /// it counts.
    fn fails(&mut self, CodeFailure { result, took }: CodeFailure, asked: &[usize]) -> Result<(), Trouble> {
        let (controller, watch) = (&*self.controller, self.sink.route.watch.as_deref());
        let is_about_one_change = asked.len() == 1;
        if let [at] = asked {
            let (key, error) = (self.in_hand[*at].event.key(), result.failure());
            tracing::warn!(controller, watch, %key, error, "the predicate failed: the change counts");
            self.note_judged(*at, &result);
        }
        if self.asking_pause.fails(took, is_about_one_change) {
            let seconds = ASKING_PAUSE.as_secs();
            tracing::warn!(controller, watch, seconds, "the predicate keeps failing: all changes count for a while");
        }
        if is_about_one_change { Ok(()) } else { Err(Trouble::Code(result)) }
    }

    fn note_judged(&self, at: usize, result: &CallResult) {
        note_result("matches", &self.sink.route, self.in_hand[at].event.key(), result);
    }
}
