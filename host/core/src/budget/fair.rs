//! Permits for calls, shared fairly between plugins by the CPU that each used (ADR 4, ADR 15): no more calls are at
//! work at once than the host has CPU permits, and a plugin with a hundred thousand keys does not hold up another's
//! single one.
//!
//! Dispatch asks for a permit before each call and gives it back with what the call used; `schedule` decides who is
//! next. A permit is a call slot, for as long as the call lasts, and a CPU permit, which the call gives up while it
//! waits for something (`cpu_permit`): for the API server, for its own budgets; and half-way, as soon as it can, if a
//! plugin that has used less waits for one. How many calls one controller may have at once is its number of workers,
//! and none of this module's concern.

mod cpu_permit;
mod schedule;
mod thread;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

pub use self::cpu_permit::CpuPermit;
use self::cpu_permit::{CpuPermitInner, PermitReturn};
use self::schedule::{CpuOrder, Schedule};
pub use self::thread::{LEAVES_THREAD_AFTER, leave_thread};
use crate::budget::accounts::{AccountId, WaitTicket, Wants};

/// The host's permits. Clones share them.
#[derive(Clone)]
pub struct Fair {
    schedule: Arc<Mutex<Schedule<PermitWaiter>>>,
}

/// Somebody who waits to begin, for a call slot and a CPU permit, or to go on, for a CPU permit.
struct PermitWaiter {
    share: CpuShare,
    wants: Wants,
    granted: oneshot::Sender<Granted>,
}

impl Fair {
    /// `permits` calls may be at work at once, at least one, and `call_slots` may have begun, no fewer.
    #[must_use]
    pub fn new(permits: u32, call_slots: u32) -> Self {
        Self::in_order(permits, call_slots, CpuOrder::LeastUsed)
    }

    /// As much for whoever comes first, whatever each has used: without the feature `FairDispatch`.
    #[must_use]
    pub fn first_come(permits: u32, call_slots: u32) -> Self {
        Self::in_order(permits, call_slots, CpuOrder::FirstCome)
    }

    fn in_order(permits: u32, call_slots: u32, order: CpuOrder) -> Self {
        Self { schedule: Arc::new(Mutex::new(Schedule::new(permits, call_slots, order))) }
    }

    /// A share of the permits, as large, relative to the others, as its weight. One for each plugin.
    #[must_use]
    pub fn share(&self, weight: NonZeroU32) -> CpuShare {
        let id = self.lock().join(weight);
        CpuShare { account: Arc::new(ShareAccount { fair: self.clone(), id }) }
    }

    /// Gives what is free to those who wait.
    fn hand_out(&self) {
        // The lock is free again when a CPU permit is sent: one that nobody takes comes back at once.
        while let Some(PermitWaiter { share, wants, granted }) = self.next() {
            drop(granted.send(Granted { share, wants, is_taken: false }));
        }
    }

    fn next(&self) -> Option<PermitWaiter> {
        self.lock().grant().map(|(_, waiter)| waiter)
    }

    fn lock(&self) -> MutexGuard<'_, Schedule<PermitWaiter>> {
        // Nothing under this lock panics half-way through a change unless it is broken beyond repair anyway.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Fair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fair")
    }
}

/// One plugin's share of the permits, for all its controllers. Clones are the same share; it ends with the last of them.
#[derive(Clone, Debug)]
pub struct CpuShare {
    account: Arc<ShareAccount>,
}

#[derive(Debug)]
struct ShareAccount {
    fair: Fair,
    id: AccountId,
}

impl Drop for ShareAccount {
    fn drop(&mut self) {
        // Waiters and permits hold the account, so none is left.
        self.fair.lock().leave(self.id);
    }
}

impl CpuShare {
    /// Waits for a permit. Dropping the future leaves nothing behind.
    pub async fn acquire(&self) -> CallPermit {
        self.granted(Wants::ToBegin).await.take();
        CallPermit { inner: CpuPermitInner::held(self.clone()), is_returned: false }
    }

    async fn granted(&self, wants: Wants) -> Granted {
        let (sender, granted) = oneshot::channel();
        let ShareAccount { fair, id } = &*self.account;
        let waiter = PermitWaiter { share: self.clone(), wants, granted: sender };
        let ticket = match wants {
            Wants::ToBegin => fair.lock().begin(*id, waiter),
            Wants::ToGoOn => fair.lock().go_on(*id, waiter),
        };
        let mut acquiring = Acquiring { share: self, ticket, granted };
        fair.hand_out();
        let Ok(granted) = (&mut acquiring.granted).await else {
            unreachable!("a waiter is in the schedule until it has its CPU permit")
        };
        granted
    }

    /// A call of it that has a CPU permit has used so much `more`. Returns whether somebody should have that CPU permit
    /// instead.
    fn is_wanted(&self, more: Duration) -> bool {
        let ShareAccount { fair, id } = &*self.account;
        let mut schedule = fair.lock();
        schedule.pay(*id, more);
        schedule.is_wanted(*id)
    }

    /// Changes the schedule, and gives to those who wait what has become free.
    fn give_back(&self, how: impl FnOnce(&mut Schedule<PermitWaiter>, AccountId)) {
        let ShareAccount { fair, id } = &*self.account;
        how(&mut fair.lock(), *id);
        fair.hand_out();
    }
}

/// A CPU permit on its way to who waited for it. If nobody takes it, it comes back.
#[derive(Debug)]
struct Granted {
    share: CpuShare,
    wants: Wants,
    is_taken: bool,
}

impl Granted {
    fn take(mut self) {
        self.is_taken = true;
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let wants = self.wants;
        self.share.give_back(|schedule, id| {
            schedule.pause(id);
            if wants == Wants::ToBegin {
                schedule.end_unused(id);
            }
        });
    }
}

/// Undoes a wait when its future is dropped.
struct Acquiring<'a> {
    share: &'a CpuShare,
    ticket: WaitTicket,
    granted: oneshot::Receiver<Granted>,
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        let ShareAccount { fair, id } = &*self.share.account;
        let cancelled = fair.lock().cancel(*id, self.ticket);
        drop(cancelled);
        // From here on a CPU permit that is on its way comes back to its sender; this one had arrived before.
        self.granted.close();
        drop(self.granted.try_recv());
    }
}

/// The right to make one call. Dropped without a word, it comes back at the price of what such calls use.
#[derive(Debug)]
#[must_use = "a permit that is dropped is given back"]
pub struct CallPermit {
    inner: Arc<CpuPermitInner>,
    is_returned: bool,
}

impl CallPermit {
    /// The call's CPU permit, for whoever has the call wait.
    #[must_use]
    pub fn cpu_permit(&self) -> CpuPermit {
        CpuPermit::of(&self.inner)
    }

    /// Gives the permit back after a call that used `cpu`.
    pub fn finish(mut self, cpu: Duration) {
        self.end(Some(cpu));
    }

    /// Gives the permit back without having made a call; it costs nothing.
    pub fn unused(mut self) {
        self.give_back(|schedule, id, _| schedule.end_unused(id));
    }

    fn end(&mut self, cpu: Option<Duration>) {
        self.give_back(|schedule, id, paid| schedule.end(id, cpu, paid));
    }

    fn give_back(&mut self, how: impl FnOnce(&mut Schedule<PermitWaiter>, AccountId, Duration)) {
        self.is_returned = true;
        let PermitReturn { was_held, paid } = self.inner.end();
        self.inner.share.give_back(|schedule, id| {
            if was_held {
                schedule.pause(id);
            }
            how(schedule, id, paid);
        });
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if !self.is_returned {
            self.end(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;

    fn shares<const N: usize>(permits: u32) -> [CpuShare; N] {
        let fair = Fair::new(permits, 2 * permits);
        std::array::from_fn(|_| fair.share(NonZeroU32::MIN))
    }

    fn at_once(share: &CpuShare) -> Option<CallPermit> {
        share.acquire().now_or_never()
    }

    #[test]
    fn there_are_no_more_permits_than_were_made() {
        let [one, other] = shares(2);
        let (first, second) = (at_once(&one).expect("one"), at_once(&other).expect("another"));
        assert!(at_once(&one).is_none());
        drop(first);
        let third = at_once(&one).expect("the first came back");
        assert!(at_once(&other).is_none());
        drop((second, third));
    }

    #[test]
    fn one_plugin_leaves_a_turn_to_others_even_if_nobody_wants_it() {
        let [greedy, neighbour] = shares(4);
        let held: Vec<_> = std::iter::from_fn(|| at_once(&greedy)).collect();
        assert_eq!(held.len(), 3);
        assert!(at_once(&neighbour).is_some());
    }

    #[test]
    fn a_permit_that_comes_back_goes_to_who_waits() {
        let [one, other] = shares(1);
        let permit = at_once(&one).expect("free");
        let mut waiting = pin!(other.acquire());
        assert!(waiting.as_mut().now_or_never().is_none());
        permit.finish(Duration::from_millis(1));
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn whoever_stops_waiting_leaves_no_trace() {
        let [one, other] = shares(1);
        let permit = at_once(&one).expect("free");
        assert!(at_once(&other).is_none(), "it waits, and is dropped");
        let mut waiting = pin!(other.acquire());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(permit);
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn a_permit_granted_to_someone_who_went_goes_on() {
        let [one, other] = shares(1);
        let permit = at_once(&one).expect("free");
        let mut gone = Box::pin(other.acquire());
        let mut waiting = pin!(one.acquire());
        assert!(gone.as_mut().now_or_never().is_none() && waiting.as_mut().now_or_never().is_none());
        drop(permit);
        drop(gone);
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn a_share_that_ends_makes_room_for_another() {
        let fair = Fair::new(1, 1);
        for _ in 0..3 {
            let share = fair.share(NonZeroU32::MIN);
            at_once(&share).expect("free").unused();
        }
        assert!(at_once(&fair.share(NonZeroU32::MIN)).is_some());
    }
}
