//! The keys that loop, and when each may run again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::object::Header;
use crate::object::compact::{Uid, Version};
use crate::queue::ITEM_BACKOFF_MAX;
use crate::retry::RetryPolicy;

/// How long a key is held the first time it loops. Doubles with each further loop, because a key that is busy for a
/// good reason, as during a large rollout, must not stand still for long.
pub const HOT_LOOP_HOLD_MIN: Duration = Duration::from_mins(1);
/// The longest hold. The key then runs as often as a key that has used up its retries.
pub const HOT_LOOP_HOLD_MAX: Duration = ITEM_BACKOFF_MAX;
/// A key that has not looped for this long since it left the lane counts as a key that never
/// looped.
pub const LOOP_FORGOTTEN_AFTER: Duration = Duration::from_mins(10);
/// How long a key that loops for the second time stays in the lane even if its primary is changed. Doubles with each
/// further loop.
const SECOND_PAUSE: Duration = Duration::from_secs(10);
/// The most keys that are held. The write budget keeps plugins below this number.
const HELD_KEYS_MAX: usize = 4096;

/// The part of a primary that users change, without the parts that its controllers record. If this part changes,
/// the key should run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowMark {
    uid: Uid,
    deleting: bool,
    spec: SpecMark,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SpecMark {
    Generation(i64),
    /// For a kind without generation, every change except the plugin's own.
    Version(Version),
}

impl SlowMark {
    /// The mark of an object.
    #[must_use]
    pub fn of(header: &Header) -> Self {
        let spec = match header.generation {
            0 => SpecMark::Version(header.version.clone()),
            generation => SpecMark::Generation(generation),
        };
        Self { uid: header.uid.clone(), deleting: header.deleting, spec }
    }
}

/// The slow lane of one controller.
#[derive(Debug)]
pub struct SlowLane<K> {
    /// Includes keys that left recently.
    keys: HashMap<K, SlowEntry>,
}

#[derive(Debug)]
struct SlowEntry {
    since: Moment,
    /// The object that the key writes over and over, for display.
    object: Arc<str>,
    /// `None` if the primary is gone.
    mark: Option<SlowMark>,
    /// How many times the key had looped before, without a calm period in between.
    before: u32,
    left: Option<Moment>,
}

impl SlowEntry {
    /// How long the key stays here even if its primary is changed. Without this, two plugins that fight over a primary
    /// would release each other's keys.
    fn pause(&self) -> Duration {
        match self.before.checked_sub(1) {
            None => Duration::ZERO,
            Some(times) => doubled(SECOND_PAUSE, times),
        }
    }

    /// When the key runs if its primary is not changed.
    fn due(&self) -> Moment {
        self.since + doubled(HOT_LOOP_HOLD_MIN, self.before)
    }
}

fn doubled(time: Duration, times: u32) -> Duration {
    RetryPolicy::doubling(time, HOT_LOOP_HOLD_MAX).planned(times)
}

impl<K> Default for SlowLane<K> {
    fn default() -> Self {
        Self { keys: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash> SlowLane<K> {
    /// Holds `key`, which loops over `object` and whose primary is at `mark`. Returns false if the key is held already
    /// or the lane is full.
    pub fn put(&mut self, key: &K, object: Arc<str>, mark: Option<SlowMark>, now: Moment) -> bool {
        self.keys.retain(|_, kept| kept.left.is_none_or(|left| now < left + LOOP_FORGOTTEN_AFTER));
        let is_full = self.keys.len() >= HELD_KEYS_MAX;
        match self.keys.get_mut(key) {
            Some(SlowEntry { left: None, .. }) => false,
            Some(kept) => {
                *kept = SlowEntry { since: now, object, mark, before: kept.before.saturating_add(1), left: None };
                true
            }
            None if is_full => false,
            None => {
                self.keys.insert(key.clone(), SlowEntry { since: now, object, mark, before: 0, left: None });
                true
            }
        }
    }

    /// Records that the call during which `key` was put here has ended, and that its primary is now at `mark`.
    pub fn left_at(&mut self, key: &K, mark: Option<SlowMark>) {
        if let Some(kept) = self.keys.get_mut(key).filter(|kept| kept.left.is_none()) {
            kept.mark = mark;
        }
    }

    /// How long `key`, whose primary is at `mark`, must wait. A requested run (`is_requested`) counts as a change of
    /// the primary. `None` if the key may run; it is then no longer held.
    pub fn wait(&mut self, key: &K, mark: Option<&SlowMark>, is_requested: bool, now: Moment) -> Option<Duration> {
        let kept = self.keys.get_mut(key).filter(|kept| kept.left.is_none())?;
        let is_same = kept.mark.as_ref() == mark && !is_requested;
        let due = if is_same { kept.due() } else { kept.since + kept.pause() };
        let wait = due.0.saturating_sub(now.0);
        if wait.is_zero() {
            kept.left = Some(now);
            return None;
        }
        Some(wait)
    }

    /// At most `most` held keys, each with the object that it writes, and the remaining wait if its primary is not
    /// changed.
    #[must_use]
    pub fn held(&self, most: usize, now: Moment) -> Vec<(K, Arc<str>, Duration)> {
        let held = self.keys.iter().filter(|(_, kept)| kept.left.is_none()).take(most);
        let left = |kept: &SlowEntry| kept.due().0.saturating_sub(now.0);
        held.map(|(key, kept)| (key.clone(), kept.object.clone(), left(kept))).collect()
    }

    /// The object for which `key` is held. `None` if it is not held.
    #[must_use]
    pub fn object_of(&self, key: &K) -> Option<&Arc<str>> {
        self.keys.get(key).filter(|kept| kept.left.is_none()).map(|kept| &kept.object)
    }

    /// How many keys are held.
    #[must_use]
    pub fn count(&self) -> usize {
        self.keys.values().filter(|kept| kept.left.is_none()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn mark(generation: i64) -> SlowMark {
        SlowMark { uid: Uid::from("u"), deleting: false, spec: SpecMark::Generation(generation) }
    }

    fn seconds(lane: &mut SlowLane<u32>, generation: i64, now: u64) -> Option<u64> {
        lane.wait(&1, Some(&mark(generation)), false, at(now)).map(|wait| wait.as_secs())
    }

    #[test]
    fn a_key_waits_until_its_time_or_until_its_primary_is_changed() {
        let mut lane = SlowLane::default();
        assert_eq!(seconds(&mut lane, 1, 0), None, "one that does not loop");
        assert!(lane.put(&1, "it".into(), Some(mark(1)), at(0)));
        assert!(!lane.put(&1, "it".into(), Some(mark(1)), at(0)), "it is there");
        assert_eq!(seconds(&mut lane, 1, 40), Some(20));
        assert_eq!(seconds(&mut lane, 2, 40), None, "its primary was changed");
        assert_eq!((seconds(&mut lane, 2, 40), lane.count()), (None, 0), "it has left");
        assert!(lane.put(&1, "it".into(), Some(mark(2)), at(5_000)));
        assert_eq!(seconds(&mut lane, 2, 5_060), None, "its time has come");
    }

    #[test]
    fn a_requested_run_releases_a_key_as_a_change_does() {
        let mut lane = SlowLane::default();
        let mut requested = |put_at, now| {
            lane.put(&1, "it".into(), Some(mark(1)), at(put_at));
            lane.wait(&1, Some(&mark(1)), true, at(now)).map(|wait| wait.as_secs())
        };
        assert_eq!(requested(0, 1), None);
        assert_eq!(requested(2, 3), Some(9), "it has looped again soon");
        assert_eq!(requested(2, 12), None);
    }

    #[test]
    fn the_deletion_of_a_primary_releases_its_key() {
        let mut lane = SlowLane::default();
        lane.put(&1, "it".into(), Some(mark(1)), at(0));
        assert_eq!(lane.wait(&1, None, false, at(1)), None);
    }

    #[test]
    fn the_calls_own_changes_release_no_key() {
        let mut lane = SlowLane::default();
        lane.put(&1, "it".into(), Some(mark(1)), at(0));
        lane.left_at(&1, Some(mark(2)));
        assert_eq!(seconds(&mut lane, 2, 1), Some(59));
    }

    #[test]
    fn a_key_that_loops_again_soon_is_released_later_each_time() {
        let mut lane = SlowLane::default();
        let (mut now, mut waited) = (0, vec![]);
        for generation in 0..10 {
            assert!(lane.put(&1, "it".into(), Some(mark(generation)), at(now)));
            let wait = seconds(&mut lane, generation + 1, now).unwrap_or_default();
            now += wait;
            assert_eq!(seconds(&mut lane, generation + 1, now), None);
            waited.push(wait);
        }
        assert_eq!(waited, [0, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        now += 600;
        assert!(lane.put(&1, "it".into(), Some(mark(1)), at(now)));
        assert_eq!(seconds(&mut lane, 2, now), None, "it was calm meanwhile");
    }

    #[test]
    fn a_key_that_loops_again_soon_is_held_longer_each_time() {
        let mut lane = SlowLane::default();
        let (mut now, mut held) = (0, vec![]);
        for _ in 0..6 {
            assert!(lane.put(&1, "it".into(), Some(mark(1)), at(now)));
            let wait = seconds(&mut lane, 1, now).unwrap_or_default();
            now += wait;
            assert_eq!(seconds(&mut lane, 1, now), None);
            held.push(wait);
        }
        assert_eq!(held, [60, 120, 240, 480, 960, 1000]);
    }

    #[test]
    fn held_keys_are_bounded_and_calm_ones_are_forgotten() {
        let mut lane = SlowLane::default();
        let put =
            |lane: &mut SlowLane<u32>, now| (0..10_000).filter(|key| lane.put(key, "it".into(), None, at(now))).count();
        assert_eq!(put(&mut lane, 0), 4_096);
        assert_eq!(lane.held(10, at(1)).len(), 10);
        for key in 0..10_000 {
            assert_eq!(lane.wait(&key, None, false, at(1_000)), None);
        }
        assert_eq!(put(&mut lane, 1_000 + 600), 4_096);
    }
}
