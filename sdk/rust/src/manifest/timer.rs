//! A timer as the primary of a controller.

use serde::Serialize;

/// A timer that calls the plugin at certain times, in place of objects. It becomes the primary of a controller:
///
/// ```
/// use windlass_sdk::manifest::{Controller, Timer};
///
/// let nightly = Controller::new("nightly", Timer::cron("0 3 * * *").time_zone("Europe/Berlin"));
/// let often = Controller::new("often", Timer::every_ms(300_000));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Timer {
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<MissedTimes>,
}

/// The treatment of due times at which no call could be made, such as while the host was down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MissedTimes {
    /// One call as soon as it can be made, for the last of these times. The default.
    Once,
    /// No call, if it could begin only a minute late or later.
    Skip,
}

impl Timer {
    /// A timer that is due when the local time matches a cron expression, as in Kubernetes' `CronJob`: minute, hour,
    /// day of the month, month, and day of the week.
    pub fn cron(expression: impl Into<String>) -> Self {
        Self { cron: Some(expression.into()), time_zone: None, interval_ms: None, jitter_ms: None, missed: None }
    }

    /// A timer that is due once in each interval, at least a second long. The first call comes at once.
    pub fn every_ms(interval: u32) -> Self {
        Self { cron: None, time_zone: None, interval_ms: Some(interval), jitter_ms: None, missed: None }
    }

    /// The time zone of the cron expression by its IANA name, such as `Europe/Berlin`. UTC otherwise.
    pub fn time_zone(mut self, name: impl Into<String>) -> Self {
        self.time_zone = Some(name.into());
        self
    }

    /// Makes each call at a random time up to this long after its due time.
    pub fn jitter_ms(mut self, longest: u32) -> Self {
        self.jitter_ms = Some(longest);
        self
    }

    /// Sets what happens to due times at which no call could be made.
    pub fn missed(mut self, missed: MissedTimes) -> Self {
        self.missed = Some(missed);
        self
    }
}
