//! When a timer is due after a given time, and which due time it missed last.
//!
//! A cron expression is due at each instant whose local time matches it, as in Kubernetes' `CronJob`. So a local time
//! that does not exist, because clocks are set forward, is not due; and one that exists twice, because clocks are set
//! back, is due twice.

use std::time::Duration;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan as _};

use super::cron::CronExpression;

/// A name that is not in the time-zone database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a time zone of the IANA database, such as Europe/Berlin")]
pub struct ZoneError;

/// The time zone with this name, from the database in this program. All replicas of one version have the same rules,
/// whatever their machines have installed.
pub fn time_zone(name: &str) -> Result<TimeZone, ZoneError> {
    TimeZoneDatabase::bundled().get(name).map_err(|_| ZoneError)
}

/// The names of all time zones.
#[must_use]
pub fn time_zone_names() -> Vec<String> {
    TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect()
}

/// The rule by which a timer is due.
#[derive(Clone, Debug, PartialEq)]
pub enum TimerRule {
    /// At the local times of a cron expression.
    Cron(CronExpression, TimeZone),
    /// Once in each interval, at least a millisecond long.
    Interval(Duration),
}

impl TimerRule {
    /// The due time that a timer should handle next, seen at `now`: the latest one that was missed since `last`, or
    /// else the next one. `last` is the last due time that was handled. A cron expression is due after `begun` only; an
    /// interval without a `last` is due at once.
    ///
    /// `None` if the timer is never due again.
    #[must_use]
    pub fn next(&self, last: Option<Duration>, begun: Duration, now: Duration) -> Option<Duration> {
        match self {
            Self::Cron(expression, zone) => {
                let since = last.map_or(begun, |last| last.max(begun));
                let (since, now) = (timestamp(since)?, timestamp(now)?);
                let due = last_in(expression, zone, since, now).or_else(|| first_after(expression, zone, since));
                due.and_then(since_1970)
            }
            Self::Interval(interval) => Some(match last {
                None => now,
                Some(last) => {
                    let last = last.min(now);
                    let millis = interval.as_millis().max(1);
                    let missed = now.saturating_sub(last).as_millis() / millis;
                    let intervals = u32::try_from(missed.max(1)).unwrap_or(u32::MAX);
                    last.saturating_add(interval.saturating_mul(intervals))
                }
            }),
        }
    }
}

/// The first instant after `after` whose local time matches.
fn first_after(expression: &CronExpression, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut from = next_second(after)?;
    loop {
        // Between two transitions of the zone, local time differs from UTC by a constant.
        let offset = zone.to_offset(from);
        let found = expression.first_from(offset.to_datetime(from))?;
        let found = offset.to_timestamp(found).ok()?;
        let transition = zone.following(from).next().map(|transition| transition.timestamp());
        match transition.filter(|transition| *transition <= found) {
            Some(transition) => from = transition,
            None => return Some(found),
        }
    }
}

/// The last instant up to `until`, and after `after`, whose local time matches.
fn last_in(expression: &CronExpression, zone: &TimeZone, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
    let mut to = until;
    while to > after {
        let offset = zone.to_offset(to);
        let found = expression.last_to(offset.to_datetime(to)).and_then(|found| offset.to_timestamp(found).ok());
        let transition = zone.preceding(next_second(to)?).next().map(|transition| transition.timestamp());
        match (found, transition) {
            (Some(found), Some(transition)) if found < transition => to = transition.checked_sub(1.second()).ok()?,
            (None, Some(transition)) => to = transition.checked_sub(1.second()).ok()?,
            (found, _) => return found.filter(|found| *found > after),
        }
    }
    None
}

/// The next whole second.
fn next_second(time: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(time.as_second().checked_add(1)?).ok()
}

fn timestamp(since_1970: Duration) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(since_1970.as_millis()).ok()?).ok()
}

fn since_1970(time: Timestamp) -> Option<Duration> {
    Some(Duration::from_millis(u64::try_from(time.as_millisecond()).ok()?))
}
