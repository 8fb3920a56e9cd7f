//! Detects whether the host's worker threads still run. Elections have a separate thread (ADR 19), which would
//! otherwise go on renewing the leases of a host that is stuck.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windlass_core::clock::{Clock, Moment};

/// Time between two beats.
pub(super) const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A host whose threads have not run for this long must not keep leases that another replica could use.
const STILL_TIME_MAX: Duration = Duration::from_mins(1);

/// The last moment at which the host's threads were seen running.
#[derive(Debug)]
pub(super) struct Pulse(AtomicU64);

impl Pulse {
    pub(super) fn new(now: Moment) -> Self {
        Self(AtomicU64::new(milliseconds(now)))
    }

    /// Beats for ever, on the threads that poll this future.
    pub(super) async fn beat(&self, clock: &dyn Clock) {
        loop {
            self.0.store(milliseconds(clock.now()), Ordering::Relaxed);
            clock.sleep_until(clock.now() + BEAT_INTERVAL).await;
        }
    }

    /// Whether the last beat was too long ago.
    pub(super) fn is_still(&self, now: Moment) -> bool {
        let last = Duration::from_millis(self.0.load(Ordering::Relaxed));
        now.0.saturating_sub(last) > STILL_TIME_MAX
    }
}

fn milliseconds(moment: Moment) -> u64 {
    u64::try_from(moment.0.as_millis()).unwrap_or(u64::MAX)
}
