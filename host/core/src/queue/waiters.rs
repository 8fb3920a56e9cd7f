//! The workers that wait for a key and the callers that wait for a drain.
//!
//! After every change of the queue, under the lock, one rule decides which of them to wake: see [`Waiters::take`]. So
//! an operation need not know its consequences, and no waiter is woken for nothing.

use std::collections::VecDeque;
use std::task::Waker;

/// The response to a worker that asks for a key.
pub(super) enum NextKey<K> {
    Key(K),
    /// The worker must wait until it is woken, or until this time, if one is given.
    Wait(GetTicket, Option<u64>),
    ShutDown,
}

/// A worker's place among the waiting workers.
#[derive(Debug)]
pub(super) struct GetTicket(u64);

struct GetWaiter {
    ticket: u64,
    waker: Waker,
    /// When the worker's own timer wakes it. [`u64::MAX`] if it has no timer.
    watches: u64,
}

/// The work that is available to workers.
#[derive(Clone, Copy)]
pub(super) struct AvailableWork {
    /// The number of ready keys.
    pub(super) ready: usize,
    /// When the next delayed key becomes due.
    pub(super) due: Option<u64>,
    /// Whether no further key will become ready, so that workers must end.
    pub(super) ends: bool,
    /// Whether a drain is over: all work is done, including the keys that workers had.
    pub(super) drained: bool,
}

#[derive(Default)]
pub(super) struct Waiters {
    /// Workers in ascending order of tickets: the longest waiter is first.
    workers: VecDeque<GetWaiter>,
    next: u64,
    /// The number of workers that were woken and have not looked yet.
    coming: usize,
    drains: Vec<Waker>,
}

impl Waiters {
    /// Adds a waiting worker whose own timer fires at `watches`.
    pub(super) fn wait(&mut self, waker: Waker, watches: u64) -> GetTicket {
        let ticket = self.next;
        self.next += 1;
        self.workers.push_back(GetWaiter { ticket, waker, watches });
        GetTicket(ticket)
    }

    /// Removes a worker that looks again or gives up.
    pub(super) fn leave(&mut self, GetTicket(ticket): GetTicket) {
        match self.workers.binary_search_by_key(&ticket, |waiter| waiter.ticket) {
            Ok(at) => drop(self.workers.remove(at)),
            Err(_) => self.coming -= 1,
        }
    }

    /// Adds a waiting drain.
    pub(super) fn wait_for_drain(&mut self, waker: &Waker) {
        if !self.drains.iter().any(|other| other.will_wake(waker)) {
            self.drains.push(waker.clone());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty() && self.drains.is_empty()
    }

    /// Whether a waiting worker has a timer that fires by `due`.
    pub(super) fn watch(&self, due: u64) -> bool {
        self.workers.iter().any(|waiter| waiter.watches <= due)
    }

    /// Removes and returns the waiters that must wake up now. While workers wait, each ready key has a worker on its
    /// way. One more worker watches the time of the next delayed key, or is on its way to do so. If a woken worker
    /// gives up, another worker is woken instead.
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
