//! A clock that shows real time, without timers.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use windlass_core::clock::{Clock, Moment};

pub(crate) struct WallClock(Instant);

impl WallClock {
    #[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for WallClock {
    fn now(&self) -> Moment {
        Moment(self.0.elapsed())
    }

    fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
        futures::future::pending().boxed()
    }
}
