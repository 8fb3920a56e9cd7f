//! Amounts that all plugins share and of which no plugin may have everything: guest memory, and threads for long work.
//!
//! `stock` decides who may take how much and who is next. This module hands out portions, and queues requests that
//! cannot be met yet. A budget cannot take a portion back, so no plugin gets all that is free, even while no other
//! plugin waits. CPU permits and call slots, which are charged by use, are in [`fair`](crate::budget::fair).

mod stock;

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::sync::{Notify, oneshot};

use self::stock::Stock;
pub use crate::budget::accounts::Wants;
use crate::budget::accounts::{AccountId, WaitTicket};

/// A shared amount. Clones share it.
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
    /// A budget of `all` units.
    #[must_use]
    pub fn new(all: u32) -> Self {
        Self(Arc::new(Mutex::new(Stock::new(all))))
    }

    /// Opens one plugin's share, which holds nothing yet.
    #[must_use]
    pub fn share(&self) -> BudgetShare {
        let id = self.lock().join();
        BudgetShare(Arc::new(BudgetAccount { budget: self.clone(), id, emptied: Notify::new() }))
    }

    /// The most that one plugin can hold.
    #[must_use]
    pub fn most_of_one(&self) -> u32 {
        stock::most_of_one(self.lock().all())
    }

    /// The amount in use.
    #[must_use]
    pub fn taken(&self) -> u32 {
        let stock = self.lock();
        stock.all() - stock.free()
    }

    /// Grants free units to waiters.
    fn hand_out(&self) {
        // Send without holding the lock: if the receiver is gone, the portion comes back at once
        // and takes the lock.
        while let Some((amount, BudgetWaiter { share, granted })) = self.next() {
            drop(granted.send(Portion { share, amount }));
        }
    }

    fn next(&self) -> Option<(u32, BudgetWaiter)> {
        self.lock().grant()
    }

    fn lock(&self) -> MutexGuard<'_, Stock<BudgetWaiter>> {
        // A panic under this lock would mean that the state is broken beyond repair anyway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One plugin's share. Its size depends on what other plugins hold. Clones are the same share.
#[derive(Clone, Debug)]
pub struct BudgetShare(Arc<BudgetAccount>);

#[derive(Debug)]
struct BudgetAccount {
    budget: SharedBudget,
    id: AccountId,
    /// Notified when the share holds nothing any more.
    emptied: Notify,
}

impl Drop for BudgetAccount {
    fn drop(&mut self) {
        // Waiters and portions hold a reference to the account, so no waiter or portion is left here.
        self.budget.lock().leave(self.id);
    }
}

impl BudgetShare {
    /// An empty portion, to which more can be merged.
    #[must_use]
    pub fn nothing(&self) -> Portion {
        Portion { share: self.clone(), amount: 0 }
    }

    /// Takes `amount` if the plugin may have it now, and if no waiter of the plugin is passed over.
    #[must_use]
    pub fn try_take(&self, amount: u32, wants: Wants) -> Option<Portion> {
        let is_taken = self.0.budget.lock().try_take(self.0.id, amount, wants);
        is_taken.then(|| Portion { share: self.clone(), amount })
    }

    /// Queues for `amount`. A wait for more than [`SharedBudget::most_of_one`] never ends.
    #[must_use = "it stops waiting when this is dropped"]
    pub fn take(&self, amount: u32, wants: Wants) -> Taking {
        let (sender, granted) = oneshot::channel();
        let waiter = BudgetWaiter { share: self.clone(), granted: sender };
        let ticket = self.0.budget.lock().wait(self.0.id, amount, wants, waiter);
        let taking = Taking { share: self.clone(), ticket, granted };
        self.0.budget.hand_out();
        taking
    }

    /// The amount that the plugin holds.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.0.budget.lock().held(self.0.id)
    }

    /// The most that the plugin has held at any time.
    #[must_use]
    pub fn most_held(&self) -> u32 {
        self.0.budget.lock().most_held(self.0.id)
    }

    /// Completes when the share holds nothing.
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

/// A wait for a portion. Cancel safe.
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
        // From here on, a portion that is sent returns to its sender. A portion that arrived earlier is dropped here,
        // which returns it too.
        self.granted.close();
        drop(self.granted.try_recv());
        // A later waiter of the plugin may be next now.
        budget.hand_out();
    }
}

/// An amount that is held. It returns to the budget when dropped.
#[derive(Debug)]
pub struct Portion {
    share: BudgetShare,
    amount: u32,
}

impl Portion {
    #[must_use]
    pub fn amount(&self) -> u32 {
        self.amount
    }

    /// Adds `other`, which must come from the same share.
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
    fn a_returned_portion_goes_to_the_waiter_that_holds_least() {
        let (budget, [much, little]) = shares(8);
        let (held, one) = (at_once(&much, 4).expect("half"), at_once(&little, 1).expect("free"));
        let mut more = pin!(much.take(1, Wants::ToGoOn));
        let mut other = pin!(little.take(2, Wants::ToBegin));
        assert!(more.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
        drop(one);
        assert_eq!(other.now_or_never().expect("it has nothing").amount(), 2);
        // Granted and dropped again: the plugin is alone once more.
        drop(held);
        assert!(more.now_or_never().is_some());
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn a_cancelled_wait_lets_its_plugins_next_waiter_pass() {
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
    fn a_portion_granted_to_a_cancelled_waiter_goes_to_the_next() {
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
    fn an_emptied_share_is_notified() {
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
