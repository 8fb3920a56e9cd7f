//! Permits for calls, shared fairly between plugins by the CPU that each has used (ADR 4, ADR 15). No more calls
//! compute at once than there are CPU permits, and a plugin with a hundred thousand keys does not hold up another
//! plugin's single key.
//!
//! Dispatch acquires a permit before each call and returns it together with the CPU that the call used. `schedule`
//! decides who is next. A permit consists of a call slot, held until the call ends, and a CPU permit (`cpu_permit`).
//! A call gives up its CPU permit while it waits for the API server or for a budget, and also in the middle of its
//! work if a plugin that has used less is waiting. The number of workers bounds the calls of one controller; this
//! module does not know that number.

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

/// A waiter. A call that begins waits for a call slot and a CPU permit; a call that goes on waits for a CPU permit.
struct PermitWaiter {
    share: CpuShare,
    wants: Wants,
    granted: oneshot::Sender<Granted>,
}

impl Fair {
    /// Creates the permits: at most `permits` calls (at least one) compute at once, and at most `call_slots` calls (at
    /// least `permits`) are open.
    #[must_use]
    pub fn new(permits: u32, call_slots: u32) -> Self {
        Self::in_order(permits, call_slots, CpuOrder::LeastUsed)
    }

    /// As [`Self::new`], but grants permits first come, first served, whatever each plugin has used. Used when the
    /// feature `FairDispatch` is off.
    #[must_use]
    pub fn first_come(permits: u32, call_slots: u32) -> Self {
        Self::in_order(permits, call_slots, CpuOrder::FirstCome)
    }

    fn in_order(permits: u32, call_slots: u32, order: CpuOrder) -> Self {
        Self { schedule: Arc::new(Mutex::new(Schedule::new(permits, call_slots, order))) }
    }

    /// Opens one plugin's share. Its size relative to other shares is its weight.
    #[must_use]
    pub fn share(&self, weight: NonZeroU32) -> CpuShare {
        let id = self.lock().join(weight);
        CpuShare { account: Arc::new(ShareAccount { fair: self.clone(), id }) }
    }

    /// Grants free CPU permits and call slots to waiters.
    fn hand_out(&self) {
        // Send without holding the lock: if the receiver is gone, the CPU permit comes back at once
        // and takes the lock.
        while let Some(PermitWaiter { share, wants, granted }) = self.next() {
            drop(granted.send(Granted { share, wants, is_taken: false }));
        }
    }

    fn next(&self) -> Option<PermitWaiter> {
        self.lock().grant().map(|(_, waiter)| waiter)
    }

    fn lock(&self) -> MutexGuard<'_, Schedule<PermitWaiter>> {
        // A panic under this lock would mean that the state is broken beyond repair anyway.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Fair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fair")
    }
}

/// One plugin's share of the permits, for all its controllers. Clones are the same share. The share ends when its last
/// clone is dropped.
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
        // Waiters and permits hold a reference to the account, so no waiter or permit is left here.
        self.fair.lock().leave(self.id);
    }
}

impl CpuShare {
    /// Waits for a permit. Cancel safe.
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

    /// Charges `more` CPU to a call that has a CPU permit. Returns whether the call should give up that permit to
    /// another plugin.
    fn is_wanted(&self, more: Duration) -> bool {
        let ShareAccount { fair, id } = &*self.account;
        let mut schedule = fair.lock();
        schedule.pay(*id, more);
        schedule.is_wanted(*id)
    }

    /// Changes the schedule, then grants what has become free.
    fn give_back(&self, how: impl FnOnce(&mut Schedule<PermitWaiter>, AccountId)) {
        let ShareAccount { fair, id } = &*self.account;
        how(&mut fair.lock(), *id);
        fair.hand_out();
    }
}

/// A CPU permit on its way to its waiter. It returns to the schedule if the waiter is gone.
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

/// Cancels the wait when its future is dropped.
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
        // From here on, a CPU permit that is sent returns to its sender. A permit that arrived earlier is dropped here,
        // which returns it too.
        self.granted.close();
        drop(self.granted.try_recv());
    }
}

/// The right to make one call. Dropping it without `finish` charges the plugin's estimate for one call.
#[derive(Debug)]
#[must_use = "a permit that is dropped is given back"]
pub struct CallPermit {
    inner: Arc<CpuPermitInner>,
    is_returned: bool,
}

impl CallPermit {
    /// The call's CPU permit, for code that makes the call wait.
    #[must_use]
    pub fn cpu_permit(&self) -> CpuPermit {
        CpuPermit::of(&self.inner)
    }

    /// Gives the permit back after a call that used `cpu`.
    pub fn finish(mut self, cpu: Duration) {
        self.end(Some(cpu));
    }

    /// Gives the permit back without a call. The plugin is charged nothing.
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
    fn a_lone_plugin_leaves_a_permit_free() {
        let [greedy, neighbour] = shares(4);
        let held: Vec<_> = std::iter::from_fn(|| at_once(&greedy)).collect();
        assert_eq!(held.len(), 3);
        assert!(at_once(&neighbour).is_some());
    }

    #[test]
    fn a_returned_permit_goes_to_a_waiter() {
        let [one, other] = shares(1);
        let permit = at_once(&one).expect("free");
        let mut waiting = pin!(other.acquire());
        assert!(waiting.as_mut().now_or_never().is_none());
        permit.finish(Duration::from_millis(1));
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn a_cancelled_wait_leaves_no_trace() {
        let [one, other] = shares(1);
        let permit = at_once(&one).expect("free");
        assert!(at_once(&other).is_none(), "it waits, and is dropped");
        let mut waiting = pin!(other.acquire());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(permit);
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn a_permit_granted_to_a_cancelled_waiter_goes_to_the_next() {
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
