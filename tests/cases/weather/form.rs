//! How much weather there is, and what happens in it when.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The size of a story.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) webapps: usize,
    pub(crate) sets: usize,
    /// How long the weather lasts.
    pub(crate) lasts: Duration,
    /// The rate of each fault.
    pub(crate) rate: f64,
    /// How late a slow answer is.
    pub(crate) slow: RangeInclusive<Duration>,
    /// The time from one change of a user's to the next.
    pub(crate) pace: Duration,
    pub(crate) kill_every: Duration,
    pub(crate) swap_every: Duration,
    pub(crate) outages: u32,
    /// Whether throughput is measured. Of few objects it says nothing.
    pub(crate) measures: bool,
    /// When the memory is looked at that the end's is compared with. None: it is not compared.
    pub(crate) settled: Option<Duration>,
    /// How soon after the weather all must be as it should be.
    pub(crate) patience: Duration,
    pub(crate) lease: Duration,
    pub(crate) renew: Duration,
    pub(crate) retry: Duration,
    pub(crate) stability: Duration,
}

/// A blow of the weather, beside the faults that come by rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Blow {
    /// A replica is killed.
    Kill,
    /// A plugin's file is replaced.
    Swap,
    /// The server is killed and started again.
    Outage,
    /// The elder's memory is looked at.
    Look,
}

impl Form {
    /// As `WINDLASS_WEATHER` says: `full`, or as full as so many seconds of weather can be; short without.
    pub(crate) fn chosen() -> anyhow::Result<Self> {
        Ok(match std::env::var("WINDLASS_WEATHER").as_deref() {
            Ok("full") => Self::full(Duration::from_mins(15)),
            Ok(seconds) => Self::full(Duration::from_secs(seconds.parse()?)),
            Err(_) => Self::short(),
        })
    }

    fn full(lasts: Duration) -> Self {
        let second = Duration::from_secs(1);
        Self {
            webapps: 300,
            sets: 100,
            lasts,
            rate: 0.03,
            slow: second..=3 * second,
            pace: Duration::from_millis(100),
            kill_every: 30 * second,
            swap_every: 50 * second,
            outages: 2,
            measures: true,
            settled: Some(Duration::from_mins(1)),
            patience: Duration::from_mins(1),
            lease: 15 * second,
            renew: 10 * second,
            retry: 2 * second,
            // Less than the time between two kills, so that the other replica gets its share before it dies.
            stability: 10 * second,
        }
    }

    /// Twice the patience: other stories run beside it.
    fn short() -> Self {
        let [second, milliseconds] = [Duration::from_secs(1), Duration::from_millis(1)];
        Self {
            webapps: 20,
            sets: 8,
            lasts: 20 * second,
            slow: 100 * milliseconds..=500 * milliseconds,
            pace: 100 * milliseconds,
            kill_every: 8 * second,
            swap_every: 7 * second,
            outages: 1,
            measures: false,
            settled: None,
            patience: Duration::from_mins(2),
            lease: 6 * second,
            renew: 4 * second,
            retry: second,
            stability: 3 * second,
            ..Self::full(Duration::ZERO)
        }
    }

    /// The blows, and how long after the beginning each comes.
    pub(crate) fn blows(&self) -> Vec<(Duration, Blow)> {
        let every = |period: Duration, blow: Blow| {
            (1..).map(move |number| (period * number, blow)).take_while(|(at, _)| *at < self.lasts)
        };
        let outages = (1..=self.outages).map(|number| (self.lasts * number / (self.outages + 1), Blow::Outage));
        let look = self.settled.map(|at| (at.min(self.lasts), Blow::Look));
        let mut blows: Vec<_> = every(self.kill_every, Blow::Kill)
            .chain(every(self.swap_every, Blow::Swap))
            .chain(outages)
            .chain(look)
            .collect();
        blows.sort_unstable();
        blows
    }
}

#[test]
fn blows_come_in_order_and_within_the_weather() {
    let seconds = Duration::from_secs;
    let blows = Form::full(seconds(120)).blows();
    let expected = [
        (30, Blow::Kill),
        (40, Blow::Outage),
        (50, Blow::Swap),
        (60, Blow::Kill),
        (60, Blow::Look),
        (80, Blow::Outage),
        (90, Blow::Kill),
        (100, Blow::Swap),
    ];
    assert_eq!(blows, expected.map(|(at, blow)| (seconds(at), blow)));
    assert!(!Form::short().blows().iter().any(|(_, blow)| *blow == Blow::Look));
}
