//! Keys that the gate holds: workers park them, the gate wakes them.

use super::{DirtyStage, KeyHash, Phase, QueueState};
use crate::queue::Key;
use crate::queue::dirty::DirtyItem;

impl<K: Key> QueueState<K> {
    /// Parks a key that a worker has. If the key was woken in the meantime, makes it ready instead.
    pub(in crate::queue) fn park(&mut self, hash: KeyHash, key: &K, now: u64) {
        let Some(work) = self.stop_working(hash, key, now) else { return };
        if self.phase == Phase::Closed && !work.woken {
            return self.end(hash, work);
        }
        self.raise(&work);
        if work.woken {
            self.make_ready(work.slot);
        } else {
            self.items.get(work.slot).stage = DirtyStage::Parked;
            self.parked += 1;
        }
    }

    pub(in crate::queue) fn wake(&mut self, hash: KeyHash, key: &K) {
        let Some(slot) = self.items.find(hash, key) else { return };
        if self.items.get(slot).stage == DirtyStage::Parked {
            self.parked -= 1;
            self.items.get(slot).must_call = true;
            self.make_ready(slot);
        } else if let Some(working) = self.working.iter_mut().find(|working| working.slot == slot) {
            (working.woken, working.must_call) = (true, true);
        }
    }

    /// Wakes all parked keys.
    pub(in crate::queue) fn wake_parked(&mut self) {
        for slot in self.parked_slots() {
            self.items.get(slot).must_call = true;
            self.make_ready(slot);
        }
        self.parked = 0;
    }

    pub(in crate::queue) fn parked(&mut self) -> Vec<(K, u32)> {
        let slots = self.parked_slots();
        let turn = |slot| {
            let item = self.items.get(slot);
            (item.key.clone(), item.ready_turn)
        };
        slots.into_iter().map(turn).collect()
    }

    /// The slots of the parked keys, in the order in which the keys were added.
    fn parked_slots(&self) -> Vec<u32> {
        if self.parked == 0 {
            return Vec::new();
        }
        let is_parked = |(_, item): &(u32, &DirtyItem<K>)| item.stage == DirtyStage::Parked;
        let mut parked: Vec<_> = self.items.all().filter(is_parked).map(|(slot, item)| (item.since, slot)).collect();
        parked.sort_unstable();
        parked.into_iter().map(|(_, slot)| slot).collect()
    }
}
