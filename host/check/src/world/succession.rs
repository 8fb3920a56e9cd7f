//! How a standby follows the process that holds the lease, as both of their wires see it.
//!
//! The time in which nobody holds the lease belongs to the process that has fallen silent: whatever it still does is seen by nobody.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::fault::{Failover, WritePoint};
use crate::request_line::RequestLine;
use crate::trace::{Happening, Record};

/// How long after the takeover the standby's cache is late and the other process is not heard: long enough for a host that does not
/// ask how late its caches are, and for one that does not know that it has lost its lease.
const LATE_AFTER_TAKEOVER: Duration = Duration::from_secs(20);

/// The course of one failover. Clones are one course.
#[derive(Clone)]
pub(super) struct Succession(Arc<SuccessionInner>);

struct SuccessionInner {
    record: Record,
    failover: Failover,
    stage: watch::Sender<Stage>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The first process works.
    Before,
    /// It sends its last write: from now on the standby is late.
    LastWrite,
    /// It is heard no more.
    Silent,
    /// The standby has the lease.
    TakenOver,
    /// All that was late has come.
    Over,
}

impl Succession {
    pub(super) fn new(record: Record, failover: Failover) -> Self {
        Self(Arc::new(SuccessionInner { record, failover, stage: watch::Sender::new(Stage::Before) }))
    }

    /// Where the first process falls silent.
    pub(super) fn at(&self) -> WritePoint {
        self.0.failover.at
    }

    /// Whether the first process is heard again in the end.
    pub(super) fn returns(&self) -> bool {
        self.0.failover.returns
    }

    /// The last write of the first process is about to be sent.
    pub(super) fn last_write(&self) {
        self.advance(Stage::LastWrite);
    }

    /// The first process is heard no more.
    pub(super) fn falls_silent(&self) {
        self.0.record.note(Happening::Silence);
        self.0.record.mute(true);
        self.advance(Stage::Silent);
    }

    /// The server has taken a lease of the standby's.
    pub(super) fn lease_written(&self, line: &RequestLine) {
        // The other leases say that a process lives.
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

    /// Waits while the first process is not heard.
    pub(super) async fn is_heard(&self) {
        self.reaches(|stage| stage < Stage::Silent || stage == Stage::Over).await;
    }

    /// Waits while the standby is not to see what a watch of `resource` shows.
    pub(super) async fn is_shown(&self, resource: &str) {
        if self.0.failover.late.as_deref() == Some(resource) {
            self.reaches(|stage| stage == Stage::Before || stage == Stage::Over).await;
        }
    }

    /// Goes on to a later stage. False: it is there already.
    fn advance(&self, to: Stage) -> bool {
        self.0.stage.send_if_modified(|stage| {
            let is_later = to > *stage;
            *stage = to.max(*stage);
            is_later
        })
    }

    async fn reaches(&self, is_at: impl Fn(Stage) -> bool) {
        // The sender is in `self`: this cannot fail.
        let _ = self.0.stage.subscribe().wait_for(|stage| is_at(*stage)).await;
    }
}
