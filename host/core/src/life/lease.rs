//! The election for one Lease, as in client-go's `tools/leaderelection`, without clock and requests (ADR 12).
//!
//! The caller asks [`Election::next`] what to do, does it, and reports the result. Time is passed in and only
//! compared with other times of the same machine: what counts is when a record was *seen* to change, never the times
//! that it contains. The clock must keep running while the machine is suspended.
//!
//! Why two replicas never hold a lease at once: a holder counts its term from *before* it sent the successful
//! renewal, and starts nothing once the renew deadline has passed since then. Another replica takes over only after
//! it has seen the same record for the whole lease duration, which is longer, and only overwrites that very record.
//! The difference between the two times is the margin for clocks that run unequally and for requests under way.

mod timing;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;

pub use timing::{Timing, TimingError};

/// A version of the Lease object, different for every state. Opaque and never ordered.
pub type LeaseVersion = Arc<str>;

/// The content of a Lease. Its times are written for people and never decide anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The holder. Empty if the lease was released.
    pub holder: Arc<str>,
    /// For this long after the record's last change, no other replica may take the lease.
    pub duration: Duration,
    /// How many times the holder has changed.
    pub transitions: u32,
    /// When the holder acquired the lease, as the holder wrote it. `None` means now.
    pub acquired: Option<Arc<str>>,
}

/// The Lease as read: absent, or in one state.
pub type FoundLease = Option<(LeaseVersion, LeaseRecord)>;

/// A candidate's wish about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseWish {
    /// Acquire the lease once it has been free for `after`, and keep it.
    Hold { after: Duration },
    /// Release the lease.
    Yield,
}

/// Why a lease is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Acquire,
    Renew,
    Release,
}

/// The step to take now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionStep {
    /// Do nothing before this moment, unless the lease or the wish changes.
    WaitUntil(Moment),
    Look {
        /// The request's timeout.
        limit: Duration,
    },
    Write {
        /// The state to overwrite. `None` means that the lease is created.
        over: Option<LeaseVersion>,
        /// The content to write.
        record: LeaseRecord,
        purpose: Purpose,
        /// The request's timeout.
        limit: Duration,
    },
}

/// The result of an [`ElectionStep`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionAnswer {
    Found(FoundLease),
    /// The write succeeded.
    Written {
        /// The version after the write.
        version: LeaseVersion,
        /// The acquire time as now stored. Later renewals keep it.
        acquired: Option<Arc<str>>,
    },
    /// The write failed because the lease is not in the state to be overwritten.
    Conflict,
    /// The server refused, or the outcome is unknown.
    Failed,
}

/// Why a lease is no longer held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseLoss {
    /// The lease could not be renewed in time.
    NotRenewed,
    /// Another replica is the holder.
    Taken(Arc<str>),
    /// The lease was released.
    Released,
    /// The candidate gave up the lease, because work that it started does not end: see [`Election::give_up`].
    GivenUp,
}

/// The right to act for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerm {
    /// The time just before the last successful renewal was sent.
    renewed: Moment,
    timing: Timing,
}

impl LeaseTerm {
    /// A term that counts from `renewed`.
    #[must_use]
    pub fn new(renewed: Moment, timing: Timing) -> Self {
        Self { renewed, timing }
    }

    /// How long a request that starts now may take. `None` if no request may start any more.
    ///
    /// The limit is half-way between the last moment at which a request may start and the first moment at which another
    /// replica may hold the lease. So the last request has some time, and clocks may run unequally.
    #[must_use]
    pub fn may_start(&self, now: Moment) -> Option<Duration> {
        let Timing { duration, renew_deadline, .. } = self.timing;
        let end = self.renewed + (duration + renew_deadline) / 2;
        (now < self.until()).then(|| Duration::saturating_sub(end.0, now.0))
    }

    /// The first moment at which no request may start.
    #[must_use]
    pub fn until(&self) -> Moment {
        self.renewed + self.timing.renew_deadline
    }
}

/// A state of the lease, as seen.
#[derive(Clone, Debug)]
struct SeenLease {
    /// `None` if the object does not exist.
    version: Option<LeaseVersion>,
    record: LeaseRecord,
    /// When it was first seen.
    at: Moment,
}

/// A write under way.
#[derive(Clone, Debug)]
struct PendingLeaseWrite {
    record: LeaseRecord,
    purpose: Purpose,
    sent: Moment,
}

/// One candidate's side of the election.
#[derive(Debug)]
pub struct Election {
    me: Arc<str>,
    timing: Timing,
    /// `None` if nothing is known.
    seen: Option<SeenLease>,
    /// Whether the last known state may be outdated, so that it must be read before a write.
    must_look: bool,
    /// The time just before the last successful renewal was sent.
    held: Option<Moment>,
    pending: Option<PendingLeaseWrite>,
    /// Whether this candidate has tried to acquire the lease and has seen no other holder since. If so, a record with
    /// its own name comes from that attempt. Without a claim, such a record means that the server was restored to a
    /// state from before another replica's term, which may still last.
    has_claim: bool,
    next_try: Moment,
    /// Until this moment, requests from a lost term may still be under way, so the lease is not released.
    quiet: Moment,
    loss: Option<LeaseLoss>,
}

impl Election {
    /// The candidate `me`. The name must be unique to this process. A later process on the same machine has another
    /// name.
    #[must_use]
    pub fn new(me: Arc<str>, timing: Timing) -> Self {
        let (next_try, quiet) = (Moment::default(), Moment::default());
        Self {
            me,
            timing,
            seen: None,
            must_look: true,
            held: None,
            pending: None,
            has_claim: false,
            next_try,
            quiet,
            loss: None,
        }
    }

    /// The current right to act. `None` if another replica holds the lease, or none does.
    #[must_use]
    pub fn term(&self) -> Option<LeaseTerm> {
        self.held.map(|renewed| LeaseTerm::new(renewed, self.timing))
    }

    /// Why the lease was lost. Returned once for each loss.
    pub fn take_loss(&mut self) -> Option<LeaseLoss> {
        self.loss.take()
    }

    /// Stops renewing, because work that was started does not end. The lease then runs out instead of being released.
    /// The caller wishes [`LeaseWish::Yield`] from now on.
    pub fn give_up(&mut self) {
        self.lose(LeaseLoss::GivenUp);
    }

    /// The last holder seen. `None` if there is none, or if it is not known.
    #[must_use]
    pub fn holder(&self) -> Option<&Arc<str>> {
        if self.held.is_some() {
            return Some(&self.me);
        }
        self.seen.as_ref().map(|seen| &seen.record.holder).filter(|holder| !holder.is_empty())
    }

    /// Takes a state of the lease from a watch, which may be late. A holder learns only from its own requests.
    pub fn observe(&mut self, found: FoundLease, now: Moment) {
        if self.held.is_some() || self.pending.is_some() {
            return;
        }
        self.see(found, now);
        self.must_look = false;
    }

    fn see(&mut self, found: FoundLease, now: Moment) {
        if found.as_ref().is_some_and(|(_, record)| !record.holder.is_empty() && record.holder != self.me) {
            self.has_claim = false;
        }
        match (found, &mut self.seen) {
            (Some((version, _)), Some(seen)) if seen.version.as_ref() == Some(&version) => {}
            (Some((version, record)), seen) => *seen = Some(SeenLease { version: Some(version), record, at: now }),
            // The former holder does not know yet that its lease was deleted, so the lease counts as held for its full
            // duration.
            (None, Some(seen)) => seen.version = None,
            (None, seen) => *seen = Some(SeenLease { version: None, record: free(0), at: now }),
        }
    }

    /// Returns the step to take now. If that step is a read or a write, report its result to [`Election::answered`]
    /// before the next call.
    pub fn next(&mut self, now: Moment, wish: LeaseWish) -> ElectionStep {
        self.expire(now);
        if now < self.next_try && !self.may_let_go(now, wish) {
            let mut until = self.term().map_or(self.next_try, |term| self.next_try.min(term.until()));
            if wish == LeaseWish::Yield && now < self.quiet {
                until = until.min(self.quiet);
            }
            return ElectionStep::WaitUntil(until);
        }
        let Some(seen) = self.seen.clone().filter(|_| !self.must_look) else {
            return ElectionStep::Look { limit: self.limit(now) };
        };
        let is_mine = self.has_claim && seen.record.holder == self.me;
        match wish {
            LeaseWish::Yield if now < self.quiet && self.held.is_some() => self.write(&seen, Purpose::Renew, now),
            LeaseWish::Yield if now < self.quiet && is_mine => ElectionStep::WaitUntil(self.quiet),
            LeaseWish::Yield if self.held.is_some() || is_mine => {
                if self.held.take().is_some() {
                    self.loss = Some(LeaseLoss::Released);
                }
                self.write(&seen, Purpose::Release, now)
            }
            LeaseWish::Yield => ElectionStep::WaitUntil(never()),
            LeaseWish::Hold { .. } if self.held.is_some() => self.write(&seen, Purpose::Renew, now),
            // The record has this candidate's own name: the answer to its write was lost, or its term has run out.
            LeaseWish::Hold { .. } if is_mine => self.write(&seen, Purpose::Acquire, now),
            LeaseWish::Hold { after } => {
                let held_for = if seen.record.holder.is_empty() { Duration::ZERO } else { seen.record.duration };
                let start = seen.at + held_for + after;
                if now < start { ElectionStep::WaitUntil(start) } else { self.write(&seen, Purpose::Acquire, now) }
            }
        }
    }

    /// Whether the lease may be released before the next renewal is due: it is held and its state is known. A host
    /// that stops has little time.
    fn may_let_go(&self, now: Moment, wish: LeaseWish) -> bool {
        wish == LeaseWish::Yield && self.held.is_some() && !self.must_look && now >= self.quiet
    }

    /// Takes the result of the last read or write. `jitter` is between 0 and 1 and keeps candidates from acting in
    /// step.
    pub fn answered(&mut self, answer: ElectionAnswer, now: Moment, jitter: f64) {
        let pending = self.pending.take();
        let again = self.timing.retry_period.mul_f64(1.0 + 0.2 * jitter);
        match (answer, pending) {
            (ElectionAnswer::Written { version, acquired }, Some(PendingLeaseWrite { record, purpose, sent })) => {
                let record = LeaseRecord { acquired, ..record };
                self.seen = Some(SeenLease { version: Some(version), record, at: now });
                self.held = (purpose != Purpose::Release).then_some(sent);
                self.next_try = sent + again;
            }
            (ElectionAnswer::Found(found), _) => {
                self.must_look = false;
                self.find(found, now);
            }
            (ElectionAnswer::Conflict, _) => self.must_look = true,
            (ElectionAnswer::Failed | ElectionAnswer::Written { .. }, pending) => {
                self.must_look = true;
                self.next_try = pending.map_or(now, |pending| pending.sent) + again;
            }
        }
        self.expire(now);
    }

    /// Takes the result of a read.
    fn find(&mut self, found: FoundLease, now: Moment) {
        let holder = found.as_ref().map(|(_, record)| record.holder.clone());
        if let (Some(holder), true) = (holder.filter(|holder| *holder != self.me), self.held.is_some()) {
            self.lose(LeaseLoss::Taken(holder));
        }
        self.see(found, now);
    }

    fn expire(&mut self, now: Moment) {
        if self.term().is_some_and(|term| term.may_start(now).is_none()) {
            self.lose(LeaseLoss::NotRenewed);
            self.must_look = true;
        }
    }

    /// Ends the term. Requests that it started may still be under way, because nothing has waited for them.
    fn lose(&mut self, loss: LeaseLoss) {
        if let Some(renewed) = self.held.take() {
            self.quiet = self.quiet.max(renewed + self.timing.duration);
            self.loss = Some(loss);
        }
    }

    /// The timeout of a request, so that at least two attempts fit into the renew deadline.
    fn limit(&self, now: Moment) -> Duration {
        let half = self.timing.renew_deadline / 2;
        self.term().map_or(half, |term| half.min(term.until().0.saturating_sub(now.0)))
    }

    fn write(&mut self, seen: &SeenLease, purpose: Purpose, now: Moment) -> ElectionStep {
        let LeaseRecord { transitions, acquired, holder, .. } = &seen.record;
        let mine = |transitions, acquired| LeaseRecord {
            holder: self.me.clone(),
            duration: self.timing.duration,
            transitions,
            acquired,
        };
        let record = match purpose {
            Purpose::Release => free(*transitions),
            Purpose::Acquire | Purpose::Renew if *holder == self.me => mine(*transitions, acquired.clone()),
            // A Lease that did not exist has had no holder.
            Purpose::Acquire | Purpose::Renew => mine(transitions + u32::from(seen.version.is_some()), None),
        };
        let limit = self.limit(now);
        self.has_claim |= purpose != Purpose::Release;
        self.pending = Some(PendingLeaseWrite { record: record.clone(), purpose, sent: now });
        ElectionStep::Write { over: seen.version.clone(), record, purpose, limit }
    }
}

/// A released lease, as client-go writes it: its duration is so short that other replicas take the
/// lease at once.
fn free(transitions: u32) -> LeaseRecord {
    LeaseRecord { holder: "".into(), duration: Duration::from_secs(1), transitions, acquired: None }
}

fn never() -> Moment {
    Moment(Duration::MAX)
}

#[cfg(test)]
mod tests;
