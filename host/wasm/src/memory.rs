//! The memory of all guests of the host together.
//!
//! A call reserves what its plugin's calls have needed lately before its instance is made, and waits for that; so few calls
//! outgrow what they have. (Reserving the most that a call may need instead would leave a small host with two calls at a
//! time, of plugins that need one hundredth of it.) One that does outgrow it takes more of what is free. If nothing is,
//! it waits for that *or* for the part of the budget that is kept back, which is as large as one call's limit and which one
//! call has at a time: whoever has it waits for memory no more, ends by its own deadline, and with it everything that it
//! holds is free. So the budget is a hard one, no call fails for what its neighbours use, and no two wait for each other.
//! While a call waits here, its deadline does not come nearer (`timing`).
//!
//! Of what calls share, one plugin has at most half, and beyond that only the part that is kept back: where memory is scarce,
//! one that fills it with calls that do not end would else have all its neighbours wait.
//!
//! What is counted is linear memory as it has grown, also that of parked instances, which go first when a call has to wait.
//! Tables (1.6 MB a call at most) and stacks are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::parked::ParkingLot;
use crate::timing::CallTime;

/// What linear memories grow by.
const PAGE: usize = 64 << 10;

/// The budget.
#[derive(Debug)]
pub(crate) struct GuestMemory {
    /// Pages that calls share, all of them.
    shared: u32,
    /// The most of them that one plugin has.
    of_one: u32,
    /// Those that are free.
    free: Arc<Semaphore>,
    /// One permit: the part that is kept back.
    kept_back: Arc<Semaphore>,
    /// Calls that wait now.
    waiting: AtomicUsize,
    pub(crate) lot: ParkingLot,
}

impl GuestMemory {
    /// `budget` bytes for calls that may each have `of_call`; at least one such call always has enough.
    pub(crate) fn new(budget: usize, of_call: usize, lot: ParkingLot) -> Arc<Self> {
        let shared = pages(budget.saturating_sub(of_call));
        Arc::new(Self {
            shared,
            of_one: shared / 2,
            free: Arc::new(Semaphore::new(shared as usize)),
            kept_back: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
            lot,
        })
    }

    /// What one plugin may have of it.
    pub(crate) fn share(&self) -> Share {
        Share(Arc::new(Semaphore::new(self.of_one as usize)))
    }

    /// An account for a call of the plugin with `share` that will probably need `bytes`. Waits until it has them, or all that
    /// the plugin may have.
    pub(crate) async fn reserve(self: &Arc<Self>, share: &Share, bytes: usize) -> Account {
        let wanted = pages(bytes).min(self.of_one);
        let held = match self.at_once(share, wanted) {
            Some(held) => held,
            None => self.wait_for(share, wanted).await,
        };
        Account { budget: self.clone(), share: share.clone(), held, kept_back: None, used: 0 }
    }

    /// Bytes that are reserved, without the part that is kept back.
    pub(crate) fn reserved(&self) -> usize {
        (self.shared as usize).saturating_sub(self.free.available_permits()) * PAGE
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    fn try_take(&self, share: &Share, pages: u32) -> Option<Held> {
        let own = share.0.clone().try_acquire_many_owned(pages).ok()?;
        let shared = self.free.clone().try_acquire_many_owned(pages).ok()?;
        Some(Held { own, shared })
    }

    /// What is free, or can be made free, without waiting.
    fn at_once(&self, share: &Share, pages: u32) -> Option<Held> {
        let mut taken = self.try_take(share, pages);
        while taken.is_none() && self.lot.evict_oldest() {
            taken = self.try_take(share, pages);
        }
        taken
    }

    async fn wait_for(&self, share: &Share, pages: u32) -> Held {
        let _waiting = Waiting::of(self);
        // Who parked before it could see that somebody waits.
        while self.lot.evict_oldest() {}
        // First its own, so that who has used that up does not stand in the way of others.
        let own = share.0.clone().acquire_many_owned(pages).await.expect("never closed");
        let shared = self.free.clone().acquire_many_owned(pages).await.expect("never closed");
        Held { own, shared }
    }
}

/// What one plugin may have of the budget. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Share(Arc<Semaphore>);

/// Pages, as many of the plugin's share as of what is shared.
#[derive(Debug)]
struct Held {
    own: OwnedSemaphorePermit,
    shared: OwnedSemaphorePermit,
}

/// A call waits, and nothing is parked meanwhile.
struct Waiting<'a>(&'a GuestMemory);

impl<'a> Waiting<'a> {
    fn of(memory: &'a GuestMemory) -> Self {
        memory.waiting.fetch_add(1, Ordering::SeqCst);
        Self(memory)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What one instance has of the budget, and uses of it. Dropping it gives all of it back.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<GuestMemory>,
    share: Share,
    held: Held,
    kept_back: Option<OwnedSemaphorePermit>,
    used: usize,
}

impl Account {
    /// Bytes that are in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Whether it has the part that is kept back for those that cannot go on without.
    pub(crate) fn has_kept_back(&self) -> bool {
        self.kept_back.is_some()
    }

    /// Has `bytes` in use. Waits for them with the clock of the call stopped.
    pub(crate) async fn grow_to(&mut self, bytes: usize, time: &CallTime) {
        let more = pages(bytes).saturating_sub(self.held_pages());
        if more > 0 && self.kept_back.is_none() {
            match self.budget.at_once(&self.share, more) {
                Some(taken) => self.hold(taken),
                None => time.stopped_for(self.wait_for(more)).await,
            }
        }
        self.used = bytes;
    }

    async fn wait_for(&mut self, more: u32) {
        let budget = self.budget.clone();
        let kept_back = budget.kept_back.clone().acquire_owned();
        if self.held_pages() + more > budget.of_one {
            self.kept_back = Some(kept_back.await.expect("never closed"));
            return;
        }
        let share = self.share.clone();
        tokio::select! {
            biased;
            taken = budget.wait_for(&share, more) => self.hold(taken),
            kept_back = kept_back => self.kept_back = Some(kept_back.expect("never closed")),
        }
    }

    fn held_pages(&self) -> u32 {
        u32::try_from(self.held.shared.num_permits()).unwrap_or(u32::MAX)
    }

    fn hold(&mut self, taken: Held) {
        self.held.own.merge(taken.own);
        self.held.shared.merge(taken.shared);
    }
}

fn pages(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PAGE)).unwrap_or(u32::MAX).min(u32::MAX >> 3)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use windlass_core::fair::Turn;

    use super::*;
    use crate::limits::Limit;

    fn memory(budget: usize, of_call: usize) -> Arc<GuestMemory> {
        GuestMemory::new(budget * PAGE, of_call * PAGE, ParkingLot::new(0, 0))
    }

    fn time() -> CallTime {
        CallTime::of(Limit::Deadline, Duration::from_secs(30), Turn::default())
    }

    #[tokio::test]
    async fn a_call_waits_for_what_its_plugin_needed_before() {
        let memory = memory(24, 4);
        let share = memory.share();
        let first = memory.reserve(&share, 6 * PAGE).await;
        let mut second = std::pin::pin!(memory.reserve(&share, 6 * PAGE));
        assert!(second.as_mut().now_or_never().is_none(), "4 of its 10 pages are free");
        assert_eq!(memory.waiting(), 1);
        drop(first);
        drop(second.await);
        assert_eq!((memory.waiting(), memory.reserved()), (0, 0));
    }

    #[tokio::test]
    async fn one_plugin_leaves_the_others_half() {
        let (memory, time) = (memory(24, 4), time());
        let (hog, neighbour) = (memory.share(), memory.share());
        let mut first = memory.reserve(&hog, 0).await;
        first.grow_to(4 * PAGE, &time).await;
        let mut second = memory.reserve(&hog, 6 * PAGE).await;
        second.grow_to(10 * PAGE, &time).await;
        assert!(second.has_kept_back(), "10 pages are the plugin's");
        assert!(memory.reserve(&hog, PAGE).now_or_never().is_none());
        assert!(memory.reserve(&neighbour, 10 * PAGE).now_or_never().is_some());
    }

    #[tokio::test]
    async fn two_that_outgrow_their_reservations_do_not_wait_for_each_other() {
        let (memory, time) = (memory(20, 8), time());
        let mut first = memory.reserve(&memory.share(), 6 * PAGE).await;
        let mut second = memory.reserve(&memory.share(), 4 * PAGE).await;
        let _third = memory.reserve(&memory.share(), 2 * PAGE).await;
        first.grow_to(8 * PAGE, &time).await;
        assert!(first.has_kept_back());
        {
            let mut growing = std::pin::pin!(second.grow_to(6 * PAGE, &time));
            assert!(growing.as_mut().now_or_never().is_none(), "nothing is left");
            drop(first);
            growing.await;
        }
        assert!(!second.has_kept_back(), "what the first gave back is enough");
    }

    #[tokio::test]
    async fn with_a_budget_for_one_call_one_runs_after_the_other() {
        let (memory, time) = (memory(4, 4), time());
        let share = memory.share();
        let (mut first, mut second) =
            (memory.reserve(&share, 9 * PAGE).await, memory.reserve(&memory.share(), PAGE).await);
        first.grow_to(4 * PAGE, &time).await;
        let mut growing = std::pin::pin!(second.grow_to(PAGE, &time));
        assert!(growing.as_mut().now_or_never().is_none());
        drop(first);
        growing.await;
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_takes_nothing_along() {
        let memory = memory(24, 4);
        let share = memory.share();
        let first = memory.reserve(&share, 6 * PAGE).await;
        assert!(memory.reserve(&share, 10 * PAGE).now_or_never().is_none());
        drop(first);
        assert_eq!((memory.waiting(), memory.reserved()), (0, 0));
        assert!(memory.reserve(&share, 10 * PAGE).now_or_never().is_some());
    }
}
