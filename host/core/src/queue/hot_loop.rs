//! The hot-loop detector: finds objects that a plugin writes over and over again, and slows down the keys whose calls
//! do this.
//!
//! [`LoopDetector`] counts a plugin's effective writes per object in a fixed amount of memory. [`SlowLane`] holds the
//! keys that loop: each runs again when its primary is changed, or after a long pause. The writer reports writes; the
//! host's `hot_loop` uses both.

mod lane;

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::clock::Moment;
use crate::object::compact::Version;

pub use self::lane::{HOT_LOOP_HOLD_MAX, HOT_LOOP_HOLD_MIN, LOOP_FORGOTTEN_AFTER, SlowLane, SlowMark};

/// The window in which writes are counted. A loop is found within two windows.
pub const HOT_LOOP_WINDOW: Duration = Duration::from_mins(1);
/// How many objects of one plugin are counted at once.
pub const TRACKED_OBJECTS_MAX: usize = 256;

/// Counts the writes of one plugin per object.
///
/// Uses the "space saving" algorithm (Metwally, Agrawal and El Abbadi 2005): an object without a counter takes over the
/// smallest one and remembers how much of its count was inherited. So an object is only reported for its own writes. An
/// object is missed only if its writes exceed the limit by less than 1/[`TRACKED_OBJECTS_MAX`] of all the plugin's
/// writes in the window.
#[derive(Debug)]
pub struct LoopDetector<O> {
    /// This many writes of an object in one window count as a loop. 0 disables the detector.
    limit: u32,
    window: Moment,
    counters: HashMap<O, Counter>,
    /// The count of the counter that was taken over last. An object without a counter has at most this many writes.
    smallest: u32,
}

#[derive(Clone, Debug)]
struct Counter {
    /// Including the inherited count.
    count: u32,
    /// The count inherited from the counter's previous object.
    inherited: u32,
    /// The object's `resourceVersion` after the last write.
    version: Option<Version>,
}

impl<O: Clone + Eq + Hash> LoopDetector<O> {
    /// A detector of `limit` writes per minute; 0 disables it.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self { limit, window: Moment::default(), counters: HashMap::new(), smallest: 0 }
    }

    /// Records a write of `object`. `version` is the object's `resourceVersion` after the write, if the object still
    /// exists. Returns true if this write reaches the limit; counting then starts again.
    ///
    /// A write after which the version is still that of the previous write has changed nothing, and does not count.
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

    /// Whether a write of `object` in this window is remembered.
    #[must_use]
    pub fn has(&self, object: &O, now: Moment) -> bool {
        now < self.window + HOT_LOOP_WINDOW && self.counters.contains_key(object)
    }

    /// Drops the smallest counter if none is free.
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

    /// When `object` is reported, if each write leaves a new version and comes `every` milliseconds.
    fn found(tally: &mut LoopDetector<u64>, every: u64, writes: u64) -> Vec<u64> {
        let write =
            |number: &u64| tally.wrote(&1, Some(&version(*number)), Moment(Duration::from_millis(number * every)));
        (0..writes).filter(write).collect()
    }

    #[test]
    fn the_write_that_reaches_the_limit_is_found_and_counting_restarts() {
        assert_eq!(found(&mut LoopDetector::new(60), 10, 180), [59, 119, 179]);
    }

    #[test]
    fn rare_writes_are_never_found_and_slightly_too_frequent_ones_are() {
        assert!(found(&mut LoopDetector::new(60), 1_100, 10_000).is_empty());
        assert!(!found(&mut LoopDetector::new(60), 990, 150).is_empty());
    }

    #[test]
    fn a_write_that_leaves_the_same_version_does_not_count() {
        let mut tally = LoopDetector::new(3);
        assert!((0..100).all(|_| !tally.wrote(&1, Some(&version(7)), at(0))));
        // A write that leaves nothing, such as a deletion, always counts.
        assert_eq!([0; 3].map(|_| tally.wrote(&2, None, at(0))), [false, false, true]);
    }

    #[test]
    fn a_disabled_detector_finds_and_keeps_nothing() {
        let mut tally = LoopDetector::new(0);
        assert!(found(&mut tally, 1, 1_000).is_empty());
        assert!(tally.counters.is_empty());
    }

    #[test]
    fn writes_to_ever_new_objects_use_bounded_memory() {
        let mut tally = LoopDetector::new(60);
        for object in 0..20_000 {
            assert!(!tally.wrote(&object, Some(&version(object)), at(0)), "each is written once");
        }
        assert_eq!(tally.counters.len(), 256);
    }
}
