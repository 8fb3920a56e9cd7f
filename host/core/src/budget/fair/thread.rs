//! Yields a thread to other tasks that are ready on it.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// How long a call's own host work may run before it yields its thread. Nothing interrupts host work, and a worker
/// whose keys, permits and answers are always ready would never yield.
pub const LEAVES_THREAD_AFTER: Duration = Duration::from_millis(1);

/// Completes after the tasks that were ready on this thread have run.
///
/// tokio's `yield_now` does not fit. It makes the task wait until the scheduler has polled for I/O, and then runs the
/// yielding task first. On threads that poll for I/O after few tasks, such as those that run guests (ADR 19), a task
/// that yields in a loop leaves little time to other tasks.
pub async fn leave_thread() {
    let mut has_left = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_left, true) {
            return Poll::Ready(());
        }
        // A task that wakes itself while it is polled goes to the end of its thread's queue.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
