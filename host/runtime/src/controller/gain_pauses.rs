//! The pauses between the rounds of a controller that end because it can watch more kinds.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::retry::{Retries, RetryPolicy};

use crate::supervise::jittered_policy;

/// How long a round goes on after it could watch one more kind.
const GAIN_BACKOFF: RetryPolicy = jittered_policy(Duration::from_secs(5), Duration::from_mins(5));
/// After this long without another kind, the pauses start from the shortest.
const GAIN_BACKOFF_RESET: Duration = Duration::from_mins(10);

/// The pauses between the rounds of a controller that end because it can watch more kinds.
#[derive(Debug)]
pub(super) struct GainPauses(Mutex<LastGain>);

#[derive(Debug)]
struct LastGain {
    retries: Retries,
    /// The end of the last pause.
    until: Option<Instant>,
}

impl Default for GainPauses {
    fn default() -> Self {
        Self(Mutex::new(LastGain { retries: GAIN_BACKOFF.begin(), until: None }))
    }
}

impl GainPauses {
    /// The pause before the round ends for a kind that can be watched from now on.
    pub(super) fn next(&self) -> Duration {
        let (mut last, now) = (self.0.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        if last.until.is_none_or(|until| now >= until + GAIN_BACKOFF_RESET) {
            last.retries.reset();
        }
        let pause = last.retries.pause(windlass_world::random());
        last.until = Some(now + pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn kinds_in_quick_succession_end_rounds_ever_more_rarely() {
        let pauses = GainPauses::default();
        let mut planned = Duration::from_secs(5);
        for _ in 0..6 {
            let pause = pauses.next();
            assert!(planned <= pause && pause <= 2 * planned, "{pause:?}");
            tokio::time::advance(pause).await;
            planned *= 2;
        }
        tokio::time::advance(GAIN_BACKOFF_RESET).await;
        assert!(pauses.next() <= Duration::from_secs(10), "another kind comes later");
    }
}
