//! Counts of one plugin's calls, from which the next calls' memory is estimated.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::time::Instant;

use crate::limits::Limits;
use crate::log_budget::LogBudget;
use crate::memory::{GuestMemory, Share};

/// A plugin's losses to limits since it was loaded, and the memory of its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginStats {
    /// Log lines beyond a call's limit, or the plugin's.
    pub dropped_log_lines: u64,
    /// Values of metrics beyond a call's limit.
    pub dropped_metric_values: u64,
    /// Bytes that its calls and parked instances have, or have reserved.
    pub memory: usize,
    /// The most of that at a time.
    pub most_memory: usize,
}

/// [`PluginStats`] while they are counted, and what is known of the plugin's calls for those to come.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    log_lines: AtomicU64,
    metric_values: AtomicU64,
    log_budget: LogBudget,
    /// The memory that a call is expected to need, in bytes.
    memory: AtomicUsize,
    /// The share of its calls together.
    share: OnceLock<Share>,
}

impl Counters {
    /// Counts lines that were dropped. Returns whether it is time to tell somebody.
    pub(crate) fn log_lines_dropped(&self, lines: u64) -> bool {
        self.log_lines.fetch_add(lines, Ordering::Relaxed);
        self.log_budget.tell(Instant::now())
    }

    /// Whether the plugin may log one more line.
    pub(crate) fn log_line(&self, limits: &Limits, bytes: usize) -> bool {
        self.log_budget.line(limits, bytes, Instant::now())
    }

    /// Returns whether it was the first.
    pub(crate) fn metric_dropped(&self) -> bool {
        self.metric_values.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// The share of `memory` that its calls may have together.
    pub(crate) fn share(&self, memory: &GuestMemory) -> &Share {
        self.share.get_or_init(|| memory.share())
    }

    /// The memory that the next call will probably need, in bytes.
    pub(crate) fn memory_expected(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// A call has needed so much: what is expected is the most of late, so that one large call does not hold the others
    /// up for ever.
    pub(crate) fn memory_used(&self, bytes: usize) {
        // Calls that end at the same time may overwrite each other's: it is an estimate.
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
