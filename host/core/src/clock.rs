//! Time is passed in: `core` never reads a clock.

use std::time::Duration;

use futures::future::BoxFuture;

/// A point on a monotonic clock, counted from an arbitrary start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub Duration);

impl std::ops::Add<Duration> for Moment {
    type Output = Self;

    /// Saturates: a moment too far away to represent means never.
    fn add(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay))
    }
}

/// Real time, or simulated time in a test.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Moment;

    /// Completes when `now` has reached `moment`, at once if `moment` has passed.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;
}
