//! A queue whose time a test advances.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::clock::{Clock, Moment};
use windlass_core::queue::{ItemExponential, Queue};

/// A clock that a test advances. Its timers never fire by themselves, so tests poll.
#[derive(Default)]
pub(crate) struct ManualClock(Mutex<Moment>);

impl ManualClock {
    pub(crate) fn advance(&self, by: Duration) {
        let mut now = self.0.lock().expect("not poisoned");
        *now = *now + by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        *self.0.lock().expect("not poisoned")
    }

    fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
        futures::future::pending().boxed()
    }
}

/// An empty queue and its clock.
pub(crate) fn manual() -> (Queue<u8>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Queue::new(clock.clone(), ItemExponential::default()), clock)
}

/// The key that a worker gets without waiting.
pub(crate) fn poll(queue: &Queue<u8>) -> Poll<Option<u8>> {
    queue.get().now_or_never().map_or(Poll::Pending, Poll::Ready)
}
