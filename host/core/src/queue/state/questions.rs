//! Questions about single keys and about all of them, which change nothing.

use super::{KeyHash, QueueState};
use crate::queue::Key;

impl<K: Key> QueueState<K> {
    pub(in crate::queue) fn num_requeues(&mut self, hash: KeyHash, key: &K) -> u32 {
        self.items.find(hash, key).map_or(0, |slot| u32::from(self.items.get(slot).counted))
    }

    pub(in crate::queue) fn has_failed(&mut self, hash: KeyHash, key: &K) -> bool {
        self.items.find(hash, key).is_some_and(|slot| self.items.get(slot).failures > 0)
    }

    pub(in crate::queue) fn processing(&mut self) -> Vec<K> {
        let Self { working, items, .. } = self;
        working.iter().map(|working| items.get(working.slot).key.clone()).collect()
    }

    pub(in crate::queue) fn was_due(&mut self, hash: KeyHash, key: &K) -> bool {
        let slot = self.items.find(hash, key);
        self.working.iter().any(|working| Some(working.slot) == slot && working.was_due)
    }

    pub(in crate::queue) fn len(&self) -> usize {
        self.depth
    }
}
