//! Logs the failures of one watch: each new failure is logged, and repetitions are counted.

use tokio::time::Instant;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::clock::Moment;
use windlass_core::repeats::Repeats;

use super::trouble::is_expired;
use crate::informer::error::InformerError;

/// The maximum number of lines about failures per minute.
const FAILURES_A_MINUTE: u32 = 3;

/// The failures that have been logged.
#[derive(Debug)]
pub(super) struct TroubleLog {
    /// The last failure, so that it is not logged at each attempt.
    known: Option<String>,
    failures: Repeats,
    torn: Repeats,
    origin: Instant,
}

impl TroubleLog {
    pub(super) fn new() -> Self {
        let (failures, torn) = (Repeats::a_minute(FAILURES_A_MINUTE), Repeats::a_minute(1));
        Self { known: None, failures, torn, origin: Instant::now() }
    }

    /// The watch has failed. A new failure is logged as a warning.
    pub(super) fn failed(&mut self, watch: &WatchSpec, error: &InformerError) {
        let text = error.to_string();
        let is_known = self.known.as_ref() == Some(&text) || is_expired(error);
        let line = if is_known { None } else { self.failures.line(self.now()) };
        if let Some(unlogged) = line {
            let further_failures = (unlogged > 0).then_some(unlogged);
            tracing::warn!(%watch, %error, further_failures, "cannot watch; it will be tried again until it works");
        } else {
            tracing::debug!(%watch, %error, "the watch still fails");
        }
        if !is_known {
            self.known = Some(text);
        }
    }

    /// The watch ended within a line.
    pub(super) fn torn(&mut self, watch: &WatchSpec) {
        if let Some(unlogged) = self.torn.line(self.now()) {
            let further_times = (unlogged > 0).then_some(unlogged);
            tracing::warn!(%watch, further_times, "the watch broke in the middle of a line; it is resumed");
        } else {
            tracing::debug!(%watch, "the watch broke in the middle of a line; it is resumed");
        }
    }

    /// The watch works again.
    pub(super) fn recovered(&mut self, watch: &WatchSpec) {
        if self.known.take().is_some() {
            tracing::info!(%watch, "the watch works again");
        }
    }

    fn now(&self) -> Moment {
        Moment(self.origin.elapsed())
    }
}
