//! Time, passed in. `core` never reads a clock.

use std::time::Duration;

use futures::future::BoxFuture;

/// A point on a clock that never goes back, counted from an arbitrary start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub Duration);

impl std::ops::Add<Duration> for Moment {
    type Output = Self;

    /// Saturates: a moment too far to represent is as good as never.
    fn add(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay))
    }
}

/// The time of the world or of a test.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Moment;

    /// Completes when `now` has reached `moment`, at once if it has already.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;
}
