//! The whole state of a queue. Each operation is one step, taken under one lock. Times are passed in, as nanoseconds of
//! the clock.

mod backoff;
mod parking;
mod questions;

use std::task::Waker;
use std::time::Duration;

use super::Key;
use super::delay::{Delayed, nanoseconds};
use super::dirty::{Addition, DirtyStage, Items, KeyHash, NEVER_DUE, Working};
use super::limiter::Limiter;
use super::metrics::QueueMetrics;
use super::priority::{Priority, Ready, ReadyEntry};
use super::waiters::{AvailableWork, GetTicket, NextKey, Waiters};
use crate::clock::Moment;
use crate::defect::Defect;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Accepts no further keys, but ready and parked keys are still worked on.
    Draining,
    /// Accepts no further keys, and drops keys instead of parking them.
    Closed,
}

/// A key that a worker takes.
struct Taken<K> {
    slot: u32,
    /// When the key began to wait.
    since: u64,
    was_due: bool,
    must_call: bool,
    key: K,
}

/// The whole state of a queue.
pub(super) struct QueueState<K> {
    items: Items<K>,
    ready: Ready,
    delayed: Delayed,
    limiter: Box<dyn Limiter>,
    /// At most one per worker.
    working: Vec<Working>,
    waiters: Waiters,
    /// Items that are [`DirtyStage::Ready`]. `ready` also holds stale entries of earlier turns.
    depth: usize,
    parked: usize,
    phase: Phase,
    /// The latest time that was passed in. Two threads may read the clock in one order and arrive here in the other,
    /// but the queue's time never goes back.
    now: u64,
    metrics: QueueMetrics,
}

impl<K: Key> QueueState<K> {
    pub(super) fn new(limiter: impl Limiter) -> Self {
        Self {
            items: Items::default(),
            ready: Ready::default(),
            delayed: Delayed::default(),
            limiter: Box::new(limiter),
            working: Vec::new(),
            waiters: Waiters::default(),
            depth: 0,
            parked: 0,
            phase: Phase::Open,
            now: 0,
            metrics: QueueMetrics::default(),
        }
    }

    /// Adds a key that `must_call`, or for a change. Reads the clock only if the time is needed: not for a key that is
    /// already queued with that priority.
    pub(super) fn add(
        &mut self,
        hash: KeyHash,
        key: K,
        priority: Priority,
        must_call: bool,
        now: impl FnOnce() -> u64,
    ) {
        if self.phase != Phase::Open {
            return;
        }
        let slot = self.items.enter(hash, key);
        let item = self.items.get(slot);
        if item.stage != DirtyStage::Ready || priority > item.priority {
            let since = self.pass(now());
            self.add_slot(slot, Addition { priority, since, is_delayed: false, must_call });
        } else {
            item.must_call |= must_call;
        }
    }

    fn add_slot(&mut self, slot: u32, addition: Addition) {
        let item = self.items.get(slot);
        match item.stage {
            DirtyStage::Idle => {
                item.set(addition);
                self.metrics.adds += 1;
                self.make_ready(slot);
            }
            DirtyStage::Ready if addition.priority > item.priority => {
                item.priority = addition.priority;
                item.must_call |= addition.must_call;
                self.depth -= 1; // The entry of the earlier turn is stale now.
                self.make_ready(slot);
            }
            DirtyStage::Ready | DirtyStage::Parked => {
                item.priority = item.priority.max(addition.priority);
                item.must_call |= addition.must_call;
            }
            DirtyStage::Processing => {
                let Some(working) = self.working.iter_mut().find(|working| working.slot == slot) else { return };
                if let Some(before) = &mut working.again {
                    before.priority = before.priority.max(addition.priority);
                    before.is_delayed &= addition.is_delayed;
                    before.must_call |= addition.must_call;
                } else if !Defect::AddWhileRunningIsLost.is_seeded() {
                    working.again = Some(addition);
                    self.metrics.adds += 1;
                }
            }
        }
    }

    fn make_ready(&mut self, slot: u32) {
        let turn = self.items.next_turn();
        let item = self.items.get(slot);
        (item.stage, item.ready_turn) = (DirtyStage::Ready, turn);
        self.ready.push(ReadyEntry { turn, slot }, item.priority, item.since);
        self.depth += 1;
    }

    /// Adds a key again after `delay`.
    pub(super) fn add_after(&mut self, hash: KeyHash, key: K, delay: Duration, now: Moment) {
        if self.phase != Phase::Open {
            return;
        }
        if delay.is_zero() {
            let slot = self.items.enter(hash, key);
            let since = self.pass(nanoseconds(now));
            self.add_again(slot, since);
        } else {
            self.add_at(hash, key, nanoseconds(now + delay));
        }
    }

    /// Adds a key whose delay is over, with the priority that the key had. It must be called: its last call asked for
    /// that, or failed.
    fn add_again(&mut self, slot: u32, since: u64) {
        let item = self.items.get(slot);
        item.was_due = true;
        let priority = item.priority;
        let must_call = !Defect::DueTimerMayBeSaved.is_seeded();
        self.add_slot(slot, Addition { priority, since, is_delayed: true, must_call });
    }

    /// Delays a key until `at`, unless it is due earlier already.
    pub(super) fn add_at(&mut self, hash: KeyHash, key: K, at: u64) {
        if self.phase != Phase::Open {
            return;
        }
        let slot = self.items.enter(hash, key);
        self.delay(slot, at, 0);
    }

    /// Delays a key until `at`. A delay that ends earlier stays as it is, unless it ends before `floor`.
    fn delay(&mut self, slot: u32, at: u64, floor: u64) {
        let turn = self.items.next_turn();
        let item = self.items.get(slot);
        if at < item.due || item.due < floor {
            (item.due, item.due_turn) = (at, turn);
            self.delayed.insert(ReadyEntry { turn, slot }, at);
            if self.delayed.is_mostly_stale(self.items.len()) {
                let Self { delayed, items, .. } = self;
                delayed.retain(|entry| items.due(entry).is_some());
            }
        }
    }

    /// Returns what a worker should do next. A worker that has waited before passes its `ticket`. `waker` wakes the
    /// worker.
    pub(super) fn next(&mut self, ticket: Option<GetTicket>, waker: &Waker, now: u64) -> NextKey<K> {
        if let Some(ticket) = ticket {
            self.waiters.leave(ticket);
        }
        let now = self.pass(now);
        self.add_due(now);
        let Some(Taken { slot, since, was_due, must_call, key }) = self.pop() else {
            if self.ends() {
                return NextKey::ShutDown;
            }
            let due = self.delayed.next_due().filter(|due| !self.waiters.watch(*due));
            return NextKey::Wait(self.waiters.wait(waker.clone(), due.unwrap_or(NEVER_DUE)), due);
        };
        self.metrics.queue_duration.observe(now.saturating_sub(since));
        self.depth -= 1;
        self.working.push(Working { slot, since: now, again: None, woken: false, was_due, must_call });
        NextKey::Key(key)
    }

    /// Removes the next ready key for a worker.
    fn pop(&mut self) -> Option<Taken<K>> {
        loop {
            let entry = self.ready.pop()?;
            if let Some(item) = self.items.ready(entry) {
                item.stage = DirtyStage::Processing;
                let was_due = std::mem::take(&mut item.was_due);
                let must_call = std::mem::take(&mut item.must_call);
                return Some(Taken { slot: entry.slot, since: item.since, was_due, must_call, key: item.key.clone() });
            }
        }
    }

    fn add_due(&mut self, now: u64) {
        while let Some(entry) = self.delayed.pop_due(now) {
            let Some(item) = self.items.due(entry) else { continue };
            let since = std::mem::replace(&mut item.due, NEVER_DUE);
            self.add_again(entry.slot, since);
        }
    }

    /// Removes the worker that waits with `ticket`, because it gives up.
    pub(super) fn leave(&mut self, ticket: GetTicket) {
        self.waiters.leave(ticket);
    }

    /// Ends the work on a key.
    pub(super) fn done(&mut self, hash: KeyHash, key: &K, now: u64) {
        if let Some(work) = self.stop_working(hash, key, now) {
            self.end(hash, work);
        }
    }

    fn end(&mut self, hash: KeyHash, Working { slot, again, .. }: Working) {
        let item = self.items.get(slot);
        if let Some(again) = again {
            item.set(again);
            self.make_ready(slot);
        } else {
            item.stage = DirtyStage::Idle;
            self.items.tidy(hash, slot);
        }
    }

    /// Takes a key back from a worker that has not worked on it. `false` if the key is dropped.
    pub(super) fn give_back(&mut self, hash: KeyHash, key: &K, now: u64) -> bool {
        let Some(work) = self.stop_working(hash, key, now) else { return true };
        if self.phase == Phase::Closed {
            let was_added = work.again.is_some();
            self.end(hash, work);
            return was_added;
        }
        self.raise(&work);
        self.make_ready(work.slot);
        true
    }

    /// Raises the priority of a key that is given back, if the key was added with a higher priority in the meantime.
    fn raise(&mut self, work: &Working) {
        let item = self.items.get(work.slot);
        item.was_due |= work.was_due;
        item.must_call |= work.must_call || work.again.is_some_and(|again| again.must_call);
        item.priority = work.again.map_or(item.priority, |again| item.priority.max(again.priority));
    }

    pub(super) fn limit_by(&mut self, limiter: impl Limiter) {
        self.limiter = Box::new(limiter);
    }

    /// Takes a key from its worker. `None` if no worker has it.
    fn stop_working(&mut self, hash: KeyHash, key: &K, now: u64) -> Option<Working> {
        let now = self.pass(now);
        let slot = self.items.find(hash, key)?;
        let at = self.working.iter().position(|working| working.slot == slot)?;
        let work = self.working.swap_remove(at);
        self.metrics.work_duration.observe(now.saturating_sub(work.since));
        Some(work)
    }

    /// Accepts no further keys, and drops the delayed ones.
    pub(super) fn drain(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Draining;
        }
        self.delayed.clear();
        self.items.retain(|item| item.due = NEVER_DUE);
    }

    /// As [`Self::drain`], and also stops parking.
    pub(super) fn shut_down(&mut self) {
        self.drain();
        self.phase = Phase::Closed;
        self.drop_parked();
    }

    fn drop_parked(&mut self) -> usize {
        self.drop_all(DirtyStage::Parked);
        std::mem::take(&mut self.parked)
    }

    fn drop_all(&mut self, stage: DirtyStage) {
        self.items.retain(|item| {
            if item.stage == stage {
                item.stage = DirtyStage::Idle;
            }
        });
    }

    /// Drops the ready and parked keys, and the pending additions of keys that workers have. Returns their number. If
    /// the queue is shutting down, no key is parked from then on.
    pub(super) fn drop_waiting(&mut self) -> usize {
        if self.phase == Phase::Draining {
            self.phase = Phase::Closed;
        }
        self.ready.clear();
        self.drop_all(DirtyStage::Ready);
        for working in &mut self.working {
            working.again = None;
        }
        std::mem::take(&mut self.depth) + self.drop_parked()
    }

    /// Makes a drain wait until `waker` wakes it. Returns whether the drain is over already.
    pub(super) fn wait_for_drain(&mut self, waker: &Waker) -> bool {
        let is_over = self.is_idle();
        if !is_over {
            self.waiters.wait_for_drain(waker);
        }
        is_over
    }

    /// The workers that have to look at the queue now. Must be called after every change, and the result woken.
    pub(super) fn whom_to_wake(&mut self) -> Vec<Waker> {
        if self.waiters.is_empty() {
            return Vec::new();
        }
        self.waiters.take(AvailableWork {
            ready: self.depth,
            due: self.delayed.next_due(),
            ends: self.ends(),
            drained: self.phase != Phase::Open && self.is_idle(),
        })
    }

    /// Whether workers should end, because no further key can become ready.
    fn ends(&self) -> bool {
        self.phase != Phase::Open && self.depth == 0 && self.parked == 0
    }

    /// Whether nothing is ready, parked, or with a worker.
    fn is_idle(&self) -> bool {
        self.depth == 0 && self.parked == 0 && self.working.is_empty()
    }

    /// Advances the queue's time by a reading of the clock, and returns it.
    fn pass(&mut self, now: u64) -> u64 {
        self.now = self.now.max(now);
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::ItemExponential;

    #[test]
    fn delays_replaced_by_sooner_ones_do_not_pile_up() {
        let mut state = QueueState::new(ItemExponential::default());
        for at in (0..10_000).rev() {
            state.add_at(KeyHash::new(1), "a", 1_000_000 + at);
            state.add_at(KeyHash::new(2), "b", 2_000_000 + at);
        }
        assert!(state.delayed.len() < 100, "{} entries of two keys", state.delayed.len());
        let mut due = || {
            let NextKey::Key(key) = state.next(None, Waker::noop(), 2_000_000) else { return None };
            Some(key)
        };
        assert_eq!([due(), due(), due()], [Some("a"), Some("b"), None]);
    }
}
