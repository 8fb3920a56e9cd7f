//! Runs a stop, phase by phase.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{CALLS_TIMEOUT, DRAIN_TIMEOUT, EVENTS_TIMEOUT, NOTICE_TIMEOUT, Phases};

/// How long leases may take to be released.
pub(super) const LEASES_RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that a phase has taken, in milliseconds.
fn took(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Phases {
    /// Runs all phases. The controllers run on their own tasks. `controllers` completes when all of them have ended,
    /// and returns how many were cut. `events` returns whether all Kubernetes Events were sent. `release` releases the
    /// leases; `None` if there are none. `watches` ends the watches. Returns false if something was lost that the next
    /// start does not make up for.
    pub(crate) async fn end(
        &self,
        controllers: impl Future<Output = usize>,
        events: impl Future<Output = bool>,
        release: Option<impl Future<Output = bool>>,
        watches: impl Future<Output = ()>,
    ) -> bool {
        let began = Instant::now();
        self.intake().await;
        self.drain().await;
        let called = self.calls(controllers).await;
        let sent = Self::events(events).await;
        let released = match release {
            Some(release) => Self::release(release).await,
            None => true,
        };
        Self::watches(watches).await;
        let clean = called && sent && released;
        let dropped = self.all_dropped();
        tracing::info!(clean, took_ms = took(began), dropped, "stopped");
        clean
    }

    /// Ends the watches: later changes are not noticed.
    async fn watches(watches: impl Future<Output = ()>) {
        let began = Instant::now();
        if timeout(NOTICE_TIMEOUT, watches).await.is_ok() {
            tracing::info!(phase = "watches", took_ms = took(began), "the watches have ended");
        } else {
            tracing::warn!(phase = "watches", took_ms = took(began), "a watch does not end; the host ends without it");
        }
    }

    /// Stops turning changes into keys. `/readyz` has failed since `stop`.
    async fn intake(&self) {
        let began = Instant::now();
        self.stop.cancel();
        if timeout(NOTICE_TIMEOUT, self.feeding.wait()).await.is_err() {
            // Keys that this task still adds are lost, because a queue that shuts down accepts none.
            tracing::warn!("a task that turns changes into keys does not end; the keys that it adds are dropped");
        }
        tracing::info!(
            phase = "intake",
            took_ms = took(began),
            "the host is no longer ready, and takes in no more changes"
        );
    }

    /// Runs queued keys if they can run. Also runs keys that are held until their own writes show.
    async fn drain(&self) {
        let began = Instant::now();
        let in_time = timeout(DRAIN_TIMEOUT, self.draining.wait()).await.is_ok();
        self.last_call.cancel();
        if !in_time {
            // Each controller drops and counts its remaining keys.
            let _ = timeout(NOTICE_TIMEOUT, self.draining.wait()).await;
        }
        let (took_ms, dropped) = (took(began), self.all_dropped());
        if in_time && dropped == 0 {
            tracing::info!(phase = "drain", took_ms, dropped, "the queues have drained");
        } else {
            let why = if in_time { "because no call can be made now" } else { "and the time for draining is over" };
            tracing::info!(
                phase = "drain",
                took_ms,
                dropped,
                "the queues have not drained, {why}: the remaining keys are dropped, and the next start queues all \
                 keys again"
            );
        }
    }

    /// Waits until running calls end and their writes settle.
    async fn calls(&self, controllers: impl Future<Output = usize>) -> bool {
        let began = Instant::now();
        let mut controllers = pin!(controllers);
        let cut = if let Ok(cut) = timeout(CALLS_TIMEOUT, &mut controllers).await {
            cut
        } else {
            self.cut.cancel();
            // Each controller logs what it cuts.
            timeout(NOTICE_TIMEOUT, controllers).await.unwrap_or(1)
        };
        self.over.cancel();
        let took_ms = took(began);
        if cut == 0 {
            tracing::info!(phase = "calls", took_ms, "all calls and their writes have ended");
        } else {
            tracing::error!(
                phase = "calls",
                took_ms,
                controllers = cut,
                "calls or their writes have not ended within {CALLS_TIMEOUT:?} and are stopped: the lines above name their objects"
            );
        }
        cut == 0
    }

    async fn events(sent: impl Future<Output = bool>) -> bool {
        let began = Instant::now();
        let all = timeout(EVENTS_TIMEOUT, sent).await == Ok(true);
        let took_ms = took(began);
        if all {
            tracing::info!(phase = "events", took_ms, "every Kubernetes Event has been sent");
        } else {
            tracing::warn!(phase = "events", took_ms, "some Kubernetes Events could not be sent; they are lost");
        }
        all
    }

    /// Releases the leases, so that other replicas need not wait until they expire.
    async fn release(released: impl Future<Output = bool>) -> bool {
        let began = Instant::now();
        let all = timeout(LEASES_RELEASE_TIMEOUT, released).await == Ok(true);
        let took_ms = took(began);
        if all {
            tracing::info!(phase = "release", took_ms, "the leases are released");
        } else {
            tracing::warn!(
                phase = "release",
                took_ms,
                "some leases are not released: other replicas take over when they expire"
            );
        }
        all
    }
}
