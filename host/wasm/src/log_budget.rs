//! The budget of one plugin's log lines over all its calls: so many lines and bytes a second, in the long run.
//!
//! A call's own limits do not bound a plugin that is called a thousand times a second; and what fills the host's log hides
//! what others say there.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::Limits;

/// So many seconds' worth may be logged at once.
const LOG_BURST_SECONDS: f64 = 10.0;

/// How often somebody is told that lines are dropped.
const DROPPED_LINES_REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The account of one plugin.
#[derive(Debug, Default)]
pub(crate) struct LogBudget(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The lines that were logged, in seconds of the budget; they wear off with time.
    lines: f64,
    bytes: f64,
    at: Option<Instant>,
    told: Option<Instant>,
}

impl LogBudget {
    /// Whether a line of `bytes` may be logged `now`. If so, it counts.
    pub(crate) fn line(&self, limits: &Limits, bytes: usize, now: Instant) -> bool {
        let mut state = self.state();
        let passed = state.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at)).as_secs_f64();
        state.at = Some(now);
        let left = |level: f64| (level - passed).max(0.0);
        let line = 1.0 / f64::from(limits.log_lines_per_second.max(1));
        #[allow(clippy::cast_precision_loss, reason = "nobody logs 2^52 bytes")]
        let bytes = bytes as f64 / limits.log_bytes_per_second.max(1) as f64;
        (state.lines, state.bytes) = (left(state.lines), left(state.bytes));
        let is_within = state.lines + line <= LOG_BURST_SECONDS && state.bytes + bytes <= LOG_BURST_SECONDS;
        if is_within {
            state.lines += line;
            state.bytes += bytes;
        }
        is_within
    }

    /// Whether it is time to say that lines are dropped: a flood must not be answered by another.
    pub(crate) fn tell(&self, now: Instant) -> bool {
        let mut state = self.state();
        let is_due = state.told.is_none_or(|told| now.saturating_duration_since(told) >= DROPPED_LINES_REPORT_INTERVAL);
        if is_due {
            state.told = Some(now);
        }
        is_due
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { log_lines_per_second: 10, log_bytes_per_second: 1_000, ..Limits::default() }
    }

    /// How many of `lines` lines of `bytes` are logged at `now`.
    fn logged(budget: &LogBudget, lines: u32, bytes: usize, now: Instant) -> usize {
        (0..lines).filter(|_| budget.line(&limits(), bytes, now)).count()
    }

    #[test]
    fn a_flood_is_cut_to_ten_seconds_worth_and_then_to_the_rate() {
        let (budget, start) = (LogBudget::default(), Instant::now());
        assert_eq!(logged(&budget, 1_000, 1, start), 100);
        assert_eq!(logged(&budget, 1_000, 1, start + Duration::from_millis(2_050)), 20);
    }

    #[test]
    fn long_lines_count_by_their_bytes() {
        let (budget, start) = (LogBudget::default(), Instant::now());
        assert_eq!(logged(&budget, 100, 2_000, start), 5);
        assert!(!budget.line(&limits(), 20_000, start + Duration::from_mins(1)), "longer than all that may be at once");
    }

    #[test]
    fn dropped_log_lines_are_reported_now_and_then() {
        let (budget, start) = (LogBudget::default(), Instant::now());
        let told = [0, 1, 9, 10, 11].map(|second| budget.tell(start + Duration::from_secs(second)));
        assert_eq!(told, [true, false, false, true, false]);
    }
}
