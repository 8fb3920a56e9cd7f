//! The real clocks behind `core`'s clock trait.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;
use windlass_core::clock::{Clock, Moment};

/// Tokio's clock, counted from its creation.
#[derive(Debug)]
pub(crate) struct SystemClock(Instant);

impl SystemClock {
    /// A clock that reads zero now.
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

/// A clock that also counts while the machine is suspended, as a lease does. It counts from its creation.
#[derive(Debug)]
pub(crate) struct BootClock(Duration);

impl BootClock {
    /// A clock that reads zero now.
    pub(crate) fn new() -> Self {
        Self(since_boot())
    }
}

/// The clock that leases use, which reads zero now. In a simulated world this is tokio's clock, because the machine's
/// would advance while simulated time stands still.
pub(crate) fn of_leases() -> Arc<dyn Clock> {
    if windlass_world::is_simulated() { Arc::new(SystemClock::new()) } else { Arc::new(BootClock::new()) }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const SINCE_BOOT: ClockId = ClockId::Boottime;
/// On other systems, such as macOS, the monotonic clock also counts while the machine is suspended.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SINCE_BOOT: ClockId = ClockId::Monotonic;

fn since_boot() -> Duration {
    // This cannot fail for a clock that the system has, and is never negative.
    Duration::try_from(clock_gettime(SINCE_BOOT)).unwrap_or_default()
}

impl Clock for BootClock {
    fn now(&self) -> Moment {
        Moment(since_boot().saturating_sub(self.0))
    }

    /// A suspension of the machine delays the wake-up by its length, so the caller checks the time on waking. Sleeps at
    /// most an hour.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let pause = moment.0.saturating_sub(self.now().0).min(Duration::from_hours(1));
        tokio::time::sleep(pause).boxed()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment(self.0.elapsed())
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let never = Duration::from_hours(24 * 365 * 30);
        let deadline = self.0.checked_add(moment.0).unwrap_or_else(|| self.0 + never);
        tokio::time::sleep_until(deadline).boxed()
    }
}
