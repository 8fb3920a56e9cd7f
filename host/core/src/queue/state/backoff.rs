//! Keys that run again after a backoff, or after a delay that the server or the plugin asked for.

use std::time::Duration;

use super::{KeyHash, Phase, QueueState};
use crate::clock::Moment;
use crate::queue::Key;
use crate::queue::delay::nanoseconds;
use crate::queue::dirty::BackoffCause;

impl<K: Key> QueueState<K> {
    /// Records a backoff, and adds the key after the delay for the key's earlier backoffs with the same kind of cause,
    /// or after `at_least` if that is longer. Returns the delay. A failure or a requeue before the last backoff has
    /// ended belongs to that backoff: it is not counted and does not lengthen the backoff, and the key runs when it was
    /// due anyway, or earlier, but not before `at_least` has passed. A queue that shuts down records nothing, because
    /// no later call would forget the backoff.
    pub(in crate::queue) fn back_off(
        &mut self,
        hash: KeyHash,
        key: K,
        cause: BackoffCause,
        at_least: Duration,
        now: Moment,
    ) -> Duration {
        if self.phase != Phase::Open {
            return at_least;
        }
        self.metrics.retries += 1;
        let slot = self.items.enter(hash, key.clone());
        let item = self.items.get(slot);
        item.continue_with(cause);
        let is_early = item.backs_off(nanoseconds(now));
        let backoffs_before = if is_early { item.backoffs - 1 } else { item.backoffs };
        if !is_early {
            item.back_off(cause);
        }
        let delay = self.limiter.delay(u32::from(backoffs_before), now).max(at_least);
        let ends = nanoseconds(now + delay);
        item.backoff_ends = if is_early { item.backoff_ends.min(ends) } else { ends };
        let delay = Duration::from_nanos(item.backoff_ends.saturating_sub(nanoseconds(now)));
        self.add_after_at_least(hash, key, delay, at_least, now)
    }

    /// Adds a key again after `delay`, or after `at_least` if that is longer. Returns the longer delay. Other delays
    /// of the key end together with this delay if they would end before `at_least` has passed, or ended while a worker
    /// had the key.
    pub(in crate::queue) fn add_after_at_least(
        &mut self,
        hash: KeyHash,
        key: K,
        delay: Duration,
        at_least: Duration,
        now: Moment,
    ) -> Duration {
        let delay = delay.max(at_least);
        if at_least.is_zero() || self.phase != Phase::Open {
            self.add_after(hash, key, delay, now);
            return delay;
        }
        let slot = self.items.enter(hash, key);
        if let Some(working) = self.working.iter_mut().find(|working| working.slot == slot)
            && working.again.take_if(|again| again.is_delayed).is_some()
        {
            self.items.get(slot).was_due = false;
        }
        self.delay(slot, nanoseconds(now + delay), nanoseconds(now + at_least));
        delay
    }

    pub(in crate::queue) fn forget(&mut self, hash: KeyHash, key: &K) {
        let Some(slot) = self.items.find(hash, key) else { return };
        let item = self.items.get(slot);
        (item.backoffs, item.counted, item.is_requeued) = (0, 0, false);
        self.items.tidy(hash, slot);
    }
}
