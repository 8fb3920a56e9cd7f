//! The time of the world, for `core`.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;
use windlass_core::clock::{Clock, Moment};

/// Tokio's clock, counted from the moment of its making.
#[derive(Debug)]
pub(crate) struct SystemClock(Instant);

impl SystemClock {
    /// A clock that reads zero now.
    pub(crate) fn new() -> Self {
        Self(Instant::now())
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
