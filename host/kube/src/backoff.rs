//! The wait before the next attempt to list or watch.

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::retry::{Retries, RetryPolicy};

/// The wait after a first failure. This and the next two values are those of client-go's reflectors
/// (`tools/cache/reflector.go`, `NewReflectorWithOptions`).
const RELIST_BACKOFF_MIN: Duration = Duration::from_millis(800);
const RELIST_BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Each wait is shortened at random, by up to a half, so that many informers do not retry at the same time.
const RELIST_BACKOFF: RetryPolicy = RetryPolicy::doubling(RELIST_BACKOFF_MIN, RELIST_BACKOFF_MAX).jitter(0.5, 1.0);
/// After this time without a failure, the next failure counts as the first.
const RELIST_BACKOFF_RESET: Duration = Duration::from_mins(2);

/// The waits after consecutive failures.
#[derive(Debug)]
pub(crate) struct Backoff {
    retries: Retries,
    last: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { retries: RELIST_BACKOFF.begin(), last: None }
    }
}

impl Backoff {
    /// The wait after a failure at `now`.
    pub(crate) fn next(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.duration_since(last) > RELIST_BACKOFF_RESET) {
            self.retries.reset();
        }
        let delay = self.retries.pause(windlass_world::random());
        self.last = Some(now + delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_backoff_grows_to_its_bound_and_is_reset_after_a_healthy_time() {
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        for expected in [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let delay = backoff.next(now);
            let whole = Duration::from_millis(expected);
            assert!(delay <= whole && delay >= whole / 2, "{delay:?} of {whole:?}");
            now += delay;
        }
        let two_minutes = Duration::from_mins(2);
        let delay = backoff.next(now + two_minutes);
        assert!(delay >= Duration::from_secs(15), "{delay:?}: two minutes are not enough");
        now += two_minutes + delay;
        assert!(backoff.next(now + two_minutes + Duration::from_millis(1)) <= Duration::from_millis(800));
    }
}
