//! Runs the election of one lease: carries out what `core::lease` decides, and starts and ends the terms of the plugins
//! that depend on the lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_core::clock::{Clock, Moment};
use windlass_core::life::lease::{Election, ElectionAnswer, ElectionStep, FoundLease, LeaseLoss, LeaseWish, Purpose};
use windlass_core::life::plugin_state::LeaseStatus;
use windlass_core::life::sharing::{Membership, Offer, Part, Stance};
use windlass_core::repeats::Repeats;
use windlass_core::rights::fence::Fenced;
use windlass_core::write::settle;
use windlass_kube::{LeaseError, LeaseKind, Leases};

use super::fence::{LeaseFence, TermReach};
use super::pulse::{BEAT_INTERVAL, Pulse};
use super::settings::OFFER_BYTES_MAX;
use super::{LeaseStanding, PluginTerm};
use crate::phases::HAND_OVER_TIMEOUT;

/// The most log lines a minute about failures of one lease. Further failures are counted in the next line.
pub(super) const FAILURES_A_MINUTE: u32 = 3;

/// Figures of one lease, for metrics.
#[derive(Debug, Default)]
pub(super) struct LeaseFigures {
    pub(super) held: AtomicBool,
    /// Number of times that this process has won or lost the lease.
    pub(super) transitions: AtomicU64,
    /// Number of requests for the lease that failed.
    pub(super) failures: AtomicU64,
}

/// One lease, as this process competes for it.
pub(super) struct Elector {
    pub(super) lease: Arc<str>,
    pub(super) kind: LeaseKind,
    pub(super) me: Arc<str>,
    pub(super) election: Election,
    /// `None` for a member lease, for which no other replica competes.
    pub(super) part: Option<Part>,
    pub(super) leases: Leases,
    pub(super) clock: Arc<dyn Clock>,
    /// The pulse of the threads where everything except elections runs.
    pub(super) pulse: Arc<Pulse>,
    /// The lease, as the watch shows it.
    pub(super) sightings: watch::Receiver<FoundLease>,
    pub(super) members: watch::Receiver<Membership>,
    /// The plugins that this replica says it can serve, for its member lease.
    pub(super) offer: watch::Receiver<Option<Arc<Offer>>>,
    pub(super) standing: watch::Sender<LeaseStanding>,
    pub(super) figures: Arc<LeaseFigures>,
    /// Cancelled when the host stops: running lease terms end, and then the lease is released.
    pub(super) stop: CancellationToken,
    /// The current term, if this process holds the lease.
    pub(super) current: Option<HeldTerm>,
    /// The time since which another replica should have the lease. Reset once this replica no longer has it, however
    /// that happened.
    pub(super) letting_go: Option<Moment>,
    /// The last failure that was logged.
    pub(super) logged: String,
    /// Limits the log lines about failures.
    pub(super) lines: Repeats,
}

/// A lease term as its elector sees it.
pub(super) struct HeldTerm {
    reach: Arc<TermReach>,
    ends: CancellationToken,
    lost: CancellationToken,
    /// Completes when no work of the term is left. `None` once it has completed.
    settled: Option<BoxFuture<'static, ()>>,
}

impl Elector {
    /// Runs until the host stops and the lease is released.
    pub(super) async fn run(&mut self) {
        let mut is_still = false;
        loop {
            let now = self.clock.now();
            if self.pulse.is_still(now) {
                if !std::mem::replace(&mut is_still, true) {
                    tracing::error!(
                        lease = %self.lease,
                        "the host's worker threads do not respond: its leases are not renewed, so that another replica can run its plugins"
                    );
                }
                self.clock.sleep_until(now + BEAT_INTERVAL).await;
                continue;
            }
            is_still = false;
            // Read this before the wish is formed. A stop that comes between this line and the wait must end the wait.
            let is_stopping = self.stop.is_cancelled();
            let (wish, until) = self.wish(now, is_stopping);
            if wish == LeaseWish::Yield && self.current.is_none() && self.election.holder() != Some(&self.me) {
                return;
            }
            let step = self.election.next(now, wish);
            self.publish();
            match step {
                ElectionStep::WaitUntil(moment) => {
                    self.wait(until.map_or(moment, |until| until.min(moment)), is_stopping).await;
                }
                request => {
                    let answer = self.ask(request).await;
                    self.election.answered(answer, self.clock.now(), windlass_world::random());
                    self.publish();
                }
            }
        }
    }

    /// The current wish for the lease, and when to reconsider it.
    fn wish(&mut self, now: Moment, is_stopping: bool) -> (LeaseWish, Option<Moment>) {
        let keep = LeaseWish::Hold { after: std::time::Duration::ZERO };
        if is_stopping {
            // A plugin that has not taken the term yet need not start.
            self.standing.send_if_modified(|standing| standing.term.take().is_some());
        }
        self.go_on_letting_go(now);
        let lets_go = is_stopping || self.letting_go.is_some();
        if lets_go && self.current.as_ref().is_none_or(|current| current.settled.is_none()) {
            return (LeaseWish::Yield, None);
        }
        if lets_go {
            return (keep, self.letting_go.map(|since| since + HAND_OVER_TIMEOUT));
        }
        let Some(part) = &mut self.part else { return (keep, None) };
        let stance = part.stance(self.current.is_some(), &self.members.borrow_and_update(), now);
        match stance {
            Stance::Take { after } => (LeaseWish::Hold { after }, None),
            Stance::Keep { until } => (keep, until),
            Stance::HandOver => {
                self.hand_over(now);
                (keep, Some(now + HAND_OVER_TIMEOUT))
            }
        }
    }

    fn hand_over(&mut self, now: Moment) {
        let Some(current) = &self.current else { return };
        tracing::info!(lease = %self.lease, "handing over the lease: another replica will run its plugins, once the calls that run here have ended");
        self.letting_go = Some(now);
        current.ends.cancel();
        self.standing.send_modify(|standing| standing.term = None);
    }

    /// Continues a hand-over. Gives up the lease if the work does not end in time, because no other replica can run the
    /// plugins meanwhile. The hand-over ends only when the lease has gone.
    fn go_on_letting_go(&mut self, now: Moment) {
        let Some(since) = self.letting_go else { return };
        match &self.current {
            Some(current) if current.settled.is_some() && since + HAND_OVER_TIMEOUT <= now => {
                self.election.give_up();
                self.publish();
            }
            None if self.election.holder() != Some(&self.me) => self.letting_go = None,
            _ => {}
        }
    }

    /// Waits until something may have changed. If `is_stopping`, the stop was noticed already and does not end the
    /// wait.
    async fn wait(&mut self, until: Moment, is_stopping: bool) {
        let settled = self.current.as_mut().and_then(|current| current.settled.as_mut());
        let settled = async {
            match settled {
                Some(settled) => settled.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled(), if !is_stopping => {}
            () = settled => {
                if let Some(current) = &mut self.current {
                    current.settled = None;
                }
            }
            Ok(()) = self.sightings.changed() => {
                let found = self.sightings.borrow_and_update().clone();
                self.election.observe(found, self.clock.now());
            }
            Ok(()) = self.members.changed() => {}
            () = self.clock.sleep_until(until) => {}
        }
    }

    async fn ask(&mut self, step: ElectionStep) -> ElectionAnswer {
        let (leases, lease) = (&self.leases, &*self.lease);
        let asked = match step {
            ElectionStep::WaitUntil(_) => return ElectionAnswer::Failed,
            ElectionStep::Look { limit } => leases.get(lease, limit).await,
            // No other replica takes over a member lease.
            ElectionStep::Write { purpose: Purpose::Release, over, limit, .. } if self.kind == LeaseKind::Member => {
                let deleted = || ElectionAnswer::Written { version: "".into(), acquired: None };
                match over {
                    Some(over) => leases.delete(lease, &over, limit).await.map(|answer| match answer {
                        ElectionAnswer::Found(None) => deleted(),
                        other => other,
                    }),
                    None => Ok(deleted()),
                }
            }
            ElectionStep::Write { over, record, limit, .. } => {
                let serves = self.offer.borrow().as_ref().and_then(|offer| offer.text(OFFER_BYTES_MAX));
                leases.write(lease, self.kind, over.as_ref(), &record, serves.as_deref(), limit).await
            }
        };
        match asked {
            Ok(answer) => {
                self.logged.clear();
                answer
            }
            Err(error) => {
                self.failed(&error);
                ElectionAnswer::Failed
            }
        }
    }

    /// Logs a failure, once for each reason until a request succeeds.
    fn failed(&mut self, error: &LeaseError) {
        self.figures.failures.fetch_add(1, Ordering::Relaxed);
        let message = error.to_string();
        if self.logged != message {
            let until_lost = self.election.term().map(|term| term.until().0.saturating_sub(self.clock.now().0));
            let until_lost = until_lost.map(tracing::field::debug);
            if let Some(unlogged) = self.lines.line(self.clock.now()) {
                let further_failures = (unlogged > 0).then_some(unlogged);
                tracing::warn!(
                    lease = %self.lease, error = message, until_lost, further_failures,
                    "a lease cannot be renewed or read; the host tries again at each retry period"
                );
            } else {
                tracing::debug!(lease = %self.lease, error = message, until_lost, "the lease still cannot be renewed or read");
            }
            self.logged = message;
        }
    }

    /// Publishes the changes of the election.
    fn publish(&mut self) {
        if let Some(loss) = self.election.take_loss() {
            self.lose(&loss);
        }
        match (self.election.term(), &self.current) {
            (Some(term), Some(current)) => current.reach.set(Some(term)),
            (Some(term), None) => self.gain(term),
            (None, _) => {}
        }
        let holder = self.election.holder().cloned();
        let is_mine = holder.as_ref() == Some(&self.me);
        self.standing.send_if_modified(|standing| {
            let is_over = standing.status == LeaseStatus::Lost && !is_mine;
            if is_over {
                standing.status = LeaseStatus::NotHeld;
            }
            let is_news = is_over || standing.holder != holder;
            standing.holder = holder;
            is_news
        });
    }

    fn gain(&mut self, term: windlass_core::life::lease::LeaseTerm) {
        let (hold, settled) = settle::hold();
        let reach = Arc::new(TermReach::default());
        reach.set(Some(term));
        let (ends, lost) = (self.stop.child_token(), CancellationToken::new());
        let (lease, clock) = (self.lease.clone(), self.clock.clone());
        let fence = Arc::new(LeaseFence { lease, clock, reach: reach.clone(), _hold: hold });
        let given = PluginTerm { fence: Fenced::by(fence), ends: ends.clone(), lost: lost.clone(), is_shared: true };
        let settled = Some(settled.wait().boxed());
        self.current = Some(HeldTerm { reach, ends, lost, settled });
        self.count(true);
        if self.kind == LeaseKind::Plugins {
            tracing::info!(lease = %self.lease, holder = %self.me, "lease won: its plugins run here");
        }
        // A stopping host begins no new work.
        let may_begin = self.kind == LeaseKind::Plugins && !self.stop.is_cancelled();
        self.standing.send_modify(|standing| {
            standing.status = LeaseStatus::Held;
            standing.term = may_begin.then_some(given);
        });
    }

    fn lose(&mut self, loss: &LeaseLoss) {
        let Some(current) = self.current.take() else { return };
        current.reach.set(None);
        current.lost.cancel();
        current.ends.cancel();
        // If the lease was released, or another replica took it, it is simply not held.
        let is_lost = matches!(loss, LeaseLoss::NotRenewed | LeaseLoss::GivenUp);
        self.standing.send_modify(|standing| {
            standing.status = if is_lost { LeaseStatus::Lost } else { LeaseStatus::NotHeld };
            standing.term = None;
        });
        self.count(false);
        if self.kind == LeaseKind::Member {
            log_member_loss(&self.lease, loss, &self.logged);
        } else {
            log_loss(&self.lease, loss, &self.logged);
        }
    }

    fn count(&self, held: bool) {
        self.figures.held.store(held, Ordering::Relaxed);
        self.figures.transitions.fetch_add(1, Ordering::Relaxed);
    }
}

/// Logs that a lease for plugins is lost. `error` is the last error of its renewal.
fn log_loss(lease: &str, loss: &LeaseLoss, error: &str) {
    match loss {
        LeaseLoss::Released => tracing::info!(%lease, "lease released"),
        LeaseLoss::GivenUp => tracing::error!(
            %lease,
            "lease lost: it was being handed over, but calls of its plugins have not ended within {HAND_OVER_TIMEOUT:?}; nothing more is written for them here, and another replica takes over when the lease expires"
        ),
        LeaseLoss::NotRenewed => tracing::error!(
            %lease, error,
            "lease lost: it could not be renewed in time, so another replica may run its plugins; nothing more is written for them here"
        ),
        LeaseLoss::Taken(holder) => tracing::error!(
            %lease, %holder, "lease lost: it names another holder; nothing more is written for its plugins here"
        ),
    }
}

/// As [`log_loss`], for this replica's member lease, on which no plugin depends.
fn log_member_loss(lease: &str, loss: &LeaseLoss, error: &str) {
    match loss {
        LeaseLoss::Released => tracing::info!(%lease, "lease released"),
        LeaseLoss::NotRenewed => tracing::warn!(
            %lease, error,
            "this replica's own lease could not be renewed in time: until it is, other replicas consider this one dead and give it no plugins; running plugins go on"
        ),
        LeaseLoss::GivenUp | LeaseLoss::Taken(_) => tracing::warn!(
            %lease, ?loss,
            "this replica no longer holds its own lease: other replicas may consider this one dead and give it no plugins; running plugins go on"
        ),
    }
}

#[cfg(test)]
mod tests;
