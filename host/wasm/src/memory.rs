//! The memory budget of all guests of the host.
//!
//! Before its instance is created, a call reserves as much memory as its plugin's recent calls have needed, and waits
//! for that. Therefore, only a few calls outgrow their reservation. (If each call reserved the maximum instead, a small
//! host could run only two calls at a time, even of plugins that need a hundredth of it.) A call that outgrows its
//! reservation takes free memory. If there is none, it waits for free memory *or* for the reserve, which is as large as
//! one call's limit and which only one call has at a time. A call with the reserve does not wait for memory any more
//! and ends by its deadline at the latest, and then all its memory is free. So the budget is never exceeded, no call
//! fails because of the memory of others, and no two calls wait for each other. While a call waits here, its deadline
//! is suspended (`timing`).
//!
//! Calls share the budget as a [`SharedBudget`], because otherwise plugins whose calls do not end could make all their
//! neighbours wait if memory is scarce. One plugin has at most half of it, two leave a quarter, three an eighth. If a
//! plugin holds no memory and its first call needs more than is left for the plugin, the call starts with the reserve.
//! Only one call of each plugin waits for the reserve or has it at a time, so a waiting call waits for at most one call
//! of each other plugin.
//!
//! The following memory counts: linear memory as it has grown, including that of parked instances, which are dropped
//! first when a call has to wait; the bodies of writes and the answers to imports while the host holds them, including
//! those of `wasi:http`; and the objects that a call's writes have left, which its later reads return (`room`). Bodies
//! and answers exist before they are charged, so a plugin that has never had a body or an answer can exceed the budget
//! by one import's worth per call. Tables (at most 1.6 MB per call), stacks, and single objects from a cache do not
//! count.

mod room;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_core::budget::shared_budget::{self, Portion, SharedBudget, Wants};

use crate::timing::CallTime;

/// The unit in which linear memories grow.
const MEMORY_PAGE_BYTES: usize = 64 << 10;

/// Memory that is only kept because it may save work later, namely that of parked instances.
pub(crate) trait IdleMemory: fmt::Debug + Send + Sync {
    /// Drops the part that has been idle longest. Returns false if there is none.
    fn evict_oldest(&self) -> bool;
}

#[derive(Debug)]
pub(crate) struct GuestMemory {
    /// The pages that calls share.
    shared: SharedBudget,
    /// The permit for the reserve.
    kept_back: Arc<Semaphore>,
    /// The number of waiting calls.
    waiting: AtomicUsize,
    idle: Arc<dyn IdleMemory>,
}

impl GuestMemory {
    /// A budget of `budget` bytes for calls that may use `of_call` bytes each. It is always enough for at least one
    /// such call. Waiting calls take the memory of `idle`, which is part of the budget.
    pub(crate) fn new(budget: usize, of_call: usize, idle: Arc<dyn IdleMemory>) -> Arc<Self> {
        Arc::new(Self {
            shared: SharedBudget::new(pages(budget.saturating_sub(of_call))),
            kept_back: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
            idle,
        })
    }

    /// A new share for one plugin.
    pub(crate) fn share(&self) -> Share {
        Share { pages: self.shared.share(), kept_back: Arc::new(Semaphore::new(1)) }
    }

    /// An account for a call of the plugin with `share` that will probably need `bytes`. Waits until the account has
    /// that much, or all that the plugin may have, or the reserve.
    pub(crate) async fn reserve(self: &Arc<Self>, share: &Share, bytes: usize) -> Account {
        let wanted = pages(bytes).min(self.shared.most_of_one());
        let mut account = Account {
            budget: self.clone(),
            share: share.clone(),
            held: share.pages.nothing(),
            kept_back: None,
            used: 0,
            kept: 0,
            behind_handles: 0,
            most: 0,
        };
        match self.at_once(share, wanted, Wants::ToBegin) {
            Some(taken) => account.held = taken,
            None => account.wait_for(wanted, Wants::ToBegin).await,
        }
        account
    }

    /// The number of reserved bytes, without the reserve.
    pub(crate) fn reserved(&self) -> usize {
        self.shared.taken() as usize * MEMORY_PAGE_BYTES
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Takes pages that are free, or can be freed, without waiting.
    fn at_once(&self, share: &Share, pages: u32, wants: Wants) -> Option<Portion> {
        let mut taken = share.pages.try_take(pages, wants);
        while taken.is_none() && self.idle.evict_oldest() {
            taken = share.pages.try_take(pages, wants);
        }
        taken
    }
}

/// One plugin's share of the budget. Clones are the same share.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pages: shared_budget::BudgetShare,
    /// The permit for the plugin's single call that waits for the reserve or has it.
    kept_back: Arc<Semaphore>,
}

impl Share {
    /// The number of bytes that its calls use or have reserved, without the reserve.
    pub(crate) fn held(&self) -> usize {
        self.pages.held() as usize * MEMORY_PAGE_BYTES
    }

    /// The maximum of [`Self::held`] so far.
    pub(crate) fn most_held(&self) -> usize {
        self.pages.most_held() as usize * MEMORY_PAGE_BYTES
    }
}

#[derive(Debug)]
struct KeptBack {
    _is_had: OwnedSemaphorePermit,
    _of_plugin: OwnedSemaphorePermit,
}

/// A waiting call. While there is one, no instance is parked.
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

/// The memory of one instance: its part of the budget, and its use. Dropping it returns everything.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<GuestMemory>,
    share: Share,
    held: Portion,
    kept_back: Option<KeptBack>,
    used: usize,
    /// The bytes that the host keeps for the call until its end.
    kept: usize,
    /// The bytes that the host currently holds for handles of the guest.
    behind_handles: usize,
    most: usize,
}

impl Account {
    /// The bytes of linear memory in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// The maximum number of bytes in use, everything included.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Whether the account has the reserve, which is meant for calls that cannot go on otherwise.
    pub(crate) fn has_kept_back(&self) -> bool {
        self.kept_back.is_some()
    }

    /// Sets the linear memory in use to `bytes`. Waits for them with the call's clock suspended.
    pub(crate) async fn grow_to(&mut self, bytes: usize, time: &CallTime) {
        self.cover(bytes, time).await;
        self.used = bytes;
    }

    /// Reserves `bytes` in addition, which the host temporarily holds for the call. The next call of this method
    /// replaces this amount.
    pub(crate) async fn have_beside(&mut self, bytes: usize, time: &CallTime) {
        self.cover(self.used.saturating_add(bytes), time).await;
    }

    /// Reserves `bytes` more, which the host keeps for the call until its end.
    pub(crate) async fn keep(&mut self, bytes: usize, time: &CallTime) {
        self.kept = self.kept.saturating_add(bytes);
        self.cover(self.used, time).await;
    }

    /// Sets the number of bytes that the host holds for handles of the guest. These bytes outlive the call if the
    /// call's instance does.
    pub(crate) async fn have_behind_handles(&mut self, bytes: usize, time: &CallTime) {
        self.behind_handles = bytes;
        self.cover(self.used, time).await;
    }

    /// Stops counting the bytes that the host kept for a call that has ended. Call it before another call begins in the
    /// same instance.
    pub(crate) fn keep_nothing(&mut self) {
        self.kept = 0;
    }

    async fn cover(&mut self, bytes: usize, time: &CallTime) {
        let bytes = bytes.saturating_add(self.kept).saturating_add(self.behind_handles);
        let more = pages(bytes).saturating_sub(self.held.amount());
        if more > 0 && self.kept_back.is_none() {
            match self.budget.at_once(&self.share, more, Wants::ToGoOn) {
                Some(taken) => self.held.merge(taken),
                None => time.stopped_for(self.wait_for(more, Wants::ToGoOn)).await,
            }
        }
        self.most = self.most.max(bytes);
    }

    /// Waits for `more` pages or for the reserve.
    async fn wait_for(&mut self, more: u32, wants: Wants) {
        let (budget, share) = (self.budget.clone(), self.share.clone());
        let _waiting = Waiting::of(&budget);
        // Another call may have parked its instance before it could see that this call waits.
        while budget.idle.evict_oldest() {}
        let kept_back = async {
            if wants == Wants::ToBegin {
                // Other calls of the plugin hold memory, which they return before long. This call waits for that memory
                // first.
                share.pages.emptied().await;
            }
            let of_plugin = share.kept_back.clone().acquire_owned().await.expect("never closed");
            let is_had = budget.kept_back.clone().acquire_owned().await.expect("never closed");
            KeptBack { _is_had: is_had, _of_plugin: of_plugin }
        };
        if self.held.amount().saturating_add(more) > budget.shared.most_of_one() {
            self.kept_back = Some(kept_back.await);
            return;
        }
        tokio::select! {
            biased;
            taken = share.pages.take(more, wants) => self.held.merge(taken),
            kept_back = kept_back => self.kept_back = Some(kept_back),
        }
    }
}

/// The memory that the host holds for a call whose guest has ended.
#[derive(Debug)]
pub struct Held {
    _account: Account,
}

impl From<Account> for Held {
    fn from(account: Account) -> Self {
        Self { _account: account }
    }
}

fn pages(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(MEMORY_PAGE_BYTES)).unwrap_or(u32::MAX).min(u32::MAX >> 3)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use windlass_core::budget::fair::CpuPermit;
    use windlass_core::cache::overlay::{self, Overlay};
    use windlass_core::object::{Header, Object, ObjectKey, ObjectKind};

    use super::*;
    use crate::limits::Limit;

    /// No memory is idle.
    #[derive(Debug)]
    pub(crate) struct NoIdleMemory;

    impl IdleMemory for NoIdleMemory {
        fn evict_oldest(&self) -> bool {
            false
        }
    }

    fn memory(budget: usize, of_call: usize) -> Arc<GuestMemory> {
        GuestMemory::new(budget * MEMORY_PAGE_BYTES, of_call * MEMORY_PAGE_BYTES, Arc::new(NoIdleMemory))
    }

    /// A write has left an object of nearly three pages.
    fn written(overlay: &Overlay, at: usize) {
        let key = ObjectKey::namespaced("prod", format!("w{at}"));
        let object = Object::new(Header::bare(key.clone(), "u", "7"), " ".repeat(3 * MEMORY_PAGE_BYTES - (2 << 10)));
        overlay.record(ObjectKind::new("v1", "ConfigMap"), key, Some(object));
    }

    fn time() -> CallTime {
        CallTime::of(Limit::Deadline, Duration::from_secs(30), CpuPermit::default())
    }

    #[tokio::test]
    async fn a_call_reserves_the_memory_that_its_plugin_needed_before() {
        let memory = memory(24, 4);
        let share = memory.share();
        let first = memory.reserve(&share, 6 * MEMORY_PAGE_BYTES).await;
        let mut second = std::pin::pin!(memory.reserve(&share, 6 * MEMORY_PAGE_BYTES));
        assert!(second.as_mut().now_or_never().is_none(), "of 20 pages it may have 10");
        assert_eq!(memory.waiting(), 1);
        drop(first);
        drop(second.await);
        assert_eq!((memory.waiting(), memory.reserved()), (0, 0));
    }

    #[tokio::test]
    async fn memory_behind_handles_counts_and_outlives_the_call() {
        let (memory, time) = (memory(24, 4), time());
        let mut account = memory.reserve(&memory.share(), 0).await;
        account.have_behind_handles(2 * MEMORY_PAGE_BYTES, &time).await;
        account.grow_to(3 * MEMORY_PAGE_BYTES, &time).await;
        assert_eq!(memory.reserved(), 5 * MEMORY_PAGE_BYTES);
        account.keep_nothing();
        account.grow_to(4 * MEMORY_PAGE_BYTES, &time).await;
        assert_eq!(memory.reserved(), 6 * MEMORY_PAGE_BYTES);
        account.have_behind_handles(0, &time).await;
        account.grow_to(6 * MEMORY_PAGE_BYTES, &time).await;
        assert_eq!((memory.reserved(), account.most()), (6 * MEMORY_PAGE_BYTES, 6 * MEMORY_PAGE_BYTES));
    }

    #[tokio::test]
    async fn one_plugin_leaves_half_of_the_memory_free_and_two_leave_a_quarter() {
        let (memory, time) = (memory(24, 4), time());
        let [hog, other, neighbour] = [(); 3].map(|()| memory.share());
        let mut first = memory.reserve(&hog, 0).await;
        first.grow_to(4 * MEMORY_PAGE_BYTES, &time).await;
        let mut second = memory.reserve(&hog, 6 * MEMORY_PAGE_BYTES).await;
        second.grow_to(10 * MEMORY_PAGE_BYTES, &time).await;
        assert!(second.has_kept_back(), "10 pages are the plugin's");
        assert!(memory.reserve(&hog, MEMORY_PAGE_BYTES).now_or_never().is_none());
        let _third = memory.reserve(&other, 5 * MEMORY_PAGE_BYTES).now_or_never().expect("half of the rest");
        assert!(memory.reserve(&other, MEMORY_PAGE_BYTES).now_or_never().is_none());
        assert!(memory.reserve(&neighbour, 2 * MEMORY_PAGE_BYTES).now_or_never().is_some());
        assert!(
            memory.reserve(&neighbour, 3 * MEMORY_PAGE_BYTES).now_or_never().is_none(),
            "it would have more than it leaves"
        );
    }

    #[tokio::test]
    async fn only_the_first_call_of_a_plugin_without_memory_uses_the_reserve() {
        let memory = memory(24, 4);
        let [hog, neighbour] = [(); 2].map(|()| memory.share());
        let _held = memory.reserve(&hog, 10 * MEMORY_PAGE_BYTES).await;
        let first = memory.reserve(&neighbour, 6 * MEMORY_PAGE_BYTES).now_or_never().expect("it has nothing");
        assert!(first.has_kept_back());
        assert!(memory.reserve(&neighbour, 6 * MEMORY_PAGE_BYTES).now_or_never().is_none(), "one at a time");
        assert!(!memory.reserve(&neighbour, 5 * MEMORY_PAGE_BYTES).now_or_never().expect("it is free").has_kept_back());
        drop(first);
        let _little = memory.reserve(&neighbour, MEMORY_PAGE_BYTES).await;
        assert!(memory.reserve(&neighbour, 6 * MEMORY_PAGE_BYTES).now_or_never().is_none(), "it has something");
    }

    #[tokio::test]
    async fn a_call_waits_for_one_reserve_holder_of_each_other_plugin() {
        let (memory, time) = (memory(4, 4), time());
        let [hog, neighbour] = [(); 2].map(|()| memory.share());
        let mut calls = Vec::new();
        for share in [&hog, &hog, &hog, &neighbour] {
            calls.push(memory.reserve(share, 0).await);
        }
        let [first, second, third, other] = &mut calls[..] else { unreachable!("four") };
        first.grow_to(MEMORY_PAGE_BYTES, &time).await;
        let mut of_hog = [second, third].map(|call| Box::pin(call.grow_to(MEMORY_PAGE_BYTES, &time)));
        assert!(of_hog.iter_mut().all(|call| call.now_or_never().is_none()));
        let mut other = Box::pin(other.grow_to(MEMORY_PAGE_BYTES, &time));
        assert!(other.as_mut().now_or_never().is_none());
        first.kept_back = None;
        assert!(other.now_or_never().is_some(), "it is next");
        assert!(of_hog.iter_mut().all(|call| call.now_or_never().is_none()));
    }

    #[tokio::test]
    async fn memory_of_the_host_for_a_call_is_reserved_and_expected_next_time() {
        let (memory, time) = (memory(24, 4), time());
        let share = memory.share();
        let mut call = memory.reserve(&share, MEMORY_PAGE_BYTES).await;
        call.grow_to(MEMORY_PAGE_BYTES, &time).await;
        for _ in 0..2 {
            call.have_beside(3 * MEMORY_PAGE_BYTES, &time).await;
            assert_eq!(
                (call.used(), call.most(), memory.reserved()),
                (MEMORY_PAGE_BYTES, 4 * MEMORY_PAGE_BYTES, 4 * MEMORY_PAGE_BYTES)
            );
        }
        call.grow_to(4 * MEMORY_PAGE_BYTES, &time).await;
        assert_eq!(memory.reserved(), 4 * MEMORY_PAGE_BYTES, "what was beside it has gone");
    }

    #[tokio::test]
    async fn objects_written_by_calls_are_charged_to_the_plugin_and_given_back() {
        let (memory, time) = (memory(40, 4), time());
        let share = memory.share();
        let mut calls = Vec::new();
        for _ in 0..64 {
            let overlay = Overlay::default();
            overlay.charge_to(memory.room(&share));
            for at in 0..36 {
                written(&overlay, at);
            }
            calls.push(overlay);
        }
        assert_eq!(memory.reserved(), 18 * MEMORY_PAGE_BYTES, "half of what calls share, which is 6 objects");
        let owed: Vec<_> = calls.iter().map(Overlay::owed).collect();
        assert!(owed.iter().all(|owed| *owed <= overlay::OVERLAY_CREDIT_BYTES), "{owed:?}");
        let mut call = memory.reserve(&memory.share(), 0).await;
        call.keep(3 * MEMORY_PAGE_BYTES, &time).await;
        call.grow_to(MEMORY_PAGE_BYTES, &time).await;
        assert_eq!((call.used(), memory.reserved()), (MEMORY_PAGE_BYTES, 22 * MEMORY_PAGE_BYTES));
        call.keep_nothing();
        call.grow_to(4 * MEMORY_PAGE_BYTES, &time).await;
        assert_eq!(memory.reserved(), 22 * MEMORY_PAGE_BYTES, "what was kept for the call before has gone");
        drop((calls, call));
        assert_eq!(memory.reserved(), 0);
    }

    #[tokio::test]
    async fn two_that_outgrow_their_reservations_do_not_wait_for_each_other() {
        let (memory, time) = (memory(20, 8), time());
        let mut first = memory.reserve(&memory.share(), 6 * MEMORY_PAGE_BYTES).await;
        let mut second = memory.reserve(&memory.share(), 3 * MEMORY_PAGE_BYTES).await;
        let _third = memory.reserve(&memory.share(), MEMORY_PAGE_BYTES).await;
        first.grow_to(8 * MEMORY_PAGE_BYTES, &time).await;
        assert!(first.has_kept_back());
        {
            let mut growing = std::pin::pin!(second.grow_to(5 * MEMORY_PAGE_BYTES, &time));
            assert!(growing.as_mut().now_or_never().is_none(), "it would have more than it leaves");
            drop(first);
            growing.await;
        }
        assert!(!second.has_kept_back(), "what the first gave back is enough");
    }

    #[tokio::test]
    async fn with_a_budget_for_one_call_one_runs_after_the_other() {
        let (memory, time) = (memory(4, 4), time());
        let share = memory.share();
        let (mut first, mut second) = (
            memory.reserve(&share, 9 * MEMORY_PAGE_BYTES).await,
            memory.reserve(&memory.share(), MEMORY_PAGE_BYTES).await,
        );
        first.grow_to(4 * MEMORY_PAGE_BYTES, &time).await;
        let mut growing = std::pin::pin!(second.grow_to(MEMORY_PAGE_BYTES, &time));
        assert!(growing.as_mut().now_or_never().is_none());
        drop(first);
        growing.await;
    }

    #[tokio::test]
    async fn a_cancelled_wait_takes_no_memory() {
        let memory = memory(24, 4);
        let share = memory.share();
        let first = memory.reserve(&share, 6 * MEMORY_PAGE_BYTES).await;
        assert!(memory.reserve(&share, 10 * MEMORY_PAGE_BYTES).now_or_never().is_none());
        drop(first);
        assert_eq!((memory.waiting(), memory.reserved()), (0, 0));
        assert!(memory.reserve(&share, 10 * MEMORY_PAGE_BYTES).now_or_never().is_some());
    }
}
