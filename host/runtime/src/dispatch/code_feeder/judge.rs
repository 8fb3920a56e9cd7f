//! Asks the plugin's own code which changes count. A change about which it fails counts.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::{CodeFeeder, MapChanges, Trouble};
use crate::dispatch::feeder::EventSource;

/// After this many changes in a row about which the code failed, it is not asked for a while. Otherwise code that
/// always runs into its deadline would hold up the whole first list.
pub(super) const FAILURES_IN_A_ROW_MAX: usize = 16;
/// How long the code is not asked then.
pub(super) const ASKING_PAUSE: Duration = Duration::from_mins(1);

/// The time in which all changes count without a question, because the code keeps failing.
#[derive(Debug, Default)]
pub(super) struct AskingPause {
    /// The number of changes in a row about which the code failed.
    failures: usize,
    until: Option<Instant>,
}

impl AskingPause {
    fn lasts(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    /// The code has answered.
    fn answers(&mut self) {
        *self = Self::default();
    }

    /// The code has failed about one change. Returns whether a pause begins.
    fn fails(&mut self) -> bool {
        self.failures += 1;
        let begins = self.failures >= FAILURES_IN_A_ROW_MAX;
        if begins {
            *self = Self { failures: 0, until: Some(Instant::now() + ASKING_PAUSE) };
        }
        begins
    }
}

impl<S: EventSource, M: MapChanges> CodeFeeder<S, M> {
    /// Drops the changes of the batch in hand that the code filters out. Fails if it failed about more than one change.
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
                let filtered: BTreeSet<_> =
                    asked.iter().zip(counts).filter(|(_, counts)| !counts).map(|(at, _)| *at).collect();
                self.mapper.filtered(filtered.len());
                let mut at = 0..;
                self.in_hand.retain(|_| at.next().is_none_or(|at| !filtered.contains(&at)));
                Ok(())
            }
            Err(Trouble::Code(error)) if asked.len() == 1 => {
                self.fails(&error);
                Ok(())
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// The code has failed about one change, which counts.
    fn fails(&mut self, error: &str) {
        let (controller, watch) = (&*self.controller, self.sink.route.watch.as_deref());
        tracing::warn!(controller, watch, error, "the predicate failed: the change counts");
        if self.asking_pause.fails() {
            let seconds = ASKING_PAUSE.as_secs();
            tracing::warn!(controller, watch, seconds, "the predicate keeps failing: all changes count for a while");
        }
    }
}
