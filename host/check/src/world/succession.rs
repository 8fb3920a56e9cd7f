//! How a standby succeeds the process that holds the lease, as seen by the connections of both.
//!
//! The time in which no process holds the lease is attributed to the unreachable process. Its further actions are not
//! recorded.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::fault::{Failover, WritePoint};
use crate::request_line::RequestLine;
use crate::trace::{Happening, Record};

/// The time after the takeover for which the standby's cache stays late and the other process stays unreachable. It is
/// long enough to expose a host that does not check how late its caches are, or does not notice that it lost its lease.
const LATE_AFTER_TAKEOVER: Duration = Duration::from_secs(20);

/// The course of one failover. Clones share it.
#[derive(Clone)]
pub(super) struct Succession(Arc<SuccessionInner>);

struct SuccessionInner {
    record: Record,
    failover: Failover,
    stage: watch::Sender<Stage>,
}

/// The stage of a failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The first process works.
    Before,
    /// The first process sends its last write. From now on the standby's cache is late.
    LastWrite,
    /// The first process is unreachable.
    Silent,
    /// The standby has the lease.
    TakenOver,
    /// All delayed events have arrived.
    Over,
}

impl Succession {
    pub(super) fn new(record: Record, failover: Failover) -> Self {
        Self(Arc::new(SuccessionInner { record, failover, stage: watch::Sender::new(Stage::Before) }))
    }

    /// The write at which the first process becomes unreachable.
    pub(super) fn at(&self) -> WritePoint {
        self.0.failover.at
    }

    /// Whether the first process becomes reachable again.
    pub(super) fn returns(&self) -> bool {
        self.0.failover.returns
    }

    /// The first process is about to send its last write.
    pub(super) fn last_write(&self) {
        self.advance(Stage::LastWrite);
    }

    /// The first process becomes unreachable.
    pub(super) fn falls_silent(&self) {
        self.0.record.note(Happening::Silence);
        self.0.record.mute(true);
        self.advance(Stage::Silent);
    }

    /// The server has committed a standby's write of a lease.
    pub(super) fn lease_written(&self, line: &RequestLine) {
        // The lease that the plugins depend on ends with `-all`. Other leases only show that a process is alive.
        if !line.name.ends_with("-all") || !self.advance(Stage::TakenOver) {
            return;
        }
        self.0.record.mute(false);
        self.0.record.note(Happening::TookOver);
        let this = self.clone();
        tokio::spawn(async move {
            sleep(LATE_AFTER_TAKEOVER).await;
            if this.returns() {
                this.0.record.note(Happening::Returned);
            }
            this.advance(Stage::Over);
        });
    }

    /// Waits until the first process is reachable.
    pub(super) async fn until_reachable(&self) {
        self.reaches(|stage| stage < Stage::Silent || stage == Stage::Over).await;
    }

    /// Waits until the standby may receive events of `resource`.
    pub(super) async fn until_shown(&self, resource: &str) {
        if self.0.failover.late.as_deref() == Some(resource) {
            self.reaches(|stage| stage == Stage::Before || stage == Stage::Over).await;
        }
    }

    /// Advances to a later stage. Returns false if it was reached before.
    fn advance(&self, to: Stage) -> bool {
        self.0.stage.send_if_modified(|stage| {
            let is_later = to > *stage;
            *stage = to.max(*stage);
            is_later
        })
    }

    async fn reaches(&self, is_at: impl Fn(Stage) -> bool) {
        // This cannot fail, because `self` holds the sender.
        let _ = self.0.stage.subscribe().wait_for(|stage| is_at(*stage)).await;
    }
}
