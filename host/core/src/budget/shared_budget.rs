//! Amounts that all plugins share and no one may have all of: the memory of guests, and threads for work that takes
//! long.
//!
//! `stock` decides who may take how much, and who is next; this hands it out and has the others wait. What is taken
//! cannot be taken back, so nobody gets all that is free, even while nobody else wants any. For the CPU permits and slots
//! of calls, which are charged by what they use, there is [`fair`](crate::budget::fair).

mod stock;

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::sync::{Notify, oneshot};

use self::stock::Stock;
pub use crate::budget::accounts::Wants;
use crate::budget::accounts::{AccountId, WaitTicket};

/// A stock of something. Clones share it.
#[derive(Clone)]
pub struct SharedBudget(Arc<Mutex<Stock<BudgetWaiter>>>);

struct BudgetWaiter {
    share: BudgetShare,
    granted: oneshot::Sender<Portion>,
}

impl fmt::Debug for SharedBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stock = self.lock();
        f.debug_struct("SharedBudget").field("all", &stock.all()).field("free", &stock.free()).finish()
    }
}

impl SharedBudget {
    /// So many of something.
    #[must_use]
    pub fn new(all: u32) -> Self {
        Self(Arc::new(Mutex::new(Stock::new(all))))
    }

    /// One plugin's share of it, empty as yet.
    #[must_use]
    pub fn share(&self) -> BudgetShare {
        let id = self.lock().join();
        BudgetShare(Arc::new(BudgetAccount { budget: self.clone(), id, emptied: Notify::new() }))
    }

    /// The most that one plugin ever has.
    #[must_use]
    pub fn most_of_one(&self) -> u32 {
        stock::most_of_one(self.lock().all())
    }

    /// The amount that is in use.
    #[must_use]
    pub fn taken(&self) -> u32 {
        let stock = self.lock();
        stock.all() - stock.free()
    }

    /// Gives what is free to those who wait.
    fn hand_out(&self) {
        // The lock is free again when a portion is sent: one that nobody takes comes back at once.
        while let Some((amount, BudgetWaiter { share, granted })) = self.next() {
            drop(granted.send(Portion { share, amount }));
        }
    }

    fn next(&self) -> Option<(u32, BudgetWaiter)> {
        self.lock().grant()
    }

    fn lock(&self) -> MutexGuard<'_, Stock<BudgetWaiter>> {
        // Nothing under this lock panics half-way through a change unless it is broken beyond repair anyway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One plugin's share, as large as the others leave it. Clones are the same.
#[derive(Clone, Debug)]
pub struct BudgetShare(Arc<BudgetAccount>);

#[derive(Debug)]
struct BudgetAccount {
    budget: SharedBudget,
    id: AccountId,
    /// Told when it has nothing any more.
    emptied: Notify,
}

impl Drop for BudgetAccount {
    fn drop(&mut self) {
        // Waiters and portions hold the account, so none is left.
        self.budget.lock().leave(self.id);
    }
}

impl BudgetShare {
    /// Nothing of it, to which more may be added.
    #[must_use]
    pub fn nothing(&self) -> Portion {
        Portion { share: self.clone(), amount: 0 }
    }

    /// Takes `amount` if it may have that now, and none of its own waits for it.
    #[must_use]
    pub fn try_take(&self, amount: u32, wants: Wants) -> Option<Portion> {
        let is_taken = self.0.budget.lock().try_take(self.0.id, amount, wants);
        is_taken.then(|| Portion { share: self.clone(), amount })
    }

    /// Queues for `amount`, from now on. Who wants more than [`SharedBudget::most_of_one`] waits for ever.
    #[must_use = "it stops waiting when this is dropped"]
    pub fn take(&self, amount: u32, wants: Wants) -> Taking {
        let (sender, granted) = oneshot::channel();
        let waiter = BudgetWaiter { share: self.clone(), granted: sender };
        let ticket = self.0.budget.lock().wait(self.0.id, amount, wants, waiter);
        let taking = Taking { share: self.clone(), ticket, granted };
        self.0.budget.hand_out();
        taking
    }

    /// The amount that it has.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.0.budget.lock().held(self.0.id)
    }

    /// The most that it has had at a time.
    #[must_use]
    pub fn most_held(&self) -> u32 {
        self.0.budget.lock().most_held(self.0.id)
    }

    /// Completes when it has nothing.
    pub async fn emptied(&self) {
        loop {
            let emptied = self.0.emptied.notified();
            if self.0.budget.lock().held(self.0.id) == 0 {
                return;
            }
            emptied.await;
        }
    }
}

/// A wait for a portion. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct Taking {
    share: BudgetShare,
    ticket: WaitTicket,
    granted: oneshot::Receiver<Portion>,
}

impl Future for Taking {
    type Output = Portion;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Portion> {
        let Ok(portion) = ready!(Pin::new(&mut self.granted).poll(context)) else {
            unreachable!("a waiter is in the stock until it has its portion")
        };
        Poll::Ready(portion)
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        let BudgetAccount { budget, id, .. } = &*self.share.0;
        let cancelled = budget.lock().cancel(*id, self.ticket);
        drop(cancelled);
        // From here on a portion that is on its way comes back to its sender; this one had arrived before.
        self.granted.close();
        drop(self.granted.try_recv());
        // Whoever waited behind it may be next.
        budget.hand_out();
    }
}

/// An amount that somebody has. It comes back when this is dropped.
#[derive(Debug)]
pub struct Portion {
    share: BudgetShare,
    amount: u32,
}

impl Portion {
    /// How much it is.
    #[must_use]
    pub fn amount(&self) -> u32 {
        self.amount
    }

    /// Adds `other`, which is of the same share.
    pub fn merge(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.share.0, &other.share.0), "of the same share");
        self.amount += std::mem::take(&mut other.amount);
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        if self.amount == 0 {
            return;
        }
        let BudgetAccount { budget, id, emptied } = &*self.share.0;
        let is_empty = {
            let mut stock = budget.lock();
            stock.give_back(*id, self.amount);
            stock.held(*id) == 0
        };
        if is_empty {
            emptied.notify_waiters();
        }
        budget.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;

    fn shares<const N: usize>(all: u32) -> (SharedBudget, [BudgetShare; N]) {
        let budget = SharedBudget::new(all);
        let shares = std::array::from_fn(|_| budget.share());
        (budget, shares)
    }

    fn at_once(share: &BudgetShare, amount: u32) -> Option<Portion> {
        share.take(amount, Wants::ToBegin).now_or_never()
    }

    #[test]
    fn what_comes_back_goes_to_who_waits_and_who_has_least_is_first() {
        let (budget, [much, little]) = shares(8);
        let (held, one) = (at_once(&much, 4).expect("half"), at_once(&little, 1).expect("free"));
        let mut more = pin!(much.take(1, Wants::ToGoOn));
        let mut other = pin!(little.take(2, Wants::ToBegin));
        assert!(more.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
        drop(one);
        assert_eq!(other.now_or_never().expect("it has nothing").amount(), 2);
        // What was granted is gone again, and it is alone.
        drop(held);
        assert!(more.now_or_never().is_some());
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn whoever_stops_waiting_leaves_no_trace_and_lets_its_own_pass() {
        let (budget, [one, other]) = shares(8);
        let (first, second) = (at_once(&one, 3).expect("free"), at_once(&other, 2).expect("free"));
        let mut large = Box::pin(one.take(3, Wants::ToBegin));
        let mut small = pin!(one.take(0, Wants::ToBegin));
        assert!(large.as_mut().now_or_never().is_none());
        assert!(small.as_mut().now_or_never().is_none(), "first come, first served");
        drop(large);
        assert!(small.now_or_never().is_some());
        drop(first);
        drop(second);
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn a_portion_granted_to_someone_who_went_goes_on() {
        let (budget, [one, other]) = shares(2);
        let held = at_once(&one, 1).expect("free");
        let gone = one.take(1, Wants::ToBegin);
        let waiting = one.take(1, Wants::ToBegin);
        drop(held);
        drop(gone);
        let granted = waiting.now_or_never().expect("it is next");
        assert_eq!(budget.taken(), 1);
        drop(granted);
        assert!(at_once(&other, 1).is_some());
    }

    #[test]
    fn who_has_nothing_any_more_is_told() {
        let (_, [share]) = shares(8);
        let mut portion = at_once(&share, 2).expect("free");
        portion.merge(at_once(&share, 1).expect("free"));
        assert_eq!((portion.amount(), share.held()), (3, 3));
        let mut emptied = pin!(share.emptied());
        assert!(emptied.as_mut().now_or_never().is_none());
        drop(portion);
        assert!(emptied.now_or_never().is_some() && share.emptied().now_or_never().is_some());
        assert_eq!((share.held(), share.most_held()), (0, 3));
    }
}
