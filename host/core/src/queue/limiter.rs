//! How long a failing key backs off (client-go: `util/workqueue/default_rate_limiters.go`), and how often it failed.
//!
//! Unlike client-go's, it tells failures that count against a key from those that only lengthen its backoff: a conflict
//! says nothing about the plugin, and must not use up the key's attempts.

use std::collections::HashMap;
use std::time::Duration;

use super::Key;
use crate::outcome::Retry;

/// Doubles a key's delay with each of its failures: `base`·2ⁿ, at most `max`.
#[derive(Clone, Debug)]
pub struct ItemExponential<K> {
    base: Duration,
    max: Duration,
    failures: HashMap<K, Failures>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    all: u32,
    counted: u32,
}

impl<K: Key> ItemExponential<K> {
    /// A limiter without failures.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: HashMap::new() }
    }

    /// The delay that `key` has earned; notes one more failure.
    pub fn when(&mut self, key: &K, retry: Retry) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        let factor = 2_u32.checked_pow(failures.all).unwrap_or(u32::MAX);
        failures.all = failures.all.saturating_add(1);
        if retry == Retry::Counted {
            failures.counted = failures.counted.saturating_add(1);
        }
        self.base.saturating_mul(factor).min(self.max)
    }

    /// How many failures count against `key`.
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.failures.get(key).map_or(0, |failures| failures.counted)
    }

    /// Forgets the failures of `key`.
    pub fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }
}

/// client-go's defaults: 5 ms, 1000 s.
impl<K: Key> Default for ItemExponential<K> {
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}
