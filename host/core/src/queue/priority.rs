//! The order in which ready keys are handed out: by priority, with ageing.
//!
//! A key's place is fixed when it becomes ready: the moment at which it began to wait, moved back by [`AGE_PER_POINT`]
//! for each point of priority below 0, and forward for each point above. So a key of priority −100 waits at most ten
//! seconds longer than user changes that came at the same time, whatever comes later, and nothing has to be sorted
//! again as time passes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

/// How urgent a key is. Only affects the order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(pub i32);

impl Priority {
    /// A change by a user or another controller.
    pub const CHANGE: Self = Self(0);
    /// A first list, a resync or a swap: many keys at once, none of them urgent.
    pub const BACKGROUND: Self = Self(-100);
}

/// The waiting time that makes up for one point of priority.
pub const AGE_PER_POINT: Duration = Duration::from_millis(100);

/// A key's entry: the key's slot, and its turn, which numbers the key's stays in the queue. An entry of an earlier turn
/// is stale and is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyEntry {
    /// This is the first field, so that the earlier of two entries for the same moment goes first.
    pub(super) turn: u32,
    pub(super) slot: u32,
}

/// Ready entries in order. Each has its place: the moment in nanoseconds at which a [`Priority::CHANGE`] of equal
/// urgency would have begun to wait. Negative if that is before the clock's start.
#[derive(Default)]
pub(super) struct Ready {
    /// Entries by priority, in the order of their addition. That is also the order of their places, because the clock
    /// never goes back.
    lines: BTreeMap<Priority, VecDeque<(i64, ReadyEntry)>>,
    /// Entries that began to wait before entries that are already here: keys whose priority was raised, and parked
    /// keys that were woken.
    returned: BinaryHeap<Reverse<(i64, ReadyEntry)>>,
}

impl Ready {
    /// Adds an entry that has waited since `since`, in nanoseconds of the clock.
    pub(super) fn push(&mut self, entry: ReadyEntry, priority: Priority, since: u64) {
        let place = place(priority, since);
        let line = self.lines.entry(priority).or_default();
        if line.back().is_some_and(|(last, _)| *last > place) {
            self.returned.push(Reverse((place, entry)));
        } else {
            line.push_back((place, entry));
        }
    }

    /// Removes the next entry.
    pub(super) fn pop(&mut self) -> Option<ReadyEntry> {
        let lines = self.lines.values_mut().filter_map(|line| Some((*line.front()?, line)));
        match (lines.min_by_key(|(front, _)| *front), self.returned.peek()) {
            (Some((front, _)), Some(Reverse(returned))) if *returned < front => self.pop_returned(),
            (Some((_, line)), _) => line.pop_front().map(|(_, entry)| entry),
            (None, _) => self.pop_returned(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.returned.clear();
    }

    fn pop_returned(&mut self) -> Option<ReadyEntry> {
        self.returned.pop().map(|Reverse((_, entry))| entry)
    }
}

fn place(priority: Priority, since: u64) -> i64 {
    let point = i64::try_from(AGE_PER_POINT.as_nanos()).unwrap_or(i64::MAX);
    i64::try_from(since).unwrap_or(i64::MAX).saturating_sub(i64::from(priority.0).saturating_mul(point))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(slot: u32) -> ReadyEntry {
        ReadyEntry { slot, turn: 0 }
    }

    fn at(seconds: u64) -> u64 {
        seconds * 1_000_000_000
    }

    fn order(mut ready: Ready) -> Vec<u32> {
        std::iter::from_fn(|| ready.pop()).map(|entry| entry.slot).collect()
    }

    #[test]
    fn changes_go_before_earlier_background_keys() {
        let mut ready = Ready::default();
        ready.push(entry(1), Priority::BACKGROUND, at(0));
        ready.push(entry(2), Priority::CHANGE, at(9));
        assert_eq!(order(ready), [2, 1]);
    }

    #[test]
    fn background_keys_go_before_changes_ten_seconds_later() {
        let mut ready = Ready::default();
        ready.push(entry(1), Priority::BACKGROUND, at(0));
        ready.push(entry(2), Priority::CHANGE, at(11));
        assert_eq!(order(ready), [1, 2]);
    }

    #[test]
    fn equal_priorities_go_in_the_order_of_their_addition() {
        let mut ready = Ready::default();
        for slot in 0..3 {
            ready.push(ReadyEntry { slot, turn: slot }, Priority::CHANGE, at(0));
        }
        assert_eq!(order(ready), [0, 1, 2]);
    }

    #[test]
    fn a_returned_entry_keeps_its_age() {
        let mut ready = Ready::default();
        ready.push(entry(1), Priority::CHANGE, at(5));
        ready.push(entry(2), Priority::CHANGE, at(1));
        assert_eq!(order(ready), [2, 1]);
    }
}
