//! Workers that wait for a key, and who waits for a drain: the wakers that a change of the queue's state has to wake.
//!
//! One rule says whom, and it is asked after every change, under the lock: see [`Waiters::take`]. So no operation has to
//! know what its effects are worth, and nobody is woken where nobody waits.

use std::collections::VecDeque;
use std::task::Waker;

/// The answer to a worker that asks for a key.
pub(super) enum NextKey<K> {
    Key(K),
    /// Wait until woken, or until this time, if there is one.
    Wait(GetTicket, Option<u64>),
    ShutDown,
}

/// A worker's place among those that wait.
#[derive(Debug)]
pub(super) struct GetTicket(u64);

struct GetWaiter {
    ticket: u64,
    waker: Waker,
    /// The moment at which its own timer wakes it, or [`u64::MAX`].
    watches: u64,
}

/// The work that waits for workers.
#[derive(Clone, Copy)]
pub(super) struct AvailableWork {
    /// Keys that are ready.
    pub(super) ready: usize,
    /// When the next one becomes due.
    pub(super) due: Option<u64>,
    /// Nothing will become ready any more: workers end.
    pub(super) ends: bool,
    /// No worker has a key either: the drain is over.
    pub(super) drained: bool,
}

#[derive(Default)]
pub(super) struct Waiters {
    /// Workers, the longest waiting first, by ascending tickets.
    workers: VecDeque<GetWaiter>,
    next: u64,
    /// Workers that were woken and have not looked yet.
    coming: usize,
    drains: Vec<Waker>,
}

impl Waiters {
    /// Lets a worker wait, with a timer of its own for `watches`.
    pub(super) fn wait(&mut self, waker: Waker, watches: u64) -> GetTicket {
        let ticket = self.next;
        self.next += 1;
        self.workers.push_back(GetWaiter { ticket, waker, watches });
        GetTicket(ticket)
    }

    /// A worker waits no longer: it looks again, or gives up.
    pub(super) fn leave(&mut self, GetTicket(ticket): GetTicket) {
        match self.workers.binary_search_by_key(&ticket, |waiter| waiter.ticket) {
            Ok(at) => drop(self.workers.remove(at)),
            Err(_) => self.coming -= 1,
        }
    }

    /// Lets a drain wait.
    pub(super) fn wait_for_drain(&mut self, waker: &Waker) {
        if !self.drains.iter().any(|other| other.will_wake(waker)) {
            self.drains.push(waker.clone());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty() && self.drains.is_empty()
    }

    /// Whether a waiting worker has a timer that ends by `due`.
    pub(super) fn watch(&self, due: u64) -> bool {
        self.workers.iter().any(|waiter| waiter.watches <= due)
    }

    /// Those who have to look now. As long as workers wait, one is on its way for each ready key, and one watches the time
    /// of the next delayed key or comes to do so. A worker that was woken and gives up is on its way no longer, so another
    /// is called in its place.
    pub(super) fn take(&mut self, work: AvailableWork) -> Vec<Waker> {
        let mut woken = Vec::new();
        if work.drained {
            woken.append(&mut self.drains);
        }
        while !self.workers.is_empty() && (work.ends || self.are_too_few_coming(work)) {
            self.coming += 1;
            woken.extend(self.workers.pop_front().map(|waiter| waiter.waker));
        }
        woken
    }

    fn are_too_few_coming(&self, work: AvailableWork) -> bool {
        let is_unwatched = || work.due.is_some_and(|due| !self.watch(due));
        self.coming < work.ready || (self.coming == 0 && is_unwatched())
    }
}
