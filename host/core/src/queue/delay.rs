//! Delayed keys (client-go: `util/workqueue/delaying_queue.go`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::priority::ReadyEntry;
use crate::clock::Moment;

/// With fewer entries than this, stale entries are not swept.
const SWEPT_ENTRIES_MIN: usize = 64;

/// Entries by the moment at which they become due. An entry that was replaced by a sooner entry stays until its time,
/// which may be weeks away, and is then skipped as stale. Where stale entries pile up, they are swept.
#[derive(Default)]
pub(super) struct Delayed {
    heap: BinaryHeap<Reverse<(u64, ReadyEntry)>>,
}

impl Delayed {
    /// Makes `entry` due at `at`.
    pub(super) fn insert(&mut self, entry: ReadyEntry, at: u64) {
        self.heap.push(Reverse((at, entry)));
    }

    /// Removes an entry that is due.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<ReadyEntry> {
        let Reverse((at, _)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, entry))| entry)
    }

    /// Whether most entries are stale, given that each of the `known` keys has at most one valid entry.
    pub(super) fn is_mostly_stale(&self, known: usize) -> bool {
        self.heap.len() > 2 * known + SWEPT_ENTRIES_MIN
    }

    /// Drops the entries that are not `wanted`.
    pub(super) fn retain(&mut self, mut wanted: impl FnMut(ReadyEntry) -> bool) {
        self.heap.retain(|Reverse((_, entry))| wanted(*entry));
    }

    /// When the next entry becomes due.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }
}

/// Nanoseconds since the clock's start: half the size of a [`Moment`], and enough for five centuries.
pub(super) fn nanoseconds(moment: Moment) -> u64 {
    u64::try_from(moment.0.as_nanos()).unwrap_or(u64::MAX)
}
