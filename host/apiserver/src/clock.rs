//! The server's clock and random numbers. In this crate, only this file reads the system's clock and randomness. With
//! an injected clock and seed, two runs are identical.
//!
//! Timers are tokio's, so pausing its clock (`tokio::time::pause`) controls them.

use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use tokio::time::Instant;

/// The clock for the timestamps in objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The system's clock.
    #[default]
    Wall,
    /// An injected clock. It shows this time when the server starts, and advances with tokio's clock, which tests can
    /// pause and advance.
    Given(SystemTime),
}

/// A running clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    /// The injected time, and the instant at which it applied. `None` for the system's clock.
    injected: Option<(Timestamp, Instant)>,
    /// How far the clock was set forward, or back if negative.
    offset: SignedDuration,
}

impl Time {
    pub(crate) fn start(clock: Clock) -> Time {
        let injected = match clock {
            Clock::Wall => None,
            // An object cannot contain a time after the year 9999.
            Clock::Given(moment) => Some((Timestamp::try_from(moment).unwrap_or(Timestamp::MAX), Instant::now())),
        };
        Time { injected, offset: SignedDuration::ZERO }
    }

    /// A clock that shows the time of `then` and continues from there. The system's clock cannot be set back.
    pub(crate) fn set_back(&self, then: Instant) -> Time {
        let injected = self.injected.map(|(injected, since)| {
            let shown = injected.saturating_add(then.saturating_duration_since(since)).unwrap_or(injected);
            (shown, Instant::now())
        });
        Time { injected, ..*self }
    }

    /// Sets the clock forward, or back if `by` is negative.
    pub(crate) fn leap(&mut self, by: SignedDuration) {
        self.offset = self.offset.saturating_add(by);
    }

    pub(crate) fn now(&self) -> Moment {
        let shown = match self.injected {
            None => Timestamp::now(),
            Some((then, since)) => then.saturating_add(since.elapsed()).unwrap_or(then),
        };
        Moment(shown.saturating_add(self.offset).unwrap_or(shown))
    }
}

/// A point in time, in Kubernetes' formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(Timestamp);

impl Moment {
    /// `metav1.Time`: whole seconds.
    pub(crate) fn text(self) -> String {
        self.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// In seconds since 1970.
    pub(crate) fn seconds(self) -> i64 {
        self.0.as_second()
    }

    /// The seconds since `moment`, a time from an object. `None` if it is not a valid time.
    pub(crate) fn seconds_since(self, moment: &str) -> Option<i64> {
        let then = moment.parse::<Timestamp>().ok()?;
        Some(self.0.as_second() - then.as_second())
    }

    /// The time since `moment` as kubectl prints ages (`5s`, `3m20s`, `4h`, `12d`). `<unknown>` if it is not a valid
    /// time.
    pub(crate) fn age(self, moment: &str) -> String {
        self.seconds_since(moment).map_or_else(|| "<unknown>".to_owned(), human_duration)
    }
}

/// The time this many seconds after 1970, as `metav1.Time`.
pub(crate) fn at(seconds: i64) -> String {
    Moment(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)).text()
}

/// The source of UIDs and name suffixes.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// The same seed gives the same sequence. `None` for the system's randomness.
    pub(crate) fn new(seed: Option<u64>) -> Chance {
        let seed = seed.unwrap_or_else(rand::random);
        Chance(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A new, independent sequence.
    pub(crate) fn fork(&mut self) -> Chance {
        Chance::new(Some(self.number()))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A random number that is at least 0 and less than 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        self.0.random()
    }

    /// A random number less than `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }

    pub(crate) fn uid(&mut self) -> String {
        uuid::Builder::from_random_bytes(self.bytes()).into_uuid().to_string()
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}

/// Unpredictable bytes; with a seed, always the same ones.
pub(crate) fn secret<const N: usize>(seed: Option<u64>) -> [u8; N] {
    match seed {
        // The seed differs from the seed of UIDs.
        Some(seed) => Chance::new(Some(!seed)).bytes(),
        None => rand::random(),
    }
}

/// Formats a duration like `duration.HumanDuration`: with two units if the number in front is small, otherwise with
/// one.
pub(crate) fn human_duration(seconds: i64) -> String {
    let pair = |big: i64, big_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{big_unit}"),
        small => format!("{big}{big_unit}{small}{small_unit}"),
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        1..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_printed_as_kubectl_prints_them() {
        let cases = [(0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (3600, "60m"), (10_860, "3h1m")];
        for (seconds, expected) in cases {
            assert_eq!(human_duration(seconds), expected);
        }
        assert_eq!(human_duration(86_400 * 3), "3d");
        assert_eq!(human_duration(86_400 * 30), "30d");
    }

    #[test]
    fn the_same_seed_gives_the_same_uids() {
        let uids = |seed| {
            let mut chance = Chance::new(Some(seed));
            [chance.uid(), chance.uid()]
        };
        assert_eq!(uids(7), uids(7));
        assert_ne!(uids(7), uids(8));
        assert_ne!(uids(7)[0], uids(7)[1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_virtual_clock_follows_tokios_time() {
        let time = Time::start(Clock::Given(SystemTime::UNIX_EPOCH));
        tokio::time::advance(std::time::Duration::from_hours(10)).await;
        assert_eq!(time.now().text(), "1970-01-01T10:00:00Z");
        assert_eq!(time.now().age("1970-01-01T00:00:00Z"), "10h");
    }
}
