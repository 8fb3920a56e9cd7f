//! What is known of each key: client-go's dirty/processing dance (`util/workqueue/queue.go`) as one state a key, with
//! one state more, *parked* (§3.3).
//!
//! ```text
//!            add               get                 done
//!   idle ──────────▶ ready ──────────▶ processing ──────▶ idle, or ready if added meanwhile
//!                      ▲                   │ park
//!                      └────── wake ───── parked          adds only raise its priority
//! ```
//!
//! A key is known while it is not idle, waits for its time, or has failures that count; then it is forgotten, so that
//! the queue does not grow with every key that ever was.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::Key;
use super::priority::{Entry, Priority};
use crate::outcome::Retry;

/// Where a key is in the dance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing to do.
    Idle,
    /// In the ready queue, under the item's present `turn`.
    Ready,
    /// A worker has it. `again`: it was added meanwhile. `woken`: it was woken meanwhile, so a park would come too late.
    Processing { again: Option<Addition>, woken: bool },
    /// The gate holds it: no worker gets it until it is woken.
    Parked,
}

/// A need for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addition {
    pub(super) priority: Priority,
    /// When it came, in nanoseconds of the clock.
    pub(super) since: u64,
}

/// What [`Item::due`] is where a key does not wait for its time.
pub(super) const NEVER: u64 = u64::MAX;

/// All that is known of one key.
pub(super) struct Item<K> {
    pub(super) key: K,
    pub(super) stage: Stage,
    /// What is not done yet.
    pub(super) addition: Addition,
    /// Tells the item's entry in the ready queue from older ones.
    pub(super) ready_turn: u32,
    /// When it is to be added, or [`NEVER`].
    pub(super) due: u64,
    /// Tells the item's entry among the delayed from older ones.
    pub(super) due_turn: u32,
    /// Failures since it was last forgotten, which lengthen its backoff.
    pub(super) failures: u32,
    /// Those of them that count against it.
    pub(super) counted: u32,
}

impl<K> Item<K> {
    fn is_known(&self) -> bool {
        self.stage != Stage::Idle || self.due != NEVER || self.failures > 0
    }

    /// Notes one more failure.
    pub(super) fn fail(&mut self, retry: Retry) {
        self.failures = self.failures.saturating_add(1);
        if retry == Retry::Counted {
            self.counted = self.counted.saturating_add(1);
        }
    }
}

/// The items of all known keys. A slot is an item's number as long as it is known.
pub(super) struct Items<K> {
    slots: Vec<Option<Item<K>>>,
    free: Vec<u32>,
    /// Slots by their keys, which stand in the items only.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Turns go on over the whole life of the queue: an entry of a slot's former key is never taken for its present one's.
    turn: u32,
}

impl<K> Default for Items<K> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            turn: 0,
        }
    }
}

impl<K: Key> Items<K> {
    /// The slot of a key, if it is known.
    pub(super) fn find(&self, key: &K) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.index.find(hash, |slot| self.holds(*slot, key)).copied()
    }

    /// The slot of a key, which is known from now on, until [`Self::tidy`].
    pub(super) fn enter(&mut self, key: K) -> u32 {
        let hash = self.hasher.hash_one(&key);
        if let Some(slot) = self.index.find(hash, |slot| self.holds(*slot, &key)) {
            return *slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than four billion keys")
        });
        self.slots[slot as usize] = Some(Item {
            key,
            stage: Stage::Idle,
            addition: Addition { priority: Priority::default(), since: 0 },
            ready_turn: 0,
            due: NEVER,
            due_turn: 0,
            failures: 0,
            counted: 0,
        });
        let Self { slots, index, hasher, .. } = self;
        let hash_of = |slot: &u32| slots[*slot as usize].as_ref().map_or(0, |item| hasher.hash_one(&item.key));
        index.insert_unique(hash, slot, hash_of);
        slot
    }

    /// The item in a slot that [`Self::find`] or [`Self::enter`] returned.
    pub(super) fn get(&mut self, slot: u32) -> &mut Item<K> {
        self.slots[slot as usize].as_mut().expect("a known key")
    }

    /// The item whose entry in the ready queue `entry` is; None if its turn has passed.
    pub(super) fn ready(&mut self, entry: Entry) -> Option<&mut Item<K>> {
        let item = self.slots.get_mut(entry.slot as usize)?.as_mut()?;
        (item.stage == Stage::Ready && item.ready_turn == entry.turn).then_some(item)
    }

    /// The item whose entry among the delayed `entry` is; None if its turn has passed.
    pub(super) fn due(&mut self, entry: Entry) -> Option<&mut Item<K>> {
        let item = self.slots.get_mut(entry.slot as usize)?.as_mut()?;
        (item.due != NEVER && item.due_turn == entry.turn).then_some(item)
    }

    /// A turn that no entry has had in living memory.
    pub(super) fn next_turn(&mut self) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    /// Forgets the key in `slot` if nothing is left to know of it.
    pub(super) fn tidy(&mut self, slot: u32) {
        let Some(item) = self.slots[slot as usize].take_if(|item| !item.is_known()) else { return };
        let hash = self.hasher.hash_one(&item.key);
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
        self.free.push(slot);
    }

    /// Forgets, for every item, what `change` makes it forget.
    pub(super) fn retain(&mut self, mut change: impl FnMut(&mut Item<K>)) {
        for slot in 0..self.slots.len() {
            if let Some(item) = &mut self.slots[slot] {
                change(item);
                self.tidy(u32::try_from(slot).expect("fewer than four billion keys"));
            }
        }
    }

    fn holds(&self, slot: u32, key: &K) -> bool {
        self.slots[slot as usize].as_ref().is_some_and(|item| item.key == *key)
    }
}
