//! The times at which a timer is due: a cron expression in a time zone, or an interval.
//!
//! Pure. Callers pass the time in. Times are durations since 1970, as clocks show them.

mod cron;
mod progress;
mod schedule;

pub use self::cron::{CronError, CronExpression};
pub use self::progress::{DueTime, KeptProgress, TimerProgress, TimerStep};
pub use self::schedule::{TimerRule, ZoneError, time_zone, time_zone_names};

/// The treatment of due times at which no call could be made, such as during a restart or a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MissedTimes {
    /// One call is made as soon as it can, for the last of the missed times.
    #[default]
    Once,
    /// No call is made. The timer goes on with the next due time.
    Skip,
}
