//! Keys that wait for their time (client-go: `util/workqueue/delaying_queue.go`).

use std::collections::{BTreeSet, HashMap};

use super::Key;
use crate::clock::Moment;

/// Keys by the moment at which they become ready; each key at most once.
pub(super) struct Delayed<K> {
    /// Sorted by time. Holds exactly the pairs of `due`.
    order: BTreeSet<(Moment, K)>,
    due: HashMap<K, Moment>,
}

impl<K> Default for Delayed<K> {
    fn default() -> Self {
        Self { order: BTreeSet::new(), due: HashMap::new() }
    }
}

impl<K: Key> Delayed<K> {
    /// Makes `key` wait until `at`, unless it is due sooner already. Returns whether it is now the next to become due.
    pub(super) fn insert(&mut self, key: K, at: Moment) -> bool {
        if let Some(before) = self.due.get(&key).copied() {
            if before <= at {
                return false;
            }
            self.order.remove(&(before, key.clone()));
        }
        self.due.insert(key.clone(), at);
        self.order.insert((at, key));
        self.next_due() == Some(at)
    }

    /// Takes a key whose time has come.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<K> {
        if self.next_due()? > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.due.remove(&key);
        Some(key)
    }

    /// When the next key becomes due.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.due.clear();
    }
}
