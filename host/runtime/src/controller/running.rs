//! A controller at work: its tasks, their panics, and their end.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::dispatch::Dispatch;
use crate::phases::{AtWork, ControllerEnd, Phases, tracker};
use crate::supervise::supervise;

/// A controller at work. When it is dropped, its tasks end as soon as they can.
pub(crate) struct Running {
    pub(crate) dispatch: Arc<Dispatch>,
    feeders: TaskTracker,
    phases: Phases,
    at_work: AtWork,
    /// Futures that calls need until they end. They are polled once no more keys are added.
    kept: Vec<BoxFuture<'static, Infallible>>,
}

impl Running {
    /// Starts no task yet.
    pub(crate) fn new(dispatch: Arc<Dispatch>, phases: &Phases) -> Self {
        let (phases, at_work) = (phases.clone(), phases.at_work());
        Self { dispatch, feeders: tracker(), phases, at_work, kept: Vec::new() }
    }

    /// Starts a task that ends as soon as no more keys are to be added.
    pub(crate) fn feed<F, Fut>(&self, name: &'static str, task: F)
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (stop, panics) = (self.dispatch.shutdown.stop.clone(), self.dispatch.panics.clone());
        self.feeders.spawn(async move {
            stop.run_until_cancelled(supervise(name, &panics, &stop, task)).await;
        });
    }

    /// Starts a task that runs until no more calls begin, which includes the time in which the queues drain.
    pub(crate) fn attend<F, Fut>(&self, name: &'static str, task: F)
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (last_call, panics) = (self.dispatch.shutdown.last_call.clone(), self.dispatch.panics.clone());
        tokio::spawn(async move {
            last_call.run_until_cancelled(supervise(name, &panics, &last_call, task)).await;
        });
    }

    /// Keeps everything that `rest` holds until the last call has ended, and polls `rest` once the feeding tasks have
    /// ended. `rest` never completes, because it would then drop everything.
    pub(crate) fn keep(&mut self, rest: impl Future<Output = Infallible> + Send + 'static) {
        self.kept.push(rest.boxed());
    }

    /// Starts a worker.
    pub(crate) fn work(&self) {
        let dispatch = self.dispatch.clone();
        let worker = async move {
            // A worker does not end at `stop`: it works until the queue has drained, and is restarted after a panic
            // until then.
            supervise("worker", &dispatch.panics, &dispatch.shutdown.last_call, || dispatch.work()).await;
        };
        self.dispatch.shutdown.workers.spawn(worker);
    }

    /// Ends the controller with the host, phase by phase. Queued keys run if they can.
    pub(crate) async fn end(mut self) -> ControllerEnd {
        self.no_more_keys().await;
        self.at_work.fed();
        let kept = self.going_on();
        tokio::select! {
            biased;
            end = self.last_keys() => end,
            never = kept => match never {},
        }
    }

    async fn last_keys(&mut self) -> ControllerEnd {
        let phases = &self.phases;
        let Dispatch { keys, callee, permits, shutdown, .. } = &*self.dispatch;
        let (queue, plugin, controller) = (&keys.queue, &callee.principal.plugin, &callee.controller);
        let draining = queue.shut_down_with_drain();
        let drained = if permits.call_gate.may_call() {
            phases.last_call.run_until_cancelled(draining).await
        } else {
            // No further call would begin, so the drain is not awaited.
            draining.now_or_never()
        };
        shutdown.last_call.cancel();
        if drained.is_none() {
            // The queue may not have begun to drain, for example if a lease is lost. Without this, workers would wait
            // for keys.
            let dropped = shutdown.dropped.drop_keys(queue);
            if dropped > 0 {
                tracing::info!(%plugin, %controller, dropped, "the queued keys are dropped");
            }
        }
        self.at_work.drained();
        let end = phases.until_cut(shutdown.workers.wait()).await;
        if end == ControllerEnd::Cut {
            let keys: Vec<_> = queue.processing().iter().map(ToString::to_string).collect();
            tracing::error!(
                %plugin, %controller, keys = keys.join(" "),
                "these calls or their writes did not end in time and were stopped: the replica that runs the plugin next runs their keys again"
            );
        }
        end
    }

    /// Ends the controller while the host goes on, for example because a kind is gone. The keys are left to the next
    /// round.
    pub(crate) async fn abandon(mut self) {
        // From here on, workers take no keys, so every key is still in the queue below.
        self.dispatch.shutdown.last_call.cancel();
        self.no_more_keys().await;
        let mut kept = self.going_on();
        finish_feeding(&mut kept);
        self.leave_keys();
        // These keys also count as dropped in a shutdown that begins while calls run.
        self.dispatch.shutdown.dropped.drop_keys(&self.dispatch.keys.queue);
        self.at_work.drained();
        tokio::select! {
            biased;
            () = self.dispatch.shutdown.workers.wait() => {}
            never = kept => match never {},
        }
    }

    /// Ends because another generation has the queue: running calls end, and the other generation takes the keys that
    /// have not begun. Changes until `relieved` still become keys, as the other generation may have missed them. Calls
    /// `fed` once they have become keys.
    pub(crate) async fn retire(mut self, relieved: &CancellationToken, fed: impl FnOnce()) {
        self.dispatch.shutdown.last_call.cancel();
        self.no_more_keys().await;
        self.at_work.drained();
        relieved.cancelled().await;
        let mut kept = self.going_on();
        // Turns the changes until now into keys, even if no call runs any more.
        finish_feeding(&mut kept);
        fed();
        tokio::select! {
            biased;
            () = self.dispatch.shutdown.workers.wait() => {}
            never = kept => match never {},
        }
    }

    /// Polls the futures that are kept for calls.
    fn going_on(&mut self) -> BoxFuture<'static, Infallible> {
        let kept = join_all(std::mem::take(&mut self.kept));
        async move {
            // Kept futures never complete, but `kept` may be empty.
            kept.await;
            pending().await
        }
        .boxed()
    }

    /// Leaves the keys that are to run to the next round.
    fn leave_keys(&self) {
        self.dispatch.shutdown.left.leave(&self.dispatch.keys.of_round());
    }

    async fn no_more_keys(&mut self) {
        self.dispatch.shutdown.stop.cancel();
        self.feeders.wait().await;
    }
}

/// Polls the `kept` futures for the first time, which turns what feeders still hold into keys.
fn finish_feeding(kept: &mut BoxFuture<'static, Infallible>) {
    // Tokio's cooperative budget would stop after some of many feeders.
    let _ = tokio::task::unconstrained(kept).now_or_never();
}

impl Drop for Running {
    fn drop(&mut self) {
        // After an orderly end, this has run already. After a panic, it has not.
        if !self.dispatch.shutdown.retired.is_cancelled() {
            self.leave_keys();
        }
        self.dispatch.shutdown.stop.cancel();
        self.dispatch.shutdown.last_call.cancel();
        if !self.dispatch.shutdown.retired.is_cancelled() {
            self.dispatch.shutdown.dropped.drop_keys(&self.dispatch.keys.queue);
        }
    }
}
