//! The stop of a host: one phase after the other, each with its limit and its line in the log.
//!
//! The manager goes through [`Phases::end`]; controllers have no limits of their own. They are told by tokens what is
//! over, and tell by guards ([`AtWork`]) what of theirs is not, so that all are in step and the limits hold for all of
//! them together. Signals are in `shutdown`, what a controller does in each phase in `running`.

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

/// How long what only has to notice may take.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the queues may take to drain.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long calls that run, and their writes, may take to end after that.
const CALLS_TIMEOUT: Duration = Duration::from_secs(20);
/// After that long, whatever a lease term that is handed over has not ended is cut, and has been told.
pub(crate) const HAND_OVER_TIMEOUT: Duration =
    Duration::from_secs(DRAIN_TIMEOUT.as_secs() + CALLS_TIMEOUT.as_secs() + NOTICE_TIMEOUT.as_secs());
/// How long Kubernetes Events may take to be sent.
pub(crate) const EVENTS_TIMEOUT: Duration = Duration::from_secs(2);

/// The phases of a stop that are over. Clones are of the same stop.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    /// The host stops: no change becomes a key any more.
    pub(crate) stop: CancellationToken,
    /// The queues have had their time: no further call begins.
    pub(crate) last_call: CancellationToken,
    /// Calls have had their time: nobody waits for them any more.
    cut: CancellationToken,
    /// All calls have ended, or are cut. What binds calls, such as policies, is followed until then.
    pub(crate) over: CancellationToken,
    feeding: TaskTracker,
    draining: TaskTracker,
    /// How many keys are dropped on the account of the stop.
    dropped: Arc<AtomicUsize>,
    /// Those of the host, where these are of one plugin or of one of its terms.
    host: Option<Box<Phases>>,
}

/// Held by a controller at work: what it has not ended yet.
#[derive(Debug)]
pub(crate) struct AtWork {
    feeding: Vec<TaskTrackerToken>,
    draining: Vec<TaskTrackerToken>,
}

impl AtWork {
    /// No more keys come.
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
    /// They begin when `stop` is cancelled and [`Phases::end`] is called.
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

    /// Those of one plugin, which is stopped when `stop` is cancelled, and the host may go on.
    pub(crate) fn of_plugin(&self, stop: CancellationToken) -> Self {
        Self { stop, host: Some(Box::new(self.clone())), ..self.clone() }
    }

    /// Those of a lease term that is over when `stop` is cancelled, or all of the host.
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

    /// Ends a lease term in order, once it is over, with the limits of a stop; without the lease, which may be `lost`
    /// at any time, no call is begun any more. For ever: whatever it is polled beside has ended when the term has.
    pub(crate) async fn hand_over(&self, lost: &CancellationToken) -> Infallible {
        self.stop.cancelled().await;
        lost.run_until_cancelled(timeout(DRAIN_TIMEOUT, self.draining.wait())).await;
        self.last_call.cancel();
        sleep(CALLS_TIMEOUT).await;
        if !self.host_stop().is_cancelled() {
            self.cut.cancel();
        }
        // A stop of the host has limits of its own.
        pending().await
    }

    /// Another controller is at work. To be called before anything of it runs.
    pub(crate) fn at_work(&self) -> AtWork {
        let all = || [Some(self), self.host.as_deref()].into_iter().flatten();
        AtWork {
            feeding: all().map(|phases| phases.feeding.token()).collect(),
            draining: all().map(|phases| phases.draining.token()).collect(),
        }
    }

    /// A count for the keys that another round drops.
    pub(crate) fn dropping(&self) -> Dropped {
        Dropped::new(&self.dropped, self.host_stop())
    }

    /// Drops what waits in `queue` on behalf of what has ended. Returns how many keys.
    pub(crate) fn drop_keys(&self, queue: &Queue<ObjectKey>) -> usize {
        self.dropping().drop_keys(queue)
    }

    /// How many keys are dropped on the account of the stop.
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
        // The host has limits of its own, and what it leaves ends with it.
        let _ = self.host_stop().run_until_cancelled(last).await;
    }

    /// Told when all of the host stops.
    fn host_stop(&self) -> &CancellationToken {
        self.host.as_ref().map_or(&self.stop, |host| &host.stop)
    }

    /// Those of one generation, which ends when `stop` is cancelled, though the term goes on.
    pub(crate) fn of_generation(&self, stop: CancellationToken) -> Self {
        Self { stop, ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
