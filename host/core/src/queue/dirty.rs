//! Which keys are queued and which a worker has: client-go's dirty/processing dance (`util/workqueue/queue.go`).

use std::collections::{HashSet, VecDeque};

use super::Key;

/// The state of the dance.
pub(super) struct Dirty<K> {
    /// In the order of their addition. Every element is in `needed` and not in `processing`.
    queue: VecDeque<K>,
    /// All keys that need work: client-go's dirty set.
    needed: HashSet<K>,
    /// Keys that a worker has. Those also in `needed` are queued again when it is done.
    processing: HashSet<K>,
}

// Derived, it would ask for `K: Default`.
impl<K> Default for Dirty<K> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), needed: HashSet::new(), processing: HashSet::new() }
    }
}

impl<K: Key> Dirty<K> {
    /// Marks `key` as needing work. Returns whether a worker can have it now and could not before.
    pub(super) fn add(&mut self, key: K) -> bool {
        if !self.needed.insert(key.clone()) || self.processing.contains(&key) {
            return false;
        }
        self.queue.push_back(key);
        true
    }

    /// Hands out the key that has waited longest.
    pub(super) fn get(&mut self) -> Option<K> {
        let key = self.queue.pop_front()?;
        self.needed.remove(&key);
        self.processing.insert(key.clone());
        Some(key)
    }

    /// Ends the work on `key`. Returns whether it is queued again.
    pub(super) fn done(&mut self, key: &K) -> bool {
        let again = self.processing.remove(key) && self.needed.contains(key);
        if again {
            self.queue.push_back(key.clone());
        }
        again
    }

    /// How many keys a worker could have.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no key is queued and no worker has one.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.processing.is_empty()
    }

    /// Forgets the queued keys, and that keys with a worker were added again. Returns how many were queued.
    pub(super) fn drop_ready(&mut self) -> usize {
        let dropped = self.queue.len();
        self.queue.clear();
        self.needed.clear();
        dropped
    }
}
