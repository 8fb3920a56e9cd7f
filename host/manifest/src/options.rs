//! Checks that the options of a controller make sense.

use super::validate::Problems;
use super::{LimiterKind, Options};

/// The longest duration that the interface can express: 2³¹ − 1 ms.
const DURATION_MS_MAX: u32 = i32::MAX as u32;
/// The longest deadline that a manifest may set for a call. Until then, the call can occupy a worker.
const DEADLINE_MS_MAX: u32 = 600_000;
const WORKERS_MAX: u32 = 64;
const RETRY_RATE_MAX: u32 = 100_000;

impl Options {
    pub(super) fn check(&self, path: &str, problems: &mut Problems) {
        let mut range = |field: &str, value: u32, least: u32, most: u32| {
            if !(least..=most).contains(&value) {
                problems.add(format_args!("{path}.{field}"), format!("{value} is not between {least} and {most}"));
            }
        };
        range("workers", self.workers, 1, WORKERS_MAX);
        range("maxRetries", self.max_retries, 0, 1000);
        range("resyncMs", self.resync_ms, 1000, DURATION_MS_MAX);
        range("deadlineMs", self.deadline_ms, 1, DEADLINE_MS_MAX);
        let backoff = &self.backoff;
        range("backoff.baseMs", backoff.base_ms(), 1, DURATION_MS_MAX);
        range("backoff.maxMs", backoff.max_ms(), backoff.base_ms().min(DURATION_MS_MAX), DURATION_MS_MAX);
        range("backoff.perSecond", backoff.rate().0, 1, RETRY_RATE_MAX);
        range("backoff.burst", backoff.rate().1, 1, RETRY_RATE_MAX);
        let exponential = [("baseMs", backoff.base_ms), ("maxMs", backoff.max_ms)];
        let bucket = [("perSecond", backoff.per_second), ("burst", backoff.burst)];
        let (idle, others) = match backoff.limiter {
            LimiterKind::Exponential => (&bucket[..], "tokenBucket or maxOf"),
            LimiterKind::TokenBucket => (&exponential[..], "exponential or maxOf"),
            LimiterKind::MaxOf => (&[][..], ""),
        };
        for (field, _) in idle.iter().filter(|(_, value)| value.is_some()) {
            problems
                .add(format_args!("{path}.backoff.{field}"), format!("has no effect with this limiter: use {others}"));
        }
    }
}
