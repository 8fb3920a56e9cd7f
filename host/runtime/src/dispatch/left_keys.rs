//! The keys that a round has left with work to do. The next round queues them.
//!
//! Usually every existing primary runs when a round begins, so only deleted primaries could be missed. But if the
//! plugin's own code decides which primaries count, only those run that the code lets pass as they are then. The keys
//! that a round has left counted before, so the code is not asked about them again. Otherwise requeues, retries, and
//! runs that a user has requested would be lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::cache::mapping::PrimaryKind;
use windlass_core::object::ObjectKey;
use windlass_core::queue::trigger::Triggers;
use windlass_core::queue::{DirtyStage, Queue};

use super::memory::KeyMemory;
use super::route::Stores;

/// The keys that the earlier rounds of one controller have left.
#[derive(Debug, Default)]
pub(crate) struct LeftKeys {
    left: Mutex<KeysOfKind>,
}

#[derive(Debug, Default)]
struct KeysOfKind {
    /// The kind of the primaries. `None` if there was no round yet.
    primary: Option<PrimaryKind>,
    keys: BTreeMap<ObjectKey, LeftKey>,
}

/// The keys of one round.
#[derive(Clone)]
pub(crate) struct RoundKeys {
    pub(crate) primary: PrimaryKind,
    pub(crate) queue: Queue<ObjectKey>,
    pub(crate) memory: Arc<Mutex<KeyMemory>>,
    /// Whether the plugin's own code decides which primaries count.
    pub(crate) filters_primaries: bool,
}

/// A key that was left: its triggers, and the UID if its primary is deleted.
#[derive(Debug, Default)]
pub(crate) struct LeftKey {
    /// The triggers since its last call.
    pub(crate) triggers: Triggers,
    /// The UID of its primary, if the primary was deleted.
    pub(crate) gone: Option<Arc<str>>,
}

impl LeftKeys {
    /// Keeps the keys of a round that ends: those that are queued, held or delayed, and those that workers have, since
    /// their calls may ask for another run.
    pub(crate) fn leave(&self, RoundKeys { primary, queue, memory, filters_primaries }: &RoundKeys) {
        let mut known = queue.known();
        known.retain(|(_, queued)| queued.stage != DirtyStage::Idle || queued.due_in.is_some());
        if known.is_empty() {
            // A round of other primaries may have left its keys since this one ended.
            return;
        }
        let mut left = self.of(primary);
        for (key, _) in known {
            let memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            let gone = memory.uid_of_gone(&key);
            // Otherwise every existing primary runs when the next round begins.
            if gone.is_some() || *filters_primaries {
                let left = left.keys.entry(key.clone()).or_default();
                left.triggers.extend(&memory.triggers(&key));
                // The UID recorded so far is older.
                left.gone = gone.or(left.gone.take());
            }
        }
    }

    /// Adds the keys of changes that no round could handle, with the UIDs of deleted primaries.
    pub(crate) fn add(&self, primary: &PrimaryKind, keys: impl IntoIterator<Item = (ObjectKey, Option<Arc<str>>)>) {
        let mut left = self.of(primary);
        for (key, gone) in keys {
            let left = left.keys.entry(key).or_default();
            left.gone = gone.or(left.gone.take());
        }
    }

    /// Takes the keys of existing primaries, and of those that the host has seen go. Other primaries may have been
    /// deleted, or may not be the controller's any more, so their keys are dropped. If a cache is emptied at this
    /// moment, all keys are taken, because the round that ends then leaves them again.
    pub(crate) fn take(&self, primary: &PrimaryKind, primaries: &Stores) -> Vec<(ObjectKey, LeftKey)> {
        let keys = std::mem::take(&mut self.of(primary).keys);
        keys.into_iter().filter(|(key, left)| left.gone.is_some() || !primaries.lacks(key)).collect()
    }

    /// Forgets which primaries were deleted: their whole kind has gone.
    pub(crate) fn forget_gone(&self) {
        for left in self.lock().keys.values_mut() {
            left.gone = None;
        }
    }

    /// The keys of primaries of this kind. If those that were left are of another kind, they are dropped.
    fn of(&self, primary: &PrimaryKind) -> MutexGuard<'_, KeysOfKind> {
        let mut left = self.lock();
        // The server shows the same objects in all versions.
        let is_same = |before: &PrimaryKind| {
            let kind = (primary.kind.group(), &primary.kind.kind, primary.namespaced);
            (before.kind.group(), &before.kind.kind, before.namespaced) == kind
        };
        if !left.primary.as_ref().is_some_and(is_same) {
            *left = KeysOfKind { primary: Some(primary.clone()), keys: BTreeMap::new() };
        }
        left
    }

    fn lock(&self) -> MutexGuard<'_, KeysOfKind> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
