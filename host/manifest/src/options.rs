//! Whether a controller's options make sense.

use super::validate::Problems;
use super::{LimiterKind, Options};

/// The longest duration of the interface: 2³¹ − 1 ms.
const MAX_MS: u32 = i32::MAX as u32;
/// The longest that one call may hold a worker.
const MAX_DEADLINE_MS: u32 = 600_000;
const MAX_WORKERS: u32 = 64;
const MAX_RETRY_RATE: u32 = 100_000;

impl Options {
    pub(super) fn check(&self, path: &str, problems: &mut Problems) {
        let mut range = |field: &str, value: u32, least: u32, most: u32| {
            if !(least..=most).contains(&value) {
                problems.add(format_args!("{path}.{field}"), format!("{value} is not between {least} and {most}"));
            }
        };
        range("workers", self.workers, 1, MAX_WORKERS);
        range("maxRetries", self.max_retries, 0, 1000);
        range("resyncMs", self.resync_ms, 1000, MAX_MS);
        range("deadlineMs", self.deadline_ms, 1, MAX_DEADLINE_MS);
        let backoff = &self.backoff;
        range("backoff.baseMs", backoff.base_ms(), 1, MAX_MS);
        range("backoff.maxMs", backoff.max_ms(), backoff.base_ms().min(MAX_MS), MAX_MS);
        range("backoff.perSecond", backoff.rate().0, 1, MAX_RETRY_RATE);
        range("backoff.burst", backoff.rate().1, 1, MAX_RETRY_RATE);
        let exponential = [("baseMs", backoff.base_ms), ("maxMs", backoff.max_ms)];
        let bucket = [("perSecond", backoff.per_second), ("burst", backoff.burst)];
        let (idle, others) = match backoff.limiter {
            LimiterKind::Exponential => (&bucket[..], "tokenBucket or maxOf"),
            LimiterKind::TokenBucket => (&exponential[..], "exponential or maxOf"),
            LimiterKind::MaxOf => (&[][..], ""),
        };
        for (field, _) in idle.iter().filter(|(_, said)| said.is_some()) {
            problems.add(format_args!("{path}.backoff.{field}"), format!("has no effect without the limiter {others}"));
        }
    }
}
