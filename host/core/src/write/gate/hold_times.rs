//! Measures how long keys are held, for traces of calls. While switched off, it costs only the reading of one flag.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Moment;
use crate::object::ObjectKey;

/// When a key was first held, and when it was freed.
type HoldTime = (Moment, Option<Moment>);

/// The times of keys that were held and have not run since. There are never more of them than queued keys.
#[derive(Debug, Default)]
pub(super) struct HoldTimes {
    is_on: AtomicBool,
    times: Mutex<HashMap<ObjectKey, HoldTime>>,
    /// The number of `times`, readable without the lock.
    count: AtomicUsize,
}

impl HoldTimes {
    pub(super) fn switch_on(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Records that `key` is held. If it was held before, both holds count as one.
    pub(super) fn begin(&self, key: &ObjectKey, now: Moment) {
        if self.is_on.load(Ordering::Relaxed) {
            let mut times = self.lock();
            times.entry(key.clone()).or_insert((now, None)).1 = None;
            self.count.store(times.len(), Ordering::Relaxed);
        }
    }

    /// Records that `key` is freed.
    pub(super) fn end(&self, key: &ObjectKey, now: Moment) {
        if self.count.load(Ordering::Relaxed) > 0
            && let Some(time) = self.lock().get_mut(key)
        {
            time.1 = Some(now);
        }
    }

    pub(super) fn take(&self, key: &ObjectKey) -> Option<HoldTime> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut times = self.lock();
        let time = times.remove(key);
        self.count.store(times.len(), Ordering::Relaxed);
        time
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, HoldTime>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn repeated_holds_of_a_key_count_as_one() {
        let (times, key) = (HoldTimes::default(), ObjectKey::namespaced("prod", "shop"));
        let at = |second| Moment(Duration::from_secs(second));
        times.begin(&key, at(1));
        assert_eq!(times.take(&key), None, "it is switched off");
        times.switch_on();
        times.begin(&key, at(2));
        times.end(&key, at(3));
        times.begin(&key, at(4));
        times.end(&key, at(5));
        times.end(&ObjectKey::namespaced("prod", "other"), at(6));
        assert_eq!(times.take(&key), Some((at(2), Some(at(5)))));
        assert_eq!(times.take(&key), None);
    }
}
