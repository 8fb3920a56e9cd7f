//! Remembers the deliveries of one hook: what became of which ids, and how many may come. Both are bounded. Pure: times
//! are passed in.

use std::collections::BTreeMap;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use windlass_core::clock::Moment;
use windlass_core::queue::TokenBucket;

use super::signature::{DELIVERY_TIME_TOLERANCE, DeliveryHeaders};

/// The rate of authentic deliveries to one hook, and how many may come at once.
pub(super) const DELIVERIES_PER_SECOND: u32 = 10;
pub(super) const DELIVERIES_BURST: u32 = 100;
/// The time after which a sender may try again to deliver what was not queued. A copy that comes earlier is refused, so
/// that copies of one captured delivery neither use up the rate nor keep the mapper busy.
pub(super) const DELIVERY_RETRY_AFTER: Duration = Duration::from_secs(5);
/// The most ids that are remembered: those of all deliveries that are admitted while the time of any of them is near
/// enough. With digests of 32 bytes, they take about half a megabyte.
const REMEMBERED_IDS_MAX: usize = 6_100;

/// The id of a delivery, shortened.
type IdDigest = [u8; 32];

/// The deliveries of one hook.
#[derive(Debug)]
pub(super) struct DeliveryMemory {
    rate: TokenBucket,
    attempts: BTreeMap<IdDigest, Attempt>,
}

/// The latest attempt to deliver an id.
#[derive(Debug)]
enum Attempt {
    /// It is being mapped.
    InWork,
    /// It was queued, and counts as queued until this time since the Unix epoch. By then, every copy of an attempt that
    /// has come is refused because of its time.
    Queued(Duration),
    /// It was not queued, and may be tried again from this moment on.
    Failed(Moment),
}

/// Why a delivery is not mapped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotAdmitted {
    /// It has been queued before.
    Duplicate,
    /// A delivery with its id is being mapped.
    InWork,
    /// It may come again after this time.
    Limited(Duration),
}

/// The time at which a delivery comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveryTime {
    /// The time since the Unix epoch, with which a delivery's time is compared.
    pub(super) wall: Duration,
    /// The same moment of the clock that is never set.
    pub(super) moment: Moment,
}

impl Default for DeliveryMemory {
    fn default() -> Self {
        Self { rate: TokenBucket::new(DELIVERIES_PER_SECOND, DELIVERIES_BURST), attempts: BTreeMap::new() }
    }
}

impl DeliveryMemory {
    /// Admits a delivery, whose id is in work from now on.
    pub(super) fn admit(&mut self, delivery: &DeliveryHeaders<'_>, now: DeliveryTime) -> Result<(), NotAdmitted> {
        let id = digest(delivery.id);
        match self.attempts.get_mut(&id) {
            Some(Attempt::InWork) => return Err(NotAdmitted::InWork),
            Some(Attempt::Queued(until)) if *until >= now.wall => {
                // A copy of this attempt counts for longer than one of the attempt that was queued.
                *until = (*until).max(expiry(delivery));
                return Err(NotAdmitted::Duplicate);
            }
            Some(Attempt::Failed(again)) if *again > now.moment => {
                return Err(NotAdmitted::Limited(again.0.saturating_sub(now.moment.0)));
            }
            Some(_) | None => {}
        }
        self.rate.try_take(now.moment).map_err(NotAdmitted::Limited)?;
        self.make_room(now);
        self.attempts.insert(id, Attempt::InWork);
        Ok(())
    }

    /// Remembers that an admitted delivery was queued.
    pub(super) fn queued(&mut self, delivery: &DeliveryHeaders<'_>) {
        self.attempts.insert(digest(delivery.id), Attempt::Queued(expiry(delivery)));
    }

    /// Remembers that the delivery with this id was not queued, if it is in work.
    pub(super) fn not_queued(&mut self, id: &str, now: Moment) {
        if let Some(attempt @ Attempt::InWork) = self.attempts.get_mut(&digest(id)) {
            *attempt = Attempt::Failed(Moment(now.0 + DELIVERY_RETRY_AFTER));
        }
    }

    /// Forgets ids if there are too many.
    fn make_room(&mut self, now: DeliveryTime) {
        if self.attempts.len() >= REMEMBERED_IDS_MAX {
            self.attempts.retain(|_, attempt| match attempt {
                Attempt::InWork => true,
                Attempt::Queued(until) => *until >= now.wall,
                Attempt::Failed(again) => *again > now.moment,
            });
        }
        // The rate keeps the number below this, unless the clock is set back, or a sender repeats ids all the time.
        if self.attempts.len() >= REMEMBERED_IDS_MAX {
            self.attempts.pop_first();
        }
    }
}

/// The last time at which a copy of the delivery counts.
fn expiry(delivery: &DeliveryHeaders<'_>) -> Duration {
    delivery.sent + DELIVERY_TIME_TOLERANCE
}

fn digest(id: &str) -> IdDigest {
    Sha256::digest(id).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Duration = Duration::from_secs(1_700_000_000);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The time so long after [`SENT`], and a moment that is as much later.
    fn after(later: Duration) -> DeliveryTime {
        DeliveryTime { wall: SENT + later, moment: Moment(later) }
    }

    /// A delivery that was sent so long after [`SENT`].
    fn delivery(id: &str, later: Duration) -> DeliveryHeaders<'_> {
        DeliveryHeaders { id, sent: SENT + later }
    }

    #[test]
    fn an_id_is_known_as_long_as_a_copy_of_its_delivery_would_count() {
        let mut memory = DeliveryMemory::default();
        let first = delivery("a", Duration::ZERO);
        assert_eq!(memory.admit(&first, after(Duration::ZERO)), Ok(()));
        memory.queued(&first);
        assert_eq!(memory.admit(&first, after(DELIVERY_TIME_TOLERANCE)), Err(NotAdmitted::Duplicate));
        assert_eq!(memory.admit(&delivery("b", Duration::ZERO), after(DELIVERY_TIME_TOLERANCE)), Ok(()));
        assert_eq!(memory.admit(&first, after(DELIVERY_TIME_TOLERANCE + seconds(1))), Ok(()));
    }

    #[test]
    fn a_repeated_delivery_is_known_as_long_as_its_last_copy_would_count() {
        let mut memory = DeliveryMemory::default();
        let (first, again) = (delivery("a", Duration::ZERO), delivery("a", seconds(240)));
        assert_eq!(memory.admit(&first, after(Duration::ZERO)), Ok(()));
        memory.queued(&first);
        for (attempt, at) in [(&again, 240), (&first, 300), (&again, 540)] {
            assert_eq!(memory.admit(attempt, after(seconds(at))), Err(NotAdmitted::Duplicate), "after {at} s");
        }
        assert_eq!(memory.admit(&again, after(seconds(541))), Ok(()));
    }

    #[test]
    fn a_copy_of_a_delivery_in_work_or_just_failed_costs_nothing() {
        let mut memory = DeliveryMemory::default();
        let captured = delivery("a", Duration::ZERO);
        assert_eq!(memory.admit(&captured, after(Duration::ZERO)), Ok(()));
        for _ in 0..2 * DELIVERIES_BURST {
            assert_eq!(memory.admit(&captured, after(Duration::ZERO)), Err(NotAdmitted::InWork));
        }
        memory.not_queued("a", Moment(Duration::ZERO));
        for _ in 0..2 * DELIVERIES_BURST {
            let refused = memory.admit(&captured, after(seconds(1)));
            assert_eq!(refused, Err(NotAdmitted::Limited(DELIVERY_RETRY_AFTER.saturating_sub(seconds(1)))));
        }
        assert_eq!(memory.admit(&captured, after(DELIVERY_RETRY_AFTER)), Ok(()));
        memory.queued(&captured);
        memory.not_queued("a", Moment(DELIVERY_RETRY_AFTER));
        assert_eq!(memory.admit(&captured, after(2 * DELIVERY_RETRY_AFTER)), Err(NotAdmitted::Duplicate));
    }

    #[test]
    fn a_hook_takes_a_burst_and_then_a_rate() {
        let mut memory = DeliveryMemory::default();
        let mut admit =
            |id: &str, millis| memory.admit(&delivery(id, Duration::ZERO), after(Duration::from_millis(millis)));
        for number in 0..DELIVERIES_BURST {
            assert_eq!(admit(&number.to_string(), 0), Ok(()));
        }
        assert_eq!(admit("more", 0), Err(NotAdmitted::Limited(Duration::from_millis(100))));
        assert_eq!(admit("more", 100), Ok(()));
    }

    #[test]
    fn remembered_ids_are_bounded_whatever_the_clock_does() {
        let admitted = f64::from(DELIVERIES_PER_SECOND) * 2.0 * DELIVERY_TIME_TOLERANCE.as_secs_f64();
        let most = f64::from(DELIVERIES_BURST) + admitted;
        assert!((most - 6_100.0).abs() < 1.0, "{REMEMBERED_IDS_MAX} must be enough for {most}");
        let mut memory = DeliveryMemory::default();
        let mut queue = |id: String, wall: Duration, at: Duration| {
            let headers = DeliveryHeaders { id: &id, sent: wall };
            assert_eq!(memory.admit(&headers, DeliveryTime { wall, moment: Moment(at) }), Ok(()));
            memory.queued(&headers);
            memory.attempts.len()
        };
        let mut at = Duration::ZERO;
        for number in 0..REMEMBERED_IDS_MAX + 100 {
            // The clock stands still, although time goes on.
            at += seconds(1);
            assert!(queue(number.to_string(), SENT, at) <= REMEMBERED_IDS_MAX);
        }
        let later = SENT + 2 * DELIVERY_TIME_TOLERANCE;
        assert_eq!(queue("later".to_owned(), later, at + seconds(1)), 1, "those that are too old are forgotten");
    }
}
