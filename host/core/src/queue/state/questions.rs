//! Read-only questions about single keys and about all of them.

use std::time::Duration;

use super::{DirtyStage, KeyHash, NEVER_DUE, Phase, QueueState};
use crate::queue::dirty::DirtyItem;
use crate::queue::{Key, QueueMetrics, QueuedKey};

impl<K: Key> QueueState<K> {
    pub(in crate::queue) fn num_requeues(&mut self, hash: KeyHash, key: &K) -> u32 {
        self.items.find(hash, key).map_or(0, |slot| u32::from(self.items.get(slot).counted))
    }

    pub(in crate::queue) fn backs_off(&mut self, hash: KeyHash, key: &K, now: u64) -> bool {
        let slot = self.items.find(hash, key);
        slot.map(|slot| self.items.get(slot)).is_some_and(|item| item.failures() > 0 && item.backs_off(now))
    }

    pub(in crate::queue) fn has_failed(&mut self, hash: KeyHash, key: &K) -> bool {
        self.items.find(hash, key).is_some_and(|slot| self.items.get(slot).failures() > 0)
    }

    pub(in crate::queue) fn processing(&mut self) -> Vec<K> {
        let Self { working, items, .. } = self;
        working.iter().map(|working| items.get(working.slot).key.clone()).collect()
    }

    pub(in crate::queue) fn was_due(&mut self, hash: KeyHash, key: &K) -> bool {
        let slot = self.items.find(hash, key);
        self.working.iter().any(|working| Some(working.slot) == slot && working.was_due)
    }

    pub(in crate::queue) fn must_call(&mut self, hash: KeyHash, key: &K) -> bool {
        let slot = self.items.find(hash, key);
        self.working.iter().find(|working| Some(working.slot) == slot).is_none_or(|working| working.must_call)
    }

    pub(in crate::queue) fn keep_must_call(&mut self, hash: KeyHash, key: &K) {
        let Some(slot) = self.items.find(hash, key) else { return };
        if let Some(working) = self.working.iter().find(|working| working.slot == slot) {
            self.items.get(slot).must_call |= working.must_call;
        }
    }

    pub(in crate::queue) fn is_shutting_down(&self) -> bool {
        self.phase != Phase::Open
    }

    pub(in crate::queue) fn len(&self) -> usize {
        self.depth
    }

    pub(in crate::queue) fn look(&mut self, hash: KeyHash, key: &K, now: u64) -> Option<QueuedKey> {
        let (slot, now) = (self.items.find(hash, key)?, self.pass(now));
        let since = self.working.iter().find(|working| working.slot == slot).map(|working| working.since);
        Some(queued(self.items.get(slot), since, now))
    }

    pub(in crate::queue) fn age(&mut self, hash: KeyHash, key: &K, now: u64) -> Duration {
        let now = self.pass(now);
        let since = self.items.find(hash, key).map(|slot| self.items.get(slot).since);
        Duration::from_nanos(now.saturating_sub(since.unwrap_or(now)))
    }

    pub(in crate::queue) fn known(&mut self, now: u64) -> Vec<(K, QueuedKey)> {
        let now = self.pass(now);
        let Self { working, items, .. } = self;
        let since = |slot: u32| working.iter().find(|working| working.slot == slot).map(|working| working.since);
        items.all().map(|(slot, item)| (item.key.clone(), queued(item, since(slot), now))).collect()
    }

    pub(in crate::queue) fn metrics(&mut self, now: u64) -> QueueMetrics {
        let now = self.pass(now);
        let running = self.working.iter().map(|working| Duration::from_nanos(now.saturating_sub(working.since)));
        let (failing, backing_off) = self.failing();
        QueueMetrics {
            depth: self.depth,
            failing,
            backing_off,
            parked: self.parked,
            unfinished_work: running.clone().sum(),
            longest_running: running.max().unwrap_or_default(),
            ..self.metrics
        }
    }

    /// The number of keys that have failed since they were last forgotten, and the number of these that are delayed.
    fn failing(&self) -> (usize, usize) {
        let failing = || self.items.all().filter(|(_, item)| item.failures() > 0);
        (failing().count(), failing().filter(|(_, item)| item.due != NEVER_DUE).count())
    }
}

/// The facts about an item at the time `now`. `since` is when a worker got the item, if a worker has it.
fn queued<K>(item: &DirtyItem<K>, since: Option<u64>, now: u64) -> QueuedKey {
    let since = since.unwrap_or(item.since);
    let waited = (item.stage != DirtyStage::Idle).then(|| Duration::from_nanos(now.saturating_sub(since)));
    QueuedKey {
        stage: item.stage,
        waited: waited.unwrap_or_default(),
        due_in: (item.due != NEVER_DUE).then(|| Duration::from_nanos(item.due.saturating_sub(now))),
        failures: u32::from(item.failures()),
        counted: u32::from(item.counted),
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::clock::Moment;
    use crate::queue::dirty::BackoffCause;
    use crate::queue::outcome::Retry;
    use crate::queue::{ItemExponential, Priority};

    const A: KeyHash = KeyHash::new(1);

    #[test]
    fn a_key_is_visible_from_its_addition_until_it_is_forgotten() {
        let second = |seconds: u64| seconds * 1_000_000_000;
        let mut state = QueueState::new(ItemExponential::default());
        assert_eq!(state.look(A, &"a", 0), None);
        state.add(A, "a", Priority::CHANGE, false, || 0);
        let queued = state.look(A, &"a", second(3)).expect("it is queued");
        assert_eq!((queued.stage, queued.waited, queued.due_in), (DirtyStage::Ready, Duration::from_secs(3), None));
        let _ = state.next(None, Waker::noop(), second(5));
        let processed = state.look(A, &"a", second(7)).expect("a worker has it");
        assert_eq!((processed.stage, processed.waited), (DirtyStage::Processing, Duration::from_secs(2)));
        assert_eq!(state.age(A, &"a", second(7)), Duration::from_secs(7), "from its addition");
        let at_least = Duration::from_secs(10);
        let cause = BackoffCause::Failure(Retry::Counted);
        state.back_off(A, "a", cause, at_least, Moment(Duration::from_secs(7)));
        state.done(A, &"a", second(7));
        let failed = QueuedKey {
            stage: DirtyStage::Idle,
            waited: Duration::ZERO,
            due_in: Some(Duration::from_secs(9)),
            failures: 1,
            counted: 1,
        };
        assert_eq!(state.known(second(8)), [("a", failed)]);
        let metrics = state.metrics(second(8));
        assert_eq!((metrics.failing, metrics.backing_off), (1, 1));
        let _ = state.next(None, Waker::noop(), second(20));
        assert_eq!((state.metrics(0).failing, state.metrics(0).backing_off), (1, 0), "it is tried again");
        state.forget(A, &"a");
        state.done(A, &"a", second(21));
        assert!(state.known(0).is_empty());
    }
}
