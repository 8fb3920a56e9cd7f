//! Tokio's clock, which advances by itself in a paused test.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::Instant;
use windlass_core::clock::{Clock, Moment};

pub(crate) struct TokioClock(Instant);

impl TokioClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        Moment(self.0.elapsed())
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        tokio::time::sleep_until(self.0 + moment.0.min(Duration::from_hours(24))).boxed()
    }
}
