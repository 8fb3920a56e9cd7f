//! The time of day that the host sees. It advances with simulated time and can be set.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;
use windlass_apiserver::ClockLeap;

/// The clock of the host's node. All clones are the same clock. Timers do not use it.
#[derive(Clone)]
pub(super) struct HostClock(Rc<Showing>);

struct Showing {
    begun: Instant,
    /// The time that the clock showed at its start, since 1970.
    time: Duration,
    looks: Cell<u64>,
    forward: Cell<Duration>,
    back: Cell<Duration>,
}

impl HostClock {
    /// Starts a clock that shows `time`.
    pub(super) fn start(time: Duration) -> HostClock {
        let (forward, back) = (Cell::default(), Cell::default());
        HostClock(Rc::new(Showing { begun: Instant::now(), time, looks: Cell::new(0), forward, back }))
    }

    /// The time since 1970. Simulated time does not advance during computations, so each reading advances the clock a
    /// little.
    pub(super) fn now(&self) -> Duration {
        let Showing { begun, time, looks, forward, back } = &*self.0;
        looks.set(looks.get() + 1);
        let passed = begun.elapsed() + Duration::from_micros(looks.get());
        time.saturating_add(passed).saturating_add(forward.get()).saturating_sub(back.get())
    }

    /// Sets the clock forward or back.
    pub(super) fn set(&self, ClockLeap { by, back }: ClockLeap) {
        let sum = if back { &self.0.back } else { &self.0.forward };
        sum.set(sum.get().saturating_add(by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_goes_on_from_where_it_was_set() {
        let hours = |count| Duration::from_hours(count);
        let clock = HostClock::start(hours(100));
        clock.set(ClockLeap { by: hours(6), back: false });
        tokio::time::advance(hours(1)).await;
        assert_eq!(clock.now(), hours(107) + Duration::from_micros(1));
        clock.clone().set(ClockLeap { by: hours(8), back: true });
        assert_eq!(clock.now(), hours(99) + Duration::from_micros(2));
    }
}
