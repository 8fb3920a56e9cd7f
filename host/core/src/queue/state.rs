//! The parts of a queue together: each operation as one step, to be taken under one lock. Times are nanoseconds of the
//! clock, passed in.

use std::time::Duration;

use super::Key;
use super::delay::Delayed;
use super::dirty::{Addition, Items, NEVER, Stage};
use super::limiter::Limiter;
use super::metrics::Metrics;
use super::priority::{Entry, Priority, Ready};
use crate::clock::Moment;
use crate::outcome::Retry;

/// What a worker that asks for a key is told.
pub(super) enum Next<K> {
    /// Work on it. `more`: there is reason for another worker to look as well.
    Key { key: K, more: bool },
    /// Nothing before this time, if there is one.
    Wait(Option<u64>),
    /// Nothing any more.
    ShutDown,
}

/// The whole state of a queue.
pub(super) struct State<K> {
    items: Items<K>,
    ready: Ready,
    delayed: Delayed,
    limiter: Box<dyn Limiter>,
    /// What workers have, and since when: as many as there are workers.
    working: Vec<(u32, u64)>,
    /// Items that are [`Stage::Ready`]; `ready` holds entries of former turns as well.
    depth: usize,
    parked: usize,
    shutting_down: bool,
    metrics: Metrics,
}

impl<K: Key> State<K> {
    pub(super) fn new(limiter: impl Limiter) -> Self {
        Self {
            items: Items::default(),
            ready: Ready::default(),
            delayed: Delayed::default(),
            limiter: Box::new(limiter),
            working: Vec::new(),
            depth: 0,
            parked: 0,
            shutting_down: false,
            metrics: Metrics::default(),
        }
    }

    /// Adds a key. Returns whether it became ready.
    pub(super) fn add(&mut self, key: K, priority: Priority, now: u64) -> bool {
        if self.shutting_down {
            return false;
        }
        let slot = self.items.enter(key);
        self.add_slot(slot, Addition { priority, since: now })
    }

    fn add_slot(&mut self, slot: u32, addition: Addition) -> bool {
        let item = self.items.get(slot);
        match &mut item.stage {
            Stage::Idle => {
                item.addition = addition;
                self.metrics.adds += 1;
                self.make_ready(slot);
                true
            }
            Stage::Ready if addition.priority > item.addition.priority => {
                item.addition.priority = addition.priority;
                self.depth -= 1; // The entry of the former turn no longer counts.
                self.make_ready(slot);
                false
            }
            Stage::Processing { again: again @ None, .. } => {
                *again = Some(addition);
                self.metrics.adds += 1;
                false
            }
            Stage::Processing { again: Some(before), .. } => {
                before.priority = before.priority.max(addition.priority);
                false
            }
            Stage::Ready | Stage::Parked => {
                item.addition.priority = item.addition.priority.max(addition.priority);
                false
            }
        }
    }

    fn make_ready(&mut self, slot: u32) {
        let turn = self.items.next_turn();
        let item = self.items.get(slot);
        item.stage = Stage::Ready;
        item.ready_turn = turn;
        let since = Moment(Duration::from_nanos(item.addition.since));
        self.ready.push(Entry { turn, slot }, item.addition.priority, since);
        self.depth += 1;
    }

    /// Makes a key wait until `at`, unless it is due sooner already. Returns whether nothing is due before it.
    pub(super) fn add_at(&mut self, key: K, at: u64) -> bool {
        if self.shutting_down {
            return false;
        }
        let slot = self.items.enter(key);
        if self.items.get(slot).due <= at {
            return false;
        }
        let turn = self.items.next_turn();
        let item = self.items.get(slot);
        item.due = at;
        item.due_turn = turn;
        self.delayed.insert(Entry { turn, slot }, at)
    }

    /// Notes a failure and returns the backoff that the ones before have earned. A queue that shuts down notes nothing:
    /// it takes no key in any more, so nobody would come to forget it.
    pub(super) fn fail(&mut self, key: &K, retry: Retry, now: Moment) -> Duration {
        if self.shutting_down {
            return Duration::ZERO;
        }
        self.metrics.retries += 1;
        let slot = self.items.enter(key.clone());
        let item = self.items.get(slot);
        let failures = item.failures;
        item.fail(retry);
        self.limiter.delay(failures, now)
    }

    pub(super) fn forget(&mut self, key: &K) {
        let Some(slot) = self.items.find(key) else { return };
        let item = self.items.get(slot);
        (item.failures, item.counted) = (0, 0);
        self.items.tidy(slot);
    }

    pub(super) fn num_requeues(&mut self, key: &K) -> u32 {
        self.items.find(key).map_or(0, |slot| self.items.get(slot).counted)
    }

    /// What a worker should do.
    pub(super) fn next(&mut self, now: u64) -> Next<K> {
        self.add_due(now);
        let Some((slot, key)) = self.pop() else {
            let ends = self.shutting_down && self.parked == 0;
            return if ends { Next::ShutDown } else { Next::Wait(self.delayed.next_due()) };
        };
        let item = self.items.get(slot);
        item.stage = Stage::Processing { again: None, woken: false };
        self.metrics.queue_duration.observe(now.saturating_sub(item.addition.since));
        self.depth -= 1;
        self.working.push((slot, now));
        Next::Key { key, more: self.depth > 0 || self.delayed.next_due().is_some() }
    }

    fn pop(&mut self) -> Option<(u32, K)> {
        loop {
            let entry = self.ready.pop()?;
            if let Some(item) = self.items.ready(entry) {
                return Some((entry.slot, item.key.clone()));
            }
        }
    }

    fn add_due(&mut self, now: u64) {
        while let Some(entry) = self.delayed.pop_due(now) {
            let Some(item) = self.items.due(entry) else { continue };
            let since = std::mem::replace(&mut item.due, NEVER);
            self.add_slot(entry.slot, Addition { priority: Priority::CHANGE, since });
        }
    }

    /// Ends the work on a key. Returns whether it became ready again.
    pub(super) fn done(&mut self, key: &K, now: u64) -> bool {
        let Some((slot, again, _)) = self.stop_working(key, now) else { return false };
        let Some(again) = again else {
            self.items.get(slot).stage = Stage::Idle;
            self.items.tidy(slot);
            return false;
        };
        self.items.get(slot).addition = again;
        self.make_ready(slot);
        true
    }

    /// Parks a key that a worker has. Returns whether it became ready instead, as it was woken before.
    pub(super) fn park(&mut self, key: &K, now: u64) -> bool {
        let Some((slot, again, woken)) = self.stop_working(key, now) else { return false };
        let item = self.items.get(slot);
        if let Some(again) = again {
            item.addition.priority = item.addition.priority.max(again.priority);
        }
        if woken {
            self.make_ready(slot);
        } else {
            item.stage = Stage::Parked;
            self.parked += 1;
        }
        woken
    }

    /// Takes a key from its worker: its slot, what was added meanwhile, and whether it was woken meanwhile. None: no
    /// worker has it.
    fn stop_working(&mut self, key: &K, now: u64) -> Option<(u32, Option<Addition>, bool)> {
        let slot = self.items.find(key)?;
        let Stage::Processing { again, woken } = self.items.get(slot).stage else { return None };
        let at = self.working.iter().position(|(working, _)| *working == slot)?;
        let (_, since) = self.working.swap_remove(at);
        self.metrics.work_duration.observe(now.saturating_sub(since));
        Some((slot, again, woken))
    }

    /// Wakes a key. Returns whether it became ready.
    pub(super) fn wake(&mut self, key: &K) -> bool {
        let Some(slot) = self.items.find(key) else { return false };
        match &mut self.items.get(slot).stage {
            Stage::Parked => {
                self.parked -= 1;
                self.make_ready(slot);
                true
            }
            Stage::Processing { woken, .. } => {
                *woken = true;
                false
            }
            Stage::Idle | Stage::Ready => false,
        }
    }

    pub(super) fn shut_down(&mut self) {
        self.shutting_down = true;
        self.delayed.clear();
        self.items.retain(|item| item.due = NEVER);
    }

    pub(super) fn drop_parked(&mut self) -> usize {
        self.items.retain(|item| {
            if item.stage == Stage::Parked {
                item.stage = Stage::Idle;
            }
        });
        std::mem::take(&mut self.parked)
    }

    /// Drops what is ready or parked, and that keys with a worker were added again. Returns how many were dropped.
    pub(super) fn drop_waiting(&mut self) -> usize {
        self.ready.clear();
        self.items.retain(|item| match &mut item.stage {
            Stage::Ready => item.stage = Stage::Idle,
            Stage::Processing { again, .. } => *again = None,
            Stage::Idle | Stage::Parked => {}
        });
        std::mem::take(&mut self.depth) + self.drop_parked()
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Whether nothing is ready, parked, or with a worker.
    pub(super) fn is_idle(&self) -> bool {
        self.depth == 0 && self.parked == 0 && self.working.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.depth
    }

    pub(super) fn metrics(&self, now: u64) -> Metrics {
        let running = self.working.iter().map(|(_, since)| Duration::from_nanos(now.saturating_sub(*since)));
        Metrics {
            depth: self.depth,
            parked: self.parked,
            unfinished_work: running.clone().sum(),
            longest_running: running.max().unwrap_or_default(),
            ..self.metrics
        }
    }
}
