//! The state of each key. Client-go's dirty and processing sets (`util/workqueue/queue.go`) are here a single state
//! per key. One more state, *parked*, is for keys that the gate holds.
//!
//! ```text
//!            add               get                 done
//!   idle ──────────▶ ready ──────────▶ processing ──────▶ idle, or ready if added meanwhile
//!                      ▲                   │ park
//!                      └────── wake ───── parked          adds only raise its priority
//! ```
//!
//! A key is known while it is not idle, is delayed, has recorded backoffs, or must be called the next time it runs.
//! Otherwise it is forgotten, so that the queue does not grow with every key that ever existed.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;

use super::Key;
use super::priority::{Priority, ReadyEntry};
use crate::queue::outcome::Retry;

/// The stage of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyStage {
    Idle,
    /// The key is in the ready queue, under the item's present `ready_turn`.
    Ready,
    /// A worker has the key.
    Processing,
    /// The gate holds the key. No worker gets the key until it is woken.
    Parked,
}

/// An addition that has not been worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addition {
    pub(super) priority: Priority,
    /// When the key was added, in nanoseconds of the clock.
    pub(super) since: u64,
    /// Whether nothing but the end of a delay or a backoff added the key.
    pub(super) is_delayed: bool,
    /// Whether the key must be called even if nothing that its last call read has changed.
    pub(super) must_call: bool,
}

/// The records about a key that a worker has.
pub(super) struct Working {
    pub(super) slot: u32,
    pub(super) since: u64,
    /// The addition of the key in the meantime, if there was one.
    pub(super) again: Option<Addition>,
    /// Whether the key was woken in the meantime, so that a park must queue it at once.
    pub(super) woken: bool,
    /// Whether the key was queued because a delay or a backoff had ended.
    pub(super) was_due: bool,
    /// Whether an addition since the last call asked for a call.
    pub(super) must_call: bool,
}

/// Why a key backs off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackoffCause {
    Failure(Retry),
    /// The key's worker wants to work on the key again.
    Requeue,
}

/// [`DirtyItem::due`] of a key that is not delayed.
pub(super) const NEVER_DUE: u64 = u64::MAX;

/// Everything known about one key.
pub(super) struct DirtyItem<K> {
    pub(super) key: K,
    pub(super) stage: DirtyStage,
    /// The priority of the pending addition, or of the last addition if the key is idle.
    pub(super) priority: Priority,
    pub(super) since: u64,
    /// Distinguishes the item's valid entry in the ready queue from stale entries.
    pub(super) ready_turn: u32,
    /// When the key is to be added, or [`NEVER_DUE`].
    pub(super) due: u64,
    /// Distinguishes the item's valid entry among the delayed entries from stale entries.
    pub(super) due_turn: u32,
    /// The number of backoffs of one cause in a row, each longer than the one before. A `u8` is enough, because the
    /// backoff reaches its maximum long before 255.
    pub(super) backoffs: u8,
    /// Whether these backoffs are requeues, and not failures.
    pub(super) is_requeued: bool,
    /// The failures that count against the key.
    pub(super) counted: u16,
    /// When the last backoff ends. Separate from `due`, which other delays set as well.
    pub(super) backoff_ends: u64,
    /// Whether a delay or backoff has ended since a worker last had the key.
    pub(super) was_due: bool,
    /// Whether an addition since the last call asks for a call. Kept while the key is idle.
    pub(super) must_call: bool,
}

impl<K> DirtyItem<K> {
    /// Merges an addition into the pending one. A key that waits for its retry keeps its priority.
    pub(super) fn set(&mut self, Addition { priority, since, must_call, .. }: Addition) {
        let waited = if self.due == NEVER_DUE { priority } else { self.priority };
        (self.priority, self.since) = (priority.max(waited), since);
        self.must_call |= must_call;
    }

    fn is_known(&self) -> bool {
        self.stage != DirtyStage::Idle || self.due != NEVER_DUE || self.backoffs > 0 || self.must_call
    }

    /// The backoffs that were failures.
    pub(super) fn failures(&self) -> u8 {
        if self.is_requeued { 0 } else { self.backoffs }
    }

    /// Whether the key's last backoff is not over `now`. If a worker has such a key, an event queued it early, and
    /// another backoff says nothing new.
    pub(super) fn backs_off(&self, now: u64) -> bool {
        self.backoffs > 0 && now < self.backoff_ends
    }

    /// Forgets the backoffs so far, unless they have the same `cause`.
    pub(super) fn continue_with(&mut self, cause: BackoffCause) {
        let is_requeued = cause == BackoffCause::Requeue;
        if self.is_requeued != is_requeued {
            (self.backoffs, self.counted, self.is_requeued) = (0, 0, is_requeued);
        }
    }

    /// Records a backoff after the previous one has ended.
    pub(super) fn back_off(&mut self, cause: BackoffCause) {
        self.backoffs = self.backoffs.saturating_add(1);
        if cause == BackoffCause::Failure(Retry::Counted) {
            self.counted = self.counted.saturating_add(1);
        }
    }
}

/// A key's hash, computed outside the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyHash(u32);

impl KeyHash {
    /// Half of the bits distinguish nearly all keys.
    #[allow(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
    pub(super) const fn new(hash: u64) -> Self {
        Self(hash as u32)
    }

    /// The table uses the low bits for a key's place and the high bits for a tag, so both must differ between keys.
    fn spread(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

/// The items of all known keys. A slot identifies an item while its key is known.
pub(super) struct Items<K> {
    slots: Vec<Option<DirtyItem<K>>>,
    free: Vec<u32>,
    /// Slots by key. Keys are only in the items; hashes are here, so that the table can grow and distinguish most keys
    /// without reading the items.
    index: HashTable<(KeyHash, u32)>,
    /// Turns increase over the whole life of the queue, so that an entry of a slot's former key is never taken for an
    /// entry of its present one.
    turn: u32,
}

impl<K> Default for Items<K> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), index: HashTable::new(), turn: 0 }
    }
}

impl<K: Key> Items<K> {
    /// How many keys are known.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// The slot of a key, if it is known.
    pub(super) fn find(&self, hash: KeyHash, key: &K) -> Option<u32> {
        self.index.find(hash.spread(), |entry| is_of(&self.slots, *entry, hash, key)).map(|(_, slot)| *slot)
    }

    /// The slot of a key, which stays known at least until [`Self::tidy`].
    pub(super) fn enter(&mut self, hash: KeyHash, key: K) -> u32 {
        let Self { slots, free, index, .. } = self;
        let is_it = |entry: &(KeyHash, u32)| is_of(slots, *entry, hash, &key);
        let vacant = match index.entry(hash.spread(), is_it, |(hash, _)| hash.spread()) {
            Place::Occupied(entry) => return entry.get().1,
            Place::Vacant(vacant) => vacant,
        };
        let slot = free.pop().unwrap_or_else(|| {
            slots.push(None);
            u32::try_from(slots.len() - 1).expect("fewer than four billion keys")
        });
        vacant.insert((hash, slot));
        slots[slot as usize] = Some(DirtyItem {
            key,
            stage: DirtyStage::Idle,
            priority: Priority::default(),
            since: 0,
            ready_turn: 0,
            due: NEVER_DUE,
            due_turn: 0,
            backoffs: 0,
            is_requeued: false,
            counted: 0,
            backoff_ends: 0,
            was_due: false,
            must_call: false,
        });
        slot
    }

    /// All items, with their slots, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &DirtyItem<K>)> {
        self.index.iter().filter_map(|(_, slot)| Some((*slot, self.slots[*slot as usize].as_ref()?)))
    }

    /// The item in a slot that [`Self::find`] or [`Self::enter`] returned.
    pub(super) fn get(&mut self, slot: u32) -> &mut DirtyItem<K> {
        self.slots[slot as usize].as_mut().expect("a known key")
    }

    /// The item to which `entry` in the ready queue belongs. `None` if the entry is stale.
    pub(super) fn ready(&mut self, entry: ReadyEntry) -> Option<&mut DirtyItem<K>> {
        let item = self.slots.get_mut(entry.slot as usize)?.as_mut()?;
        (item.stage == DirtyStage::Ready && item.ready_turn == entry.turn).then_some(item)
    }

    /// The item to which `entry` among the delayed entries belongs. `None` if the entry is stale.
    pub(super) fn due(&mut self, entry: ReadyEntry) -> Option<&mut DirtyItem<K>> {
        let item = self.slots.get_mut(entry.slot as usize)?.as_mut()?;
        (item.due != NEVER_DUE && item.due_turn == entry.turn).then_some(item)
    }

    /// A turn that no existing entry has.
    pub(super) fn next_turn(&mut self) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    /// Forgets the key in `slot`, with this hash, if nothing about it needs to be kept.
    pub(super) fn tidy(&mut self, hash: KeyHash, slot: u32) {
        if self.slots[slot as usize].take_if(|item| !item.is_known()).is_none() {
            return;
        }
        if let Ok(entry) = self.index.find_entry(hash.spread(), |(_, other)| *other == slot) {
            entry.remove();
        }
        self.free.push(slot);
    }

    /// Applies `change` to every item and forgets the items that need not be kept.
    pub(super) fn retain(&mut self, mut change: impl FnMut(&mut DirtyItem<K>)) {
        let Self { slots, free, index, .. } = self;
        index.retain(|(_, slot)| {
            let place = &mut slots[*slot as usize];
            place.as_mut().map(&mut change);
            let is_known = place.as_ref().is_some_and(DirtyItem::is_known);
            if !is_known {
                *place = None;
                free.push(*slot);
            }
            is_known
        });
    }
}

fn is_of<K: Key>(slots: &[Option<DirtyItem<K>>], (other, slot): (KeyHash, u32), hash: KeyHash, key: &K) -> bool {
    other == hash && slots[slot as usize].as_ref().is_some_and(|item| item.key == *key)
}
