//! Remembers the deliveries of one hook: which ids were queued, and how many may come. Both are bounded. Pure: times
//! are passed in.

use std::collections::BTreeMap;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use windlass_core::clock::Moment;
use windlass_core::queue::TokenBucket;

use super::signature::DELIVERY_TIME_TOLERANCE;

/// The rate of authentic deliveries to one hook, and how many may come at once.
pub(super) const DELIVERIES_PER_SECOND: u32 = 10;
pub(super) const DELIVERIES_BURST: u32 = 100;
/// The most ids that are remembered: those of all deliveries that are admitted while the time of any of them is near
/// enough. With digests of 32 bytes, they take about half a megabyte.
const REMEMBERED_IDS_MAX: usize = 6_100;

/// The deliveries of one hook.
#[derive(Debug)]
pub(super) struct DeliveryMemory {
    rate: TokenBucket,
    /// The digests of the ids that were queued, with the time since the Unix epoch at which each is forgotten: by then,
    /// a copy of the delivery is refused because of its time.
    queued: BTreeMap<[u8; 32], Duration>,
}

impl Default for DeliveryMemory {
    fn default() -> Self {
        Self { rate: TokenBucket::new(DELIVERIES_PER_SECOND, DELIVERIES_BURST), queued: BTreeMap::new() }
    }
}

impl DeliveryMemory {
    /// Whether the delivery with this id was queued. `now` is the time since the Unix epoch.
    pub(super) fn has(&self, id: &str, now: Duration) -> bool {
        self.queued.get(&digest(id)).is_some_and(|until| *until >= now)
    }

    /// Admits a delivery, or returns the time until one is admitted.
    pub(super) fn admit(&mut self, now: Moment) -> Result<(), Duration> {
        self.rate.try_take(now)
    }

    /// Remembers a delivery that was sent at this time since the Unix epoch. `now` is the time, too.
    pub(super) fn remember(&mut self, id: &str, sent: Duration, now: Duration) {
        if self.queued.len() >= REMEMBERED_IDS_MAX {
            self.queued.retain(|_, until| *until >= now);
        }
        // The rate keeps the number below this, unless the clock is set back.
        if self.queued.len() >= REMEMBERED_IDS_MAX {
            self.queued.pop_first();
        }
        self.queued.insert(digest(id), sent + DELIVERY_TIME_TOLERANCE);
    }
}

fn digest(id: &str) -> [u8; 32] {
    Sha256::digest(id).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Duration = Duration::from_secs(1_700_000_000);

    #[test]
    fn an_id_is_known_as_long_as_a_copy_of_its_delivery_would_count() {
        let mut memory = DeliveryMemory::default();
        assert!(!memory.has("a", SENT));
        memory.remember("a", SENT, SENT);
        assert!(memory.has("a", SENT + DELIVERY_TIME_TOLERANCE) && !memory.has("b", SENT));
        assert!(!memory.has("a", SENT + DELIVERY_TIME_TOLERANCE + Duration::from_secs(1)));
    }

    #[test]
    fn a_hook_takes_a_burst_and_then_a_rate() {
        let mut memory = DeliveryMemory::default();
        let at = |millis| Moment(Duration::from_millis(millis));
        for _ in 0..DELIVERIES_BURST {
            assert_eq!(memory.admit(at(0)), Ok(()));
        }
        assert_eq!(memory.admit(at(0)), Err(Duration::from_millis(100)));
        assert_eq!(memory.admit(at(100)), Ok(()));
    }

    #[test]
    fn remembered_ids_are_bounded_whatever_the_clock_does() {
        let admitted = f64::from(DELIVERIES_PER_SECOND) * 2.0 * DELIVERY_TIME_TOLERANCE.as_secs_f64();
        let most = f64::from(DELIVERIES_BURST) + admitted;
        assert!((most - 6_100.0).abs() < 1.0, "{REMEMBERED_IDS_MAX} must be enough for {most}");
        let mut memory = DeliveryMemory::default();
        for number in 0..2 * REMEMBERED_IDS_MAX {
            memory.remember(&number.to_string(), SENT, SENT);
        }
        assert_eq!(memory.queued.len(), REMEMBERED_IDS_MAX);
        let later = SENT + 2 * DELIVERY_TIME_TOLERANCE;
        memory.remember("later", later, later);
        assert_eq!(memory.queued.len(), 1, "those that are too old are forgotten");
    }
}
