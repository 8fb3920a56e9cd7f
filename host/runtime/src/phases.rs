//! The stop of a host: one phase after the other, each with a limit and a log line.
//!
//! The manager goes through [`Phases::end`]; controllers have no limits of their own. Tokens show the controllers which
//! phases are over, and their guards ([`AtWork`]) show the manager which work is left. So all controllers are in step,
//! and the limits hold for all of them together. Signals are in `shutdown`; what a controller does in each phase is in
//! `running`.

mod dropped;
mod ending;
mod kept_up;

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use windlass_core::object::ObjectKey;
use windlass_core::queue::Queue;

pub(crate) use self::dropped::Dropped;
pub(crate) use self::kept_up::{ControllerEnd, kept_up, tracker};

/// The time that a task may take to notice a cancelled token, if it has nothing else to do.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the queues may take to drain.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long running calls and their writes may take to end after that.
const CALLS_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a lease term that is handed over may take to end. By then, all work that has not ended was cut.
pub(crate) const HAND_OVER_TIMEOUT: Duration =
    Duration::from_secs(DRAIN_TIMEOUT.as_secs() + CALLS_TIMEOUT.as_secs() + NOTICE_TIMEOUT.as_secs());
/// How long Kubernetes Events may take to be sent.
pub(crate) const EVENTS_TIMEOUT: Duration = Duration::from_secs(2);

/// The phases of a stop, each a token that is cancelled when the phase begins. Clones belong to the same stop.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    /// The host stops: changes no longer become keys.
    pub(crate) stop: CancellationToken,
    /// The time for the queues is over: no further call begins.
    pub(crate) last_call: CancellationToken,
    /// The time for calls is over: the host no longer waits for them.
    cut: CancellationToken,
    /// All calls have ended or were cut. Policies and everything else that binds calls are followed until then.
    pub(crate) over: CancellationToken,
    feeding: TaskTracker,
    draining: TaskTracker,
    /// Number of keys that the stop has dropped.
    dropped: Arc<AtomicUsize>,
    /// The host's phases, if these are the phases of one plugin or one term.
    host: Option<Box<Phases>>,
}

/// Held by a controller at work until it has finished feeding and draining.
#[derive(Debug)]
pub(crate) struct AtWork {
    feeding: Vec<TaskTrackerToken>,
    draining: Vec<TaskTrackerToken>,
}

impl AtWork {
    /// No more keys are added.
    pub(crate) fn fed(&mut self) {
        self.feeding.clear();
    }

    /// The queue is empty.
    pub(crate) fn drained(&mut self) {
        self.fed();
        self.draining.clear();
    }
}

impl Phases {
    /// Phases that begin when `stop` is cancelled and [`Phases::end`] is called.
    pub(crate) fn of(stop: CancellationToken) -> Self {
        Self {
            stop,
            last_call: CancellationToken::new(),
            cut: CancellationToken::new(),
            over: CancellationToken::new(),
            feeding: tracker(),
            draining: tracker(),
            dropped: Arc::default(),
            host: None,
        }
    }

    /// The phases of one plugin, which stops when `stop` is cancelled, while the host may go on.
    pub(crate) fn of_plugin(&self, stop: CancellationToken) -> Self {
        Self { stop, host: Some(Box::new(self.clone())), ..self.clone() }
    }

    /// The phases of a lease term that ends when `stop` is cancelled or the host stops.
    pub(crate) fn of_term(&self, stop: CancellationToken) -> Self {
        Self {
            stop,
            last_call: self.last_call.child_token(),
            cut: self.cut.child_token(),
            over: self.over.clone(),
            feeding: tracker(),
            draining: tracker(),
            dropped: self.dropped.clone(),
            host: Some(self.host.clone().unwrap_or_else(|| Box::new(self.clone()))),
        }
    }

    /// Ends a lease term in order once `stop` is cancelled, within the limits of a stop. If the lease is `lost` first,
    /// no more calls begin. Never completes: the caller polls it beside the work of the term, and drops it when that
    /// has ended.
    pub(crate) async fn hand_over(&self, lost: &CancellationToken) -> Infallible {
        self.stop.cancelled().await;
        lost.run_until_cancelled(timeout(DRAIN_TIMEOUT, self.draining.wait())).await;
        self.last_call.cancel();
        sleep(CALLS_TIMEOUT).await;
        if !self.host_stop().is_cancelled() {
            self.cut.cancel();
        }
        // A stop of the host has its own limits.
        pending().await
    }

    /// Registers another controller. Call this before any of its tasks run.
    pub(crate) fn at_work(&self) -> AtWork {
        let all = || [Some(self), self.host.as_deref()].into_iter().flatten();
        AtWork {
            feeding: all().map(|phases| phases.feeding.token()).collect(),
            draining: all().map(|phases| phases.draining.token()).collect(),
        }
    }

    /// A counter for the keys that another round drops.
    pub(crate) fn dropping(&self) -> Arc<Dropped> {
        Arc::new(Dropped::new(&self.dropped, self.host_stop()))
    }

    /// Drops the keys that wait in `queue` after its owner has ended. Returns the number of keys.
    pub(crate) fn drop_keys(&self, queue: &Queue<ObjectKey>) -> usize {
        self.dropping().drop_keys(queue)
    }

    /// Number of keys that the stop has dropped.
    pub(crate) fn all_dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits for `last`, as long as the host waits for calls.
    pub(crate) async fn until_cut(&self, last: impl Future<Output = ()>) -> ControllerEnd {
        match self.cut.run_until_cancelled(last).await {
            Some(()) => ControllerEnd::Clean,
            None => ControllerEnd::Cut,
        }
    }

    /// Waits for `last`, however long that takes, unless the host stops.
    pub(crate) async fn unless_host_stops(&self, last: impl Future<Output = ()>) {
        // The host has its own limits, and unfinished work ends with it.
        let _ = self.host_stop().run_until_cancelled(last).await;
    }

    /// Cancelled when the whole host stops.
    fn host_stop(&self) -> &CancellationToken {
        self.host.as_ref().map_or(&self.stop, |host| &host.stop)
    }

    /// The phases of one generation, which ends when `stop` is cancelled, although the term goes on.
    pub(crate) fn of_generation(&self, stop: CancellationToken) -> Self {
        Self { stop, ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
