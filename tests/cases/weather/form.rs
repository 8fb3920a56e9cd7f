//! The amount of weather, and its schedule.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::versions::{PLUGINS, Version};

/// The size of a story.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) webapps: usize,
    pub(crate) sets: usize,
    /// How long the weather lasts.
    pub(crate) lasts: Duration,
    /// The rate of each fault.
    pub(crate) rate: f64,
    /// The delay of a slow response.
    pub(crate) slow: RangeInclusive<Duration>,
    /// The time between two changes by users.
    pub(crate) pace: Duration,
    pub(crate) kill_every: Duration,
    pub(crate) swap_every: Duration,
    /// The delay of each watch event while watches lag.
    pub(crate) lag: RangeInclusive<Duration>,
    /// How long watches lag. They begin to lag a little before each swap, so that keys are held when it takes place.
    pub(crate) lags_for: Duration,
    pub(crate) outages: u32,
    /// The age of the backup that is restored to etcd in the middle of the weather. `None` for no restore.
    pub(crate) goes_back: Option<Duration>,
    /// Whether throughput is measured. With few objects, the figure would be meaningless.
    pub(crate) measures: bool,
    /// The time at which the memory is measured, for comparison with the end. `None` if it is not compared.
    pub(crate) settled: Option<Duration>,
    /// The time after the weather within which all objects must be as wanted.
    pub(crate) patience: Duration,
    /// The time within which an edit of a primary must be reconciled, once all objects are as wanted.
    pub(crate) follows: Duration,
    pub(crate) lease: Duration,
    pub(crate) renew: Duration,
    pub(crate) retry: Duration,
    pub(crate) stability: Duration,
}

/// A scheduled fault. Other faults occur at a rate. If two faults have the same time, the order of the variants
/// decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Blow {
    /// Watches no longer lag.
    CatchUp,
    /// A replica is killed.
    Kill,
    /// Watches begin to lag, and a plugin's file is replaced by a version with other watches.
    Swap,
    /// The server is killed and started again.
    Outage,
    /// The server is killed and started again, and etcd's data is backed up.
    BackUp,
    /// The server is killed and restarted with the backup.
    Restore,
    /// The elder's memory is measured.
    Look,
}

/// Of this many swaps of a plugin, the last one is to a bad version.
const SWAPS_TO_A_BAD_VERSION: usize = 3;

/// The maximum number of swaps after the weather: two for each plugin, because the replica that was started last may
/// still win a lease once.
pub(crate) const SWAPS_IN_CALM: usize = 2 * PLUGINS.len();

impl Form {
    /// The form that `WINDLASS_WEATHER` selects: `full`, a full form of this many seconds, or the short form if it is
    /// not set.
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
            lag: Duration::ZERO..=6 * second,
            lags_for: 12 * second,
            outages: 2,
            goes_back: Some(40 * second),
            measures: true,
            settled: Some(Duration::from_mins(1)),
            patience: Duration::from_mins(1),
            follows: 5 * second,
            lease: 15 * second,
            renew: 10 * second,
            retry: 2 * second,
            // This is less than the time between two kills, so that the other replica gets its share of plugins before
            // it dies.
            stability: 10 * second,
        }
    }

    /// All times are doubled, because other stories run in parallel.
    fn short() -> Self {
        let [second, milliseconds] = [Duration::from_secs(1), Duration::from_millis(1)];
        Self {
            webapps: 20,
            sets: 8,
            lasts: 20 * second,
            slow: 100 * milliseconds..=500 * milliseconds,
            pace: 100 * milliseconds,
            kill_every: 8 * second,
            swap_every: 10 * second,
            lags_for: 6 * second,
            outages: 1,
            goes_back: None,
            measures: false,
            settled: None,
            patience: Duration::from_mins(2),
            follows: Duration::from_mins(2),
            lease: 6 * second,
            renew: 4 * second,
            retry: second,
            stability: 3 * second,
            ..Self::full(Duration::ZERO)
        }
    }

    /// The scheduled faults, and how long after the beginning each one occurs.
    pub(crate) fn blows(&self) -> Vec<(Duration, Blow)> {
        let every = |period: Duration| (1..).map(move |number| period * number).take_while(|at| *at < self.lasts);
        let outages = (1..=self.outages).map(|number| (self.lasts * number / (self.outages + 1), Blow::Outage));
        let look = self.settled.map(|at| (at.min(self.lasts), Blow::Look));
        let swaps = every(self.swap_every).flat_map(|at| [(at, Blow::Swap), (at + self.lags_for, Blow::CatchUp)]);
        let mut blows: Vec<_> = every(self.kill_every)
            .map(|at| (at, Blow::Kill))
            .chain(swaps)
            .chain(outages)
            .chain(self.going_back())
            .chain(look)
            .collect();
        blows.sort_unstable();
        blows
    }

    /// The plugin and the version of each swap, in order: first the swaps in the weather, then those in the calm after
    /// it.
    pub(crate) fn versions(&self) -> Vec<(&'static str, Version)> {
        let all = self.blows().iter().filter(|(_, blow)| *blow == Blow::Swap).count() + SWAPS_IN_CALM;
        (0..all).map(|index| swapped_in(index, all)).collect()
    }

    /// The backup and the restore. Empty if the weather is too short for them.
    fn going_back(&self) -> Vec<(Duration, Blow)> {
        let middle = self.lasts / 2;
        let backed_up = self.goes_back.and_then(|age| middle.checked_sub(age));
        backed_up.map_or_else(Vec::new, |at| vec![(at, Blow::BackUp), (middle, Blow::Restore)])
    }
}

/// The plugin and the new version of swap number `index`, of `all` swaps. The plugins take turns, and the versions
/// after the weather are good.
fn swapped_in(index: usize, all: usize) -> (&'static str, Version) {
    let number = index / PLUGINS.len() + 1;
    let is_in_calm = index + SWAPS_IN_CALM >= all;
    let traps = number.is_multiple_of(SWAPS_TO_A_BAD_VERSION) && !is_in_calm;
    (PLUGINS[index % PLUGINS.len()], Version { number, traps })
}

#[test]
fn scheduled_faults_are_in_order_and_within_the_weather() {
    let seconds = Duration::from_secs;
    let blows = Form::full(seconds(120)).blows();
    let expected = [
        (20, Blow::BackUp),
        (30, Blow::Kill),
        (40, Blow::Outage),
        (50, Blow::Swap),
        (60, Blow::Kill),
        (60, Blow::Restore),
        (60, Blow::Look),
        (62, Blow::CatchUp),
        (80, Blow::Outage),
        (90, Blow::Kill),
        (100, Blow::Swap),
        (112, Blow::CatchUp),
    ];
    assert_eq!(blows, expected.map(|(at, blow)| (seconds(at), blow)));
    let short = Form::short().blows();
    assert!(!short.iter().any(|(_, blow)| matches!(blow, Blow::Look | Blow::BackUp | Blow::Restore)));
}

#[test]
fn some_versions_in_the_weather_are_bad_and_none_after_it() {
    let bad = |all: usize| (0..all).filter(|index| swapped_in(*index, all).1.traps).collect::<Vec<_>>();
    assert_eq!(bad(17), [4, 5, 10, 11]);
    assert_eq!(bad(9), [4]);
    assert_eq!(bad(8), [0; 0]);
}
