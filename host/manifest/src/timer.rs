//! A timer as the primary of a controller: when it is due, and the kind of the made-up object that its calls are about.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_core::cache::mapping::Mapping;
use windlass_core::object::ObjectKind;
use windlass_core::timer::{CronExpression, MissedTimes, TimerRule, time_zone, time_zone_names};

use super::validate::{Problems, quoted};
use super::{Controller, Watch, nearest};

/// The kind of the object that a timer's calls are about. No API server serves it.
const KIND: (&str, &str) = ("windlass.dev/v1", "Timer");
/// The time zone of a cron expression that names none.
const TIME_ZONE_DEFAULT: &str = "UTC";
/// The shortest interval. What must happen more often should be caused by events.
const INTERVAL_MS_MIN: u32 = 1000;
/// The longest interval and jitter: the longest duration that the interface can express.
const TIMER_MS_MAX: u32 = i32::MAX as u32;

/// A timer that takes the place of a watch of primaries. It has a cron expression or an interval.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrimaryTimer {
    /// When the timer is due, in local time, as in Kubernetes' `CronJob`.
    pub cron: Option<String>,
    /// The IANA name of the time zone of `cron`. UTC if left out.
    pub time_zone: Option<String>,
    /// The time from one due time to the next, in milliseconds.
    pub interval_ms: Option<u32>,
    /// The longest random time by which a call comes later than its due time, in milliseconds.
    #[serde(default)]
    pub jitter_ms: u32,
    /// The treatment of due times at which no call could be made.
    #[serde(default)]
    pub missed: MissedTimes,
}

impl PrimaryTimer {
    /// When the timer is due.
    ///
    /// # Panics
    ///
    /// If the timer is not part of a valid manifest.
    #[must_use]
    pub fn rule(&self) -> TimerRule {
        match (&self.cron, self.interval_ms) {
            (Some(cron), _) => {
                let expression = cron.parse().expect("the expression of a valid manifest");
                TimerRule::Cron(expression, time_zone(self.zone()).expect("the time zone of a valid manifest"))
            }
            (None, Some(interval)) => TimerRule::Interval(Duration::from_millis(interval.into())),
            (None, None) => unreachable!("a valid manifest has one of them"),
        }
    }

    /// The longest random time by which a call comes later than its due time.
    #[must_use]
    pub fn jitter(&self) -> Duration {
        Duration::from_millis(self.jitter_ms.into())
    }

    /// The timer in words, such as `cron "0 3 * * *" in Europe/Berlin`.
    #[must_use]
    pub fn in_words(&self) -> String {
        match (&self.cron, self.interval_ms) {
            (Some(cron), _) => format!("cron {cron:?} in {}", self.zone()),
            (None, interval) => format!("every {:?}", Duration::from_millis(interval.unwrap_or_default().into())),
        }
    }

    /// The fields of the timer that are set, as the `spec` of its object.
    #[must_use]
    pub fn spec(&self) -> Map<String, Value> {
        let mut spec = Map::new();
        if let Some(cron) = &self.cron {
            spec.insert("cron".to_owned(), cron.as_str().into());
            spec.insert("timeZone".to_owned(), self.zone().into());
        }
        if let Some(interval) = self.interval_ms {
            spec.insert("intervalMs".to_owned(), interval.into());
        }
        spec
    }

    fn zone(&self) -> &str {
        self.time_zone.as_deref().unwrap_or(TIME_ZONE_DEFAULT)
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        match (&self.cron, self.interval_ms) {
            (Some(cron), None) => {
                if let Err(error) = cron.parse::<CronExpression>() {
                    problems.add(format_args!("{path}.cron"), format!("{} {error}", quoted(cron)));
                }
            }
            (None, Some(interval)) => {
                if !(INTERVAL_MS_MIN..=TIMER_MS_MAX).contains(&interval) {
                    let what = format!("{interval} is not between {INTERVAL_MS_MIN} and {TIMER_MS_MAX}");
                    problems.add(format_args!("{path}.intervalMs"), what);
                } else if self.jitter_ms >= interval {
                    let what = "must be shorter than the interval, or calls for one due time would come after the next";
                    problems.add(format_args!("{path}.jitterMs"), what);
                }
                if self.time_zone.is_some() {
                    let what = "has no effect on an interval: use it with `cron`";
                    problems.add(format_args!("{path}.timeZone"), what);
                }
            }
            (Some(_), Some(_)) => problems.add(path, "has both `cron` and `intervalMs`: choose one of them"),
            (None, None) => problems.add(path, "needs `cron` or `intervalMs`, which says when it is due"),
        }
        if self.jitter_ms > TIMER_MS_MAX {
            let what = format!("{} is more than {TIMER_MS_MAX}", self.jitter_ms);
            problems.add(format_args!("{path}.jitterMs"), what);
        }
        if let Some(name) = &self.time_zone
            && let Err(error) = time_zone(name)
        {
            let names = time_zone_names();
            let hint = nearest(name, names.iter().map(String::as_str)).map(|hint| format!("; {hint}"));
            let what = format!("{} {error}{}", quoted(name), hint.unwrap_or_default());
            problems.add(format_args!("{path}.timeZone"), what);
        }
    }
}

impl Watch {
    /// The kind of the object that a timer's calls are about.
    pub(super) fn timer_kind() -> ObjectKind {
        ObjectKind::new(KIND.0, KIND.1)
    }
}

impl Controller {
    /// Checks a controller whose primary is `timer`.
    pub(super) fn check_timer(&self, timer: &PrimaryTimer, path: &str, problems: &mut Problems) {
        timer.check(&format!("{path}.primary.timer"), problems);
        if self.primary != Watch::of_timer(timer.clone()) {
            let what = "takes the place of a watch: leave out all other fields of the primary";
            problems.add(format_args!("{path}.primary.timer"), what);
        }
        if !self.owns.is_empty() {
            let what = "must be empty if the primary is a timer: it is no object in the cluster, so it can own nothing; \
                        use `watches`";
            problems.add(format_args!("{path}.owns"), what);
        }
        if self.options.finalizer {
            let what = "cannot be kept on a timer, which is no object in the cluster";
            problems.add(format_args!("{path}.options.finalizer"), what);
        }
        if !self.hooks.is_empty() {
            let what = "must be empty if the primary is a timer, which runs only when it is due: give the hooks to a \
                        controller of objects";
            problems.add(format_args!("{path}.hooks"), what);
        }
        for (index, watch) in self.watches.iter().enumerate() {
            if !matches!(watch.mapping, None | Some(Mapping::None | Mapping::All)) {
                let what = "must be `none`, or `all` if changes call the plugin too: a timer is the only primary of \
                            its controller";
                problems.add(format_args!("{path}.watches[{index}].mapping"), what);
            }
        }
    }
}
