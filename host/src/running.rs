//! A controller at work: its tasks, their panics, and their end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::dispatch::Dispatch;
use crate::supervise::{Panics, supervise};

/// How long a queue may take to drain when the host stops (§3.9).
const DRAIN: Duration = Duration::from_secs(5);
/// How long calls that run, and their writes, may take to end after that.
const LAST_CALLS: Duration = Duration::from_secs(20);

/// How a controller ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// No call was cut.
    Clean,
    /// Calls ran longer than the host waits.
    Cut,
    /// The controller cannot run under this host's settings, which the log has explained.
    Impossible,
}

/// A controller at work. When it is dropped, its tasks end as soon as they can.
pub(crate) struct Running {
    pub(crate) dispatch: Arc<Dispatch>,
    feeders: TaskTracker,
    workers: TaskTracker,
}

impl Running {
    /// No task runs yet. `workers` tracks the workers, those of former rounds too.
    pub(crate) fn new(dispatch: Arc<Dispatch>, workers: TaskTracker) -> Self {
        Self { dispatch, feeders: tracker(), workers }
    }

    /// Starts a task that ends as soon as no more keys are to be added.
    pub(crate) fn feed<F, Fut>(&self, name: &'static str, task: F)
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (stop, panics) = (self.dispatch.stop.clone(), self.dispatch.panics.clone());
        self.feeders.spawn(async move {
            stop.run_until_cancelled(supervise(name, &panics, &stop, task)).await;
        });
    }

    /// Starts a worker.
    pub(crate) fn work(&self) {
        let dispatch = self.dispatch.clone();
        self.workers.spawn(async move {
            // Not until `stop`, but until the queue has drained.
            supervise("worker", &dispatch.panics, &CancellationToken::new(), || dispatch.work()).await;
        });
    }

    /// Ends with the host: what is queued runs if it can (§3.9).
    pub(crate) async fn end(self) -> End {
        let Dispatch { queue, controller, .. } = &*self.dispatch;
        self.no_more_keys().await;
        let drain = if self.dispatch.outages.is_over() { DRAIN } else { Duration::ZERO };
        if timeout(drain, queue.shut_down_with_drain()).await.is_err() {
            self.dispatch.last_call.cancel();
            let dropped = queue.drop_ready();
            tracing::info!(
                %controller, dropped,
                "not drained within {drain:?}; calls that run may end, and the next start queues every key again"
            );
        }
        let end = last_calls(&self.workers).await;
        if end == End::Cut {
            tracing::error!(%controller, "calls still run after {LAST_CALLS:?} and are cut");
        }
        end
    }

    /// Ends without the host: the keys of a kind that has gone are nobody's any more.
    pub(crate) async fn abandon(self) {
        self.dispatch.last_call.cancel();
        self.no_more_keys().await;
        self.dispatch.queue.shut_down();
        let _ = self.dispatch.queue.drop_ready();
        self.workers.wait().await;
    }

    async fn no_more_keys(&self) {
        self.dispatch.stop.cancel();
        self.feeders.wait().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After an orderly end all of this has been done; after a panic it has not.
        self.dispatch.stop.cancel();
        self.dispatch.last_call.cancel();
        self.dispatch.queue.shut_down();
        let _ = self.dispatch.queue.drop_ready();
    }
}

/// A tracker that may be waited for at any time; it takes tasks all the same.
pub(crate) fn tracker() -> TaskTracker {
    let tracker = TaskTracker::new();
    tracker.close();
    tracker
}

/// Runs `rounds` until it returns. After a panic it starts again, and not before the `workers` that it had have ended: no
/// key may be with two of them.
pub(crate) async fn kept_up<F, Fut>(panics: &Panics, stop: &CancellationToken, workers: &TaskTracker, rounds: F) -> End
where
    F: Fn() -> Fut,
    Fut: Future<Output = End>,
{
    let attempt = async || match stop.run_until_cancelled(workers.wait()).await {
        Some(()) => rounds().await,
        None => last_calls(workers).await,
    };
    match supervise("controller", panics, stop, attempt).await {
        Some(end) => end,
        // Stopped after a panic, before it could start again.
        None => last_calls(workers).await,
    }
}

/// Waits for the calls that run, as long as the host does.
pub(crate) async fn last_calls(workers: &TaskTracker) -> End {
    if timeout(LAST_CALLS, workers.wait()).await.is_ok() { End::Clean } else { End::Cut }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// What is true of workers that a controller's panic has left behind.
    #[tokio::test(start_paused = true)]
    async fn a_controller_that_panics_starts_again_when_its_former_workers_have_ended() {
        let (panics, stop, workers) = (Panics::default(), CancellationToken::new(), tracker());
        let (working, rounds) = (Arc::new(AtomicU32::new(0)), AtomicU32::new(0));
        let end = kept_up(&panics, &stop, &workers, async || {
            assert_eq!(working.load(Ordering::Relaxed), 0, "a worker of the last round still has its key");
            let round = rounds.fetch_add(1, Ordering::Relaxed);
            let working = working.clone();
            workers.spawn(async move {
                working.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_mins(1)).await;
                working.fetch_sub(1, Ordering::Relaxed);
            });
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(round == 2, "not yet");
            End::Clean
        })
        .await;
        assert_eq!((end, panics.of("controller")), (End::Clean, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_is_stopped_after_a_panic_waits_for_its_calls() {
        let (panics, workers) = (Panics::default(), tracker());
        for (call, end) in [(LAST_CALLS / 2, End::Clean), (LAST_CALLS * 2, End::Cut)] {
            let stop = CancellationToken::new();
            let ended = kept_up(&panics, &stop, &workers, async || {
                workers.spawn(tokio::time::sleep(call));
                stop.cancel();
                panic!("on purpose")
            });
            assert_eq!(ended.await, end);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_no_longer_for_the_workers_that_a_panic_has_left_behind() {
        let (panics, stop, workers) = (Panics::default(), CancellationToken::new(), tracker());
        let began = tokio::time::Instant::now();
        let ended = kept_up(&panics, &stop, &workers, async || {
            workers.spawn(tokio::time::sleep(LAST_CALLS * 10));
            panic!("on purpose")
        });
        let stopping = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            stop.cancel();
        };
        assert_eq!(tokio::join!(ended, stopping).0, End::Cut);
        assert_eq!(began.elapsed(), Duration::from_secs(5) + LAST_CALLS);
    }
}
