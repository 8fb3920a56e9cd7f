//! The hot-loop detector: finds the objects that a plugin writes over and over again, and slows down the keys that do so.
//!
//! Two parts. [`LoopDetector`] counts a plugin's effective writes, object by object, in a fixed amount of memory.
//! [`SlowLane`] holds the keys that were found to loop: each runs again when somebody changes its primary, or after a
//! long while. The writer says what was written; the host's `hot_loop` puts both to work.

mod lane;

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::clock::Moment;
use crate::object::compact::Version;

pub use self::lane::{HOT_LOOP_HOLD_MAX, HOT_LOOP_HOLD_MIN, LOOP_FORGOTTEN_AFTER, SlowLane, SlowMark};

/// The time in which writes are counted. A loop is found within two of them.
pub const HOT_LOOP_WINDOW: Duration = Duration::from_mins(1);
/// How many objects of one plugin are counted at a time.
pub const TRACKED_OBJECTS_MAX: usize = 256;

/// Counts the writes of one plugin, object by object.
///
/// By "space saving" (Metwally, Agrawal and El Abbadi 2005): an object that has no counter yet takes over the smallest
/// one, and how much of that was not its own is kept beside it. So an object is only ever named for writes that it had;
/// what is lost is at most one write in [`TRACKED_OBJECTS_MAX`] of all that the plugin made in the window: an object is
/// missed only if it had fewer than that many above the limit.
#[derive(Debug)]
pub struct LoopDetector<O> {
    /// So many writes in a window are a loop. 0: nothing is.
    limit: u32,
    window: Moment,
    counters: HashMap<O, Counter>,
    /// The count of the counter that was taken over last: no object without a counter has more writes.
    smallest: u32,
}

#[derive(Clone, Debug)]
struct Counter {
    /// With what was taken over.
    count: u32,
    /// The count that it took over.
    inherited: u32,
    /// The version that the last write left.
    version: Option<Version>,
}

impl<O: Clone + Eq + Hash> LoopDetector<O> {
    /// One that has counted nothing, and finds loops of `limit` writes in a minute. 0: none.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self { limit, window: Moment::default(), counters: HashMap::new(), smallest: 0 }
    }

    /// `object` was written, which left `version` of it, if it left anything. True: that was one time too many, and it is
    /// counted anew from here.
    ///
    /// A write that leaves the version that the one before left has changed nothing, and is no write.
    pub fn wrote(&mut self, object: &O, version: Option<&Version>, now: Moment) -> bool {
        if self.limit == 0 {
            return false;
        }
        if now >= self.window + HOT_LOOP_WINDOW {
            self.counters.clear();
            (self.window, self.smallest) = (now, 0);
        }
        if !self.counters.contains_key(object) {
            self.make_room();
        }
        let smallest = self.smallest;
        let new = || Counter { count: smallest, inherited: smallest, version: None };
        let counter = self.counters.entry(object.clone()).or_insert_with(new);
        if version.is_some() && counter.version.as_ref() == version {
            return false;
        }
        counter.version = version.cloned();
        counter.count = counter.count.saturating_add(1);
        let is_loop = counter.count - counter.inherited >= self.limit;
        if is_loop {
            counter.inherited = counter.count;
        }
        is_loop
    }

    /// Whether `object` was written in this window, as far as that is remembered.
    #[must_use]
    pub fn has(&self, object: &O, now: Moment) -> bool {
        now < self.window + HOT_LOOP_WINDOW && self.counters.contains_key(object)
    }

    /// Gives up the smallest counter, if there is none to spare.
    fn make_room(&mut self) {
        if self.counters.len() < TRACKED_OBJECTS_MAX {
            return;
        }
        let smallest = self.counters.iter().min_by_key(|(_, counter)| counter.count);
        if let Some((object, count)) = smallest.map(|(object, counter)| (object.clone(), counter.count)) {
            self.counters.remove(&object);
            self.smallest = count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn version(number: u64) -> Version {
        Version::from(&*number.to_string())
    }

    /// When `object` is found, of writes that each leave another version, one in so many milliseconds.
    fn found(tally: &mut LoopDetector<u64>, every: u64, writes: u64) -> Vec<u64> {
        let write =
            |number: &u64| tally.wrote(&1, Some(&version(*number)), Moment(Duration::from_millis(number * every)));
        (0..writes).filter(write).collect()
    }

    #[test]
    fn the_write_that_makes_a_minute_full_is_found_and_then_counted_anew() {
        assert_eq!(found(&mut LoopDetector::new(60), 10, 180), [59, 119, 179]);
    }

    #[test]
    fn what_writes_seldom_is_never_found_and_what_writes_a_little_too_often_is() {
        assert!(found(&mut LoopDetector::new(60), 1_100, 10_000).is_empty());
        assert!(!found(&mut LoopDetector::new(60), 990, 150).is_empty());
    }

    #[test]
    fn a_write_that_leaves_the_same_version_is_none() {
        let mut tally = LoopDetector::new(3);
        assert!((0..100).all(|_| !tally.wrote(&1, Some(&version(7)), at(0))));
        // What leaves nothing, such as a deletion, always is.
        assert_eq!([0; 3].map(|_| tally.wrote(&2, None, at(0))), [false, false, true]);
    }

    #[test]
    fn switched_off_it_finds_nothing_and_keeps_nothing() {
        let mut tally = LoopDetector::new(0);
        assert!(found(&mut tally, 1, 1_000).is_empty());
        assert!(tally.counters.is_empty());
    }

    #[test]
    fn a_plugin_that_writes_to_ever_new_objects_fills_no_more_than_the_counters_there_are() {
        let mut tally = LoopDetector::new(60);
        for object in 0..20_000 {
            assert!(!tally.wrote(&object, Some(&version(object)), at(0)), "each is written once");
        }
        assert_eq!(tally.counters.len(), 256);
    }
}
