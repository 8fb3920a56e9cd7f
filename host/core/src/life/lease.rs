//! One Lease's election, as in client-go's `tools/leaderelection`, without its clock and its requests (ADR 12).
//!
//! Whoever runs it asks [`Election::next`] what to do, does it, and says what came of it. Time is passed in and is
//! compared with nothing but the same machine's: when a record was *seen* to change counts, never what stands in it.
//! The clock must go on while the machine is suspended.
//!
//! Why no two hold a lease at once: a holder counts its term from *before* it sent the renewal that succeeded, and
//! starts nothing once the renew deadline has passed since; another takes over only after it has seen the same record
//! for the whole, longer, duration, and over just that record. What lies between the two is the margin for clocks that
//! run unequally and for requests that have been sent.

mod timing;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;

pub use timing::{Timing, TimingError};

/// A version of the lease's object: it differs from that of any other state. Opaque, and never ordered.
pub type LeaseVersion = Arc<str>;

/// The content of a lease. Its times are written for people, and never decided by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The holder. Empty: the lease was released.
    pub holder: Arc<str>,
    /// For how long after it was last seen to change nobody else may take it.
    pub duration: Duration,
    /// How often it went from one holder to another.
    pub transitions: u32,
    /// When its holder came by it, as the holder wrote it. None: now.
    pub acquired: Option<Arc<str>>,
}

/// The lease as it was found: none, or one state of it.
pub type FoundLease = Option<(LeaseVersion, LeaseRecord)>;

/// A candidate's wish about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseWish {
    /// To take it so long after it has become free, and to keep it.
    Hold { after: Duration },
    /// To let go of it.
    Yield,
}

/// The purpose of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Acquire,
    Renew,
    /// To let go of it.
    Release,
}

/// The step to take now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionStep {
    /// Nothing before this moment, unless something is observed or wished.
    WaitUntil(Moment),
    Look {
        /// How long that may take.
        limit: Duration,
    },
    Write {
        /// Over which state. None: create it.
        over: Option<LeaseVersion>,
        /// The content to write.
        record: LeaseRecord,
        purpose: Purpose,
        /// How long that may take.
        limit: Duration,
    },
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionAnswer {
    Found(FoundLease),
    /// The write was carried out.
    Written {
        /// The version that it left.
        version: LeaseVersion,
        /// The acquire time as it stands there now. The renewals that follow keep it.
        acquired: Option<Arc<str>>,
    },
    /// It was not, for the lease is not in the state that was to be overwritten.
    Conflict,
    /// Nobody knows, or the server refused.
    Failed,
}

/// Why a lease is held no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseLoss {
    /// It could not be renewed in time.
    NotRenewed,
    /// Another's name stands in it.
    Taken(Arc<str>),
    /// It was let go of.
    Released,
    /// A request that was begun does not end: [`Election::give_up`].
    GivenUp,
}

/// The right to act for a lease, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerm {
    /// When the last renewal that succeeded was about to be sent.
    renewed: Moment,
    timing: Timing,
}

impl LeaseTerm {
    /// Since `renewed`.
    #[must_use]
    pub fn new(renewed: Moment, timing: Timing) -> Self {
        Self { renewed, timing }
    }

    /// How long a request that starts now may take. None: none may start any more.
    ///
    /// It ends half-way between the last moment at which one may start and the first at which another may hold the
    /// lease: so the last one has some time, and clocks may run unequally.
    #[must_use]
    pub fn may_start(&self, now: Moment) -> Option<Duration> {
        let Timing { duration, renew_deadline, .. } = self.timing;
        let end = self.renewed + (duration + renew_deadline) / 2;
        (now < self.until()).then(|| Duration::saturating_sub(end.0, now.0))
    }

    /// The first moment at which nothing may start.
    #[must_use]
    pub fn until(&self) -> Moment {
        self.renewed + self.timing.renew_deadline
    }
}

/// A state of the lease.
#[derive(Clone, Debug)]
struct SeenLease {
    /// None: there is no such object any more, or not yet.
    version: Option<LeaseVersion>,
    record: LeaseRecord,
    /// When it was first seen.
    at: Moment,
}

/// A write on its way.
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
    /// None: nothing is known.
    seen: Option<SeenLease>,
    /// The last known state may be old: look before writing.
    must_look: bool,
    /// When the last successful renewal was about to be sent.
    held: Option<Moment>,
    pending: Option<PendingLeaseWrite>,
    /// It has asked for the lease, and has seen nobody else's name since: where its own stands, it is of that. If not, the
    /// server has gone back to a state from before another's term, which may still last.
    has_claim: bool,
    next_try: Moment,
    /// Until then, what was started in a term that was lost may still be carried out: the lease is not let go of before.
    quiet: Moment,
    loss: Option<LeaseLoss>,
}

impl Election {
    /// The candidate `me`, whose name nobody else ever has: not even the same machine's next process.
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

    /// The right to act. None: another holds the lease, or nobody.
    #[must_use]
    pub fn term(&self) -> Option<LeaseTerm> {
        self.held.map(|renewed| LeaseTerm::new(renewed, self.timing))
    }

    /// Why it was lost, once after it was.
    pub fn take_loss(&mut self) -> Option<LeaseLoss> {
        self.loss.take()
    }

    /// Renews it no more, for what was started does not end: so it cannot be let go of before it would have run out.
    /// Whoever says this wishes [`LeaseWish::Yield`] from now on.
    pub fn give_up(&mut self) {
        self.lose(LeaseLoss::GivenUp);
    }

    /// The holder that was seen last. None: nobody holds it, or it is not known.
    #[must_use]
    pub fn holder(&self) -> Option<&Arc<str>> {
        if self.held.is_some() {
            return Some(&self.me);
        }
        self.seen.as_ref().map(|seen| &seen.record.holder).filter(|holder| !holder.is_empty())
    }

    /// The lease has been seen to be so: by a watch, which may be late. A holder learns from its own requests alone.
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
            // Whose lease was deleted does not know yet, and has what time it had.
            (None, Some(seen)) => seen.version = None,
            (None, seen) => *seen = Some(SeenLease { version: None, record: free(0), at: now }),
        }
    }

    /// Returns the step to take now. After a look or a write, [`Election::answered`] comes first.
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
            // Of a write whose answer was lost, or of a term that ran out.
            LeaseWish::Hold { .. } if is_mine => self.write(&seen, Purpose::Acquire, now),
            LeaseWish::Hold { after } => {
                let held_for = if seen.record.holder.is_empty() { Duration::ZERO } else { seen.record.duration };
                let start = seen.at + held_for + after;
                if now < start { ElectionStep::WaitUntil(start) } else { self.write(&seen, Purpose::Acquire, now) }
            }
        }
    }

    /// A lease that is held and known well enough can be released before the next renewal is due: a host that stops has
    /// little time.
    fn may_let_go(&self, now: Moment, wish: LeaseWish) -> bool {
        wish == LeaseWish::Yield && self.held.is_some() && !self.must_look && now >= self.quiet
    }

    /// Takes the result of the last look or write. `jitter` is between 0 and 1, so that candidates do not go in step.
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

    /// The result of a look was true a moment ago.
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

    /// Nothing may be started any more, and what was may not be over: nobody has waited for it.
    fn lose(&mut self, loss: LeaseLoss) {
        if let Some(renewed) = self.held.take() {
            self.quiet = self.quiet.max(renewed + self.timing.duration);
            self.loss = Some(loss);
        }
    }

    /// At least two attempts fit into the renew deadline.
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
            // One that never was, has had no holder.
            Purpose::Acquire | Purpose::Renew => mine(transitions + u32::from(seen.version.is_some()), None),
        };
        let limit = self.limit(now);
        self.has_claim |= purpose != Purpose::Release;
        self.pending = Some(PendingLeaseWrite { record: record.clone(), purpose, sent: now });
        ElectionStep::Write { over: seen.version.clone(), record, purpose, limit }
    }
}

/// As client-go writes it: free at once for whoever goes by the record's duration.
fn free(transitions: u32) -> LeaseRecord {
    LeaseRecord { holder: "".into(), duration: Duration::from_secs(1), transitions, acquired: None }
}

fn never() -> Moment {
    Moment(Duration::MAX)
}

#[cfg(test)]
mod tests;
