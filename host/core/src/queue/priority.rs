//! The order in which ready keys are handed out: by priority, with ageing.
//!
//! A key's place is fixed when it becomes ready: the moment it began to wait, put back by [`AGE_PER_POINT`] for each
//! point that its priority is below 0 (and forward for each above). So a key of priority −100 waits at most ten seconds
//! longer than the user's changes that came at the same time, whatever comes after it, and nothing has to be compared
//! again as time passes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

/// How urgent a key is. It changes the order of keys and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(pub i32);

impl Priority {
    /// A change that somebody made.
    pub const CHANGE: Self = Self(0);
    /// The first list, a resync, a swap: many keys at once, and none of them urgent.
    pub const BACKGROUND: Self = Self(-100);
}

/// How much waiting makes up for one point of priority.
pub const AGE_PER_POINT: Duration = Duration::from_millis(100);

/// A key's entry: which slot, and which of its times in the queue. An entry whose turn has passed is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyEntry {
    /// First, so that of entries for the same moment the earlier one goes first.
    pub(super) turn: u32,
    pub(super) slot: u32,
}

/// Ready entries in their order: each with its place, which is the moment of [`Priority::CHANGE`] that it is as urgent as,
/// in nanoseconds, before the clock's start if negative.
#[derive(Default)]
pub(super) struct Ready {
    /// By priority, in the order of their addition, which is that of their places too, as the clock never goes back.
    lines: BTreeMap<Priority, VecDeque<(i64, ReadyEntry)>>,
    /// Entries that began to wait before others that are here already: raised ones, and parked ones that woke.
    returned: BinaryHeap<Reverse<(i64, ReadyEntry)>>,
}

impl Ready {
    /// Adds an entry that waits since `since`, in nanoseconds of the clock.
    pub(super) fn push(&mut self, entry: ReadyEntry, priority: Priority, since: u64) {
        let place = place(priority, since);
        let line = self.lines.entry(priority).or_default();
        if line.back().is_some_and(|(last, _)| *last > place) {
            self.returned.push(Reverse((place, entry)));
        } else {
            line.push_back((place, entry));
        }
    }

    /// Takes the entry that is next.
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
    fn a_change_goes_before_the_background_that_came_first() {
        let mut ready = Ready::default();
        ready.push(entry(1), Priority::BACKGROUND, at(0));
        ready.push(entry(2), Priority::CHANGE, at(9));
        assert_eq!(order(ready), [2, 1]);
    }

    #[test]
    fn the_background_goes_before_changes_that_came_ten_seconds_later() {
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
    fn an_entry_that_comes_back_with_its_age_goes_before_younger_ones() {
        let mut ready = Ready::default();
        ready.push(entry(1), Priority::CHANGE, at(5));
        ready.push(entry(2), Priority::CHANGE, at(1));
        assert_eq!(order(ready), [2, 1]);
    }
}
