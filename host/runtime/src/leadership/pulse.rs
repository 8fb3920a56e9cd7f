//! Whether the host's own threads go on. Elections have a thread apart (ADR 19), which would renew the leases of a host
//! that does nothing any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windlass_core::clock::{Clock, Moment};

/// How often it beats.
pub(super) const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A host whose threads have done nothing for so long is not to keep what another replica could run.
const STILL_TIME_MAX: Duration = Duration::from_mins(1);

/// The last moment at which the host's threads were seen to go on.
#[derive(Debug)]
pub(super) struct Pulse(AtomicU64);

impl Pulse {
    pub(super) fn new(now: Moment) -> Self {
        Self(AtomicU64::new(milliseconds(now)))
    }

    /// Beats for ever, on the threads that this is polled on.
    pub(super) async fn beat(&self, clock: &dyn Clock) {
        loop {
            self.0.store(milliseconds(clock.now()), Ordering::Relaxed);
            clock.sleep_until(clock.now() + BEAT_INTERVAL).await;
        }
    }

    /// Whether it has not beaten for long.
    pub(super) fn is_still(&self, now: Moment) -> bool {
        let last = Duration::from_millis(self.0.load(Ordering::Relaxed));
        now.0.saturating_sub(last) > STILL_TIME_MAX
    }
}

fn milliseconds(moment: Moment) -> u64 {
    u64::try_from(moment.0.as_millis()).unwrap_or(u64::MAX)
}
