//! Counts the memory of one plugin's calls, to estimate the memory of later calls. Also counts the log lines and metric
//! values that the plugin has lost to limits, and keeps the budget of its log lines.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::clock::Moment;
use windlass_core::queue::TokenBucket;
use windlass_core::repeats::Repeats;

use crate::limits::Limits;
use crate::memory::{GuestMemory, Share};

/// The burst of log lines: as many as the sustained rate allows in this many seconds.
const LOG_BURST_SECONDS: u32 = 10;
/// How often the host logs that lines are dropped, so that it does not answer a flood with another flood.
const DROPPED_LINES_REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The log lines and metric values that a plugin has lost to limits since it was loaded, and the memory of its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginStats {
    /// Log lines beyond a call's limit or the plugin's.
    pub dropped_log_lines: u64,
    /// Metric values beyond a call's limit.
    pub dropped_metric_values: u64,
    /// The memory that its calls and parked instances use or have reserved, in bytes.
    pub memory: usize,
    /// The maximum of `memory` so far.
    pub most_memory: usize,
}

/// The counters behind [`PluginStats`], and data about the plugin's calls that later calls need.
#[derive(Debug)]
pub(crate) struct PluginCounters {
    log_lines: AtomicU64,
    metric_values: AtomicU64,
    log_budget: Mutex<LogBudget>,
    /// The start of the clock for the log's budget.
    origin: Instant,
    /// The memory that a call will probably need, in bytes.
    memory: AtomicUsize,
    /// The plugin's share of the guests' memory, for all its calls together.
    share: OnceLock<Share>,
}

/// The budget of one plugin's log lines over all its calls. The limits per call do not bound a plugin that is called a
/// thousand times a second, and a flood in the host's log hides the lines of other plugins.
#[derive(Debug)]
struct LogBudget {
    lines: TokenBucket,
    bytes: TokenBucket,
    reports: Repeats,
}

impl LogBudget {
    fn new(limits: &Limits) -> Self {
        let bucket =
            |per_second: u32| TokenBucket::new(per_second, per_second.max(1).saturating_mul(LOG_BURST_SECONDS));
        Self {
            lines: bucket(limits.log_lines_per_second),
            bytes: bucket(saturated(limits.log_bytes_per_second)),
            reports: Repeats::each(DROPPED_LINES_REPORT_INTERVAL, 1),
        }
    }

    /// Whether a line of `bytes` may be logged `now`. If so, it is charged.
    fn line(&mut self, bytes: usize, now: Moment) -> bool {
        let bytes = saturated(bytes);
        let is_within = self.lines.wait(1, now).is_zero() && self.bytes.wait(bytes, now).is_zero();
        if is_within {
            self.lines.take(1);
            self.bytes.take(bytes);
        }
        is_within
    }
}

/// `bytes` as a number of tokens. A value that does not fit is more than any bucket holds, so the line is refused.
fn saturated(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl PluginCounters {
    /// The counters of a plugin that has not been called, within `limits`.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            log_lines: AtomicU64::default(),
            metric_values: AtomicU64::default(),
            log_budget: Mutex::new(LogBudget::new(limits)),
            origin: Instant::now(),
            memory: AtomicUsize::default(),
            share: OnceLock::new(),
        }
    }

    /// Counts dropped lines. Returns whether a warning is due.
    pub(crate) fn log_lines_dropped(&self, lines: u64) -> bool {
        self.log_lines.fetch_add(lines, Ordering::Relaxed);
        self.log_budget().reports.line(self.now()).is_some()
    }

    /// Whether the plugin may log another line.
    pub(crate) fn log_line(&self, bytes: usize) -> bool {
        self.log_budget().line(bytes, self.now())
    }

    fn log_budget(&self) -> MutexGuard<'_, LogBudget> {
        self.log_budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Moment {
        Moment(self.origin.elapsed())
    }

    /// Counts a dropped metric value. Returns whether it is the first.
    pub(crate) fn metric_dropped(&self) -> bool {
        self.metric_values.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// The plugin's share of `memory`, for all its calls together.
    pub(crate) fn share(&self, memory: &GuestMemory) -> &Share {
        self.share.get_or_init(|| memory.share())
    }

    /// The memory that the next call will probably need, in bytes.
    pub(crate) fn memory_expected(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Records the memory of a call. The estimate is the maximum of recent calls, so that one large call does not
    /// delay later calls forever.
    pub(crate) fn memory_used(&self, bytes: usize) {
        // Calls that end at the same time may overwrite each other's values; this is only an estimate.
        let expected = self.memory_expected();
        self.memory.store(bytes.max(expected - expected.saturating_sub(bytes) / 8), Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> PluginStats {
        let share = self.share.get();
        PluginStats {
            memory: share.map_or(0, Share::held),
            most_memory: share.map_or(0, Share::most_held),
            dropped_log_lines: self.log_lines.load(Ordering::Relaxed),
            dropped_metric_values: self.metric_values.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> LogBudget {
        LogBudget::new(&Limits { log_lines_per_second: 10, log_bytes_per_second: 1_000, ..Limits::default() })
    }

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    /// The number of `lines` lines with `bytes` bytes each that are logged at `now`.
    fn logged(budget: &mut LogBudget, lines: u32, bytes: usize, now: Moment) -> usize {
        (0..lines).filter(|_| budget.line(bytes, now)).count()
    }

    #[test]
    fn a_flood_is_cut_to_ten_seconds_worth_and_then_to_the_rate() {
        let mut budget = budget();
        assert_eq!(logged(&mut budget, 1_000, 1, at(0)), 100);
        assert_eq!(logged(&mut budget, 1_000, 1, at(2_050)), 20);
    }

    #[test]
    fn long_lines_count_by_their_bytes() {
        let mut budget = budget();
        assert_eq!(logged(&mut budget, 100, 2_000, at(0)), 5);
        assert!(!budget.line(20_000, at(60_000)), "longer than all that may be at once");
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_lines_are_reported_at_most_every_ten_seconds() {
        let counters = PluginCounters::new(&Limits::default());
        let mut reported = vec![];
        for seconds in [0, 1, 8, 1, 1] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            reported.push(counters.log_lines_dropped(1));
        }
        assert_eq!(reported, [true, false, false, true, false]);
    }
}
