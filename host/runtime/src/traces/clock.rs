//! The clock of spans.

use std::time::Duration;

use tokio::time::Instant;

/// A clock that advances steadily from the time of day at its start, even if the machine's clock is set meanwhile. So
/// no span ends before it began, or seems to take an hour because the machine's clock was set forward. The deviation
/// from the machine's clock is added when spans are exported.
#[derive(Debug)]
pub(super) struct SpanClock {
    base: Instant,
    /// The time of day at `base`, in nanoseconds since 1970.
    at_base: u64,
}

impl Default for SpanClock {
    fn default() -> Self {
        Self { base: Instant::now(), at_base: nanoseconds(windlass_world::now()) }
    }
}

impl SpanClock {
    /// The current time by this clock, in nanoseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.at_base.saturating_add(nanoseconds(self.base.elapsed()))
    }

    /// The nanoseconds by which the machine's clock is ahead of this clock now.
    pub(super) fn correction(&self) -> i64 {
        let (machine, own) = (i128::from(nanoseconds(windlass_world::now())), i128::from(self.now()));
        i64::try_from(machine - own).unwrap_or_default()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
