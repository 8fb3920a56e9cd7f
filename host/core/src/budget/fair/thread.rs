//! Leaving a thread to others that have something to do on it.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// Work in a call's name leaves its thread to others after so long in one go: nothing interrupts the host's own work, and a
/// worker whose keys, permits and calls are all there at once would never leave the thread.
pub const LEAVES_THREAD_AFTER: Duration = Duration::from_millis(1);

/// Completes when the tasks that were ready on this thread have had their turn.
///
/// Not as tokio's `yield_now`, which has the task wait until the scheduler has looked for news, and then takes it
/// first. Where that is looked for after few polls, as on the threads that run guests (ADR 19), a task that yields so
/// again and again leaves the thread to few others.
pub async fn leave_thread() {
    let mut has_left = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_left, true) {
            return Poll::Ready(());
        }
        // A task that is woken while it is polled goes to the end of its thread's queue.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
