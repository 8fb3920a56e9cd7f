//! How long keys were held, for those who trace calls. Switched off, it costs a look at a flag.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Moment;
use crate::object::ObjectKey;

/// Since when a key is held, and until when it was.
type HoldTime = (Moment, Option<Moment>);

/// The times of keys that were held and have not run since: no more than there are keys queued.
#[derive(Debug, Default)]
pub(super) struct HoldTimes {
    is_on: AtomicBool,
    times: Mutex<HashMap<ObjectKey, HoldTime>>,
    /// How many there are, for a look without the lock.
    count: AtomicUsize,
}

impl HoldTimes {
    pub(super) fn switch_on(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// `key` is held. If it was held before, it is one hold.
    pub(super) fn begin(&self, key: &ObjectKey, now: Moment) {
        if self.is_on.load(Ordering::Relaxed) {
            let mut times = self.lock();
            times.entry(key.clone()).or_insert((now, None)).1 = None;
            self.count.store(times.len(), Ordering::Relaxed);
        }
    }

    /// `key` is let go.
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
    fn a_key_that_is_held_again_was_held_once_from_first_to_last() {
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
