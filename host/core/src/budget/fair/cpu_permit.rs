//! The CPU permit of one call, which the call gives up while it waits.
//!
//! A wait may last until the call's deadline. A waiting call without a CPU permit does not delay other calls. A
//! call has one wait at a time (ADR 36): where the host waits for several things on its behalf, a single
//! [`CpuPermit::without`] surrounds all of them.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::schedule::Schedule;
use super::{CpuShare, Wants};

/// The state of one call.
#[derive(Debug)]
pub(super) struct CpuPermitInner {
    pub(super) share: CpuShare,
    now: Mutex<CpuPermitState>,
}

#[derive(Debug)]
struct CpuPermitState {
    is_held: bool,
    /// CPU time of the call that has been charged so far.
    paid: Duration,
    is_over: bool,
}

/// The parts of a permit to return when a call ends.
pub(super) struct PermitReturn {
    pub(super) was_held: bool,
    /// CPU time of the call that has been charged already.
    pub(super) paid: Duration,
}

impl CpuPermitInner {
    /// The state of a call that begins with a CPU permit.
    pub(super) fn held(share: CpuShare) -> Arc<Self> {
        Arc::new(Self {
            share,
            now: Mutex::new(CpuPermitState { is_held: true, paid: Duration::ZERO, is_over: false }),
        })
    }

    /// Ends the call.
    pub(super) fn end(&self) -> PermitReturn {
        let mut now = self.now();
        now.is_over = true;
        PermitReturn { was_held: std::mem::take(&mut now.is_held), paid: now.paid }
    }

    fn needs_none(&self) -> bool {
        let now = self.now();
        now.is_held || now.is_over
    }

    fn now(&self) -> MutexGuard<'_, CpuPermitState> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The CPU permit of a call. Work outside a call uses a permit that never waits. Clones are the same permit.
#[derive(Clone, Debug, Default)]
pub struct CpuPermit(Option<Arc<CpuPermitInner>>);

impl CpuPermit {
    pub(super) fn of(inner: &Arc<CpuPermitInner>) -> Self {
        Self(Some(inner.clone()))
    }

    /// Charges the CPU time that the call has used so far. Returns whether it should give up its CPU permit because a
    /// plugin that has used much less is waiting for one.
    #[must_use]
    pub fn is_wanted(&self, cpu: Duration) -> bool {
        let Some(inner) = &self.0 else { return false };
        let mut now = inner.now();
        if !now.is_held {
            return false;
        }
        let more = cpu.saturating_sub(now.paid);
        now.paid += more;
        inner.share.is_wanted(more)
    }

    /// Waits for `work`, and gives up the CPU permit if `work` is not ready at once. `work` must not wait on this
    /// same permit: the inner wait would take the permit back while the outer wait goes on.
    ///
    /// Dropping the future leaves the call without the permit until its next wait has ended.
    pub async fn without<F: Future>(&self, work: F) -> F::Output {
        let (mut work, mut is_waiting) = (pin!(work), false);
        // Poll `work` only once per poll of the task. Work that merely yields the thread would complete if it were
        // polled again at once.
        let output = std::future::poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            if polled.is_pending() && !std::mem::replace(&mut is_waiting, true) {
                self.give_up();
            }
            polled
        })
        .await;
        if is_waiting {
            self.regain().await;
        }
        output
    }

    /// Gives up the CPU permit to a waiter, and waits until the call has a permit again.
    pub async fn let_others(&self) {
        self.give_up();
        self.regain().await;
    }

    fn give_up(&self) {
        let Some(inner) = &self.0 else { return };
        let was_held = std::mem::take(&mut inner.now().is_held);
        if was_held {
            inner.share.give_back(Schedule::pause);
        }
    }

    async fn regain(&self) {
        let Some(inner) = &self.0 else { return };
        if inner.needs_none() {
            return;
        }
        let granted = inner.share.granted(Wants::ToGoOn).await;
        let mut now = inner.now();
        // The call may have ended in the meantime.
        if !now.is_held && !now.is_over {
            now.is_held = true;
            granted.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use futures::FutureExt;

    use super::super::{CallPermit, Fair};
    use super::*;

    fn shares<const N: usize>(permits: u32, call_slots: u32) -> [CpuShare; N] {
        let fair = Fair::new(permits, call_slots);
        std::array::from_fn(|_| fair.share(NonZeroU32::MIN))
    }

    fn at_once(share: &CpuShare) -> Option<CallPermit> {
        share.acquire().now_or_never()
    }

    #[test]
    fn a_yielding_task_is_polled_again_only_after_others() {
        let [leaves, neighbour] = shares(1, 8);
        let call = at_once(&leaves).expect("free");
        let permit = call.cpu_permit();
        let mut leaving = Box::pin(permit.without(super::super::leave_thread()));
        assert!(leaving.as_mut().now_or_never().is_none());
        at_once(&neighbour).expect("its CPU permit is free").finish(Duration::ZERO);
        assert!(leaving.now_or_never().is_some());
    }

    #[test]
    fn a_waiting_call_leaves_the_only_permit_to_others() {
        let [waiter, neighbour] = shares(1, 8);
        let call = at_once(&waiter).expect("free");
        assert!(at_once(&neighbour).is_none());
        let cpu_permit = call.cpu_permit();
        cpu_permit.give_up();
        let other = at_once(&neighbour).expect("no call runs");
        let mut again = Box::pin(cpu_permit.regain());
        assert!(again.as_mut().now_or_never().is_none(), "its CPU permit is another's now");
        other.finish(Duration::ZERO);
        assert!(again.now_or_never().is_some());
        assert!(at_once(&neighbour).is_none(), "it works again");
        call.finish(Duration::ZERO);
        assert!(at_once(&neighbour).is_some());
    }

    #[test]
    fn work_that_is_ready_at_once_keeps_the_permit() {
        let [share, neighbour] = shares(1, 8);
        let call = at_once(&share).expect("free");
        let mut waiting = Box::pin(neighbour.acquire());
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(call.cpu_permit().without(std::future::ready(7)).now_or_never(), Some(7));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(call.cpu_permit().without(std::future::pending::<()>()).now_or_never().is_none());
        assert!(waiting.now_or_never().is_some());
    }

    #[test]
    fn a_call_that_used_much_yields_to_one_that_did_not_and_resumes() {
        let [spins, comes] = shares(1, 8);
        let (long, milliseconds) = (at_once(&spins).expect("free"), Duration::from_millis);
        assert!(!long.cpu_permit().is_wanted(milliseconds(100)), "no plugin waits");
        let mut coming = Box::pin(comes.acquire());
        assert!(coming.as_mut().now_or_never().is_none());
        assert!(long.cpu_permit().is_wanted(milliseconds(101)));
        let cpu_permit = long.cpu_permit();
        let mut again = Box::pin(cpu_permit.let_others());
        assert!(again.as_mut().now_or_never().is_none());
        assert!(!long.cpu_permit().is_wanted(milliseconds(101)), "it has no CPU permit to give");
        let short = coming.now_or_never().expect("it has the CPU permit");
        assert!(!short.cpu_permit().is_wanted(milliseconds(1)));
        short.finish(milliseconds(1));
        assert!(again.now_or_never().is_some());
        long.finish(milliseconds(102));
        assert!(!CpuPermit::default().is_wanted(milliseconds(100)), "no call, no CPU permit");
    }

    #[test]
    fn no_way_to_end_a_wait_loses_or_creates_a_permit() {
        let [share, neighbour] = shares(1, 8);
        for how in 0..4 {
            let call = at_once(&share).expect("free");
            let cpu_permit = call.cpu_permit();
            cpu_permit.give_up();
            match how {
                // The call ends during its wait.
                0 => call.finish(Duration::ZERO),
                // The wait for the permit is cancelled.
                1 => drop(cpu_permit.regain()),
                // The call ends while it waits for its CPU permit.
                2 => {
                    let other = at_once(&neighbour).expect("no call runs");
                    let mut again = Box::pin(cpu_permit.regain());
                    assert!(again.as_mut().now_or_never().is_none());
                    drop(call);
                    other.unused();
                    assert!(again.now_or_never().is_some());
                }
                _ => {
                    let other = at_once(&neighbour).expect("no call runs");
                    assert!(cpu_permit.regain().now_or_never().is_none());
                    other.unused();
                }
            }
            let only = at_once(&neighbour).expect("a CPU permit is free");
            assert!(at_once(&share).is_none(), "and no more than one");
            only.unused();
        }
    }

    #[test]
    fn after_a_cancelled_wait_the_next_wait_regains_the_permit() {
        let [share, neighbour] = shares(1, 8);
        let call = at_once(&share).expect("free");
        let cpu_permit = call.cpu_permit();
        assert!(cpu_permit.without(std::future::pending::<()>()).now_or_never().is_none());
        let mut leaving = Box::pin(cpu_permit.without(super::super::leave_thread()));
        assert!(leaving.as_mut().now_or_never().is_none());
        assert!(leaving.now_or_never().is_some());
        assert!(at_once(&neighbour).is_none(), "it works again");
        drop(call);
    }

    #[test]
    fn waiting_calls_hold_half_the_slots_the_next_plugin_half_the_rest() {
        let shares: [CpuShare; 4] = shares(4, 16);
        let mut begun = Vec::new();
        let found = [0, 1, 2, 3].map(|plugin| {
            let share: &CpuShare = &shares[plugin];
            let before = begun.len();
            while let Some(call) = at_once(share) {
                call.cpu_permit().give_up();
                begun.push(call);
            }
            begun.len() - before
        });
        assert_eq!(found, [8, 4, 2, 1]);
    }
}
