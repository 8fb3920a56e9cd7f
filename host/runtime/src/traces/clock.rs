//! The clock of spans.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Tells the time of day, and goes on evenly in between: no span ends before it began because the machine's clock was set.
#[derive(Debug)]
pub(super) struct SpanClock {
    base: Instant,
    /// The time of day at `base`, in nanoseconds since 1970.
    at_base: AtomicU64,
}

impl Default for SpanClock {
    fn default() -> Self {
        let clock = Self { base: Instant::now(), at_base: AtomicU64::new(0) };
        clock.set();
        clock
    }
}

impl SpanClock {
    /// Takes the machine's time of day. To be called from time to time, as the two drift apart.
    pub(super) fn set(&self) {
        let at_base = nanoseconds(windlass_world::now()).saturating_sub(nanoseconds(self.base.elapsed()));
        self.at_base.store(at_base, Ordering::Relaxed);
    }

    /// The present, in nanoseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.at_base.load(Ordering::Relaxed).saturating_add(nanoseconds(self.base.elapsed()))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
