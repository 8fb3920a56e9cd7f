//! The state that dispatch keeps for a key between two calls, in addition to the failures that the queue counts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windlass_core::object::{Object, ObjectKey};
use windlass_core::queue::hot_loop::SlowMark;
use windlass_core::queue::trigger::{Trigger, Triggers};

use super::setbacks::Setbacks;

/// The memory of one controller, over the generations of its plugin. It has no entry for a key that has ended well and
/// is not queued.
#[derive(Debug, Default)]
pub(crate) struct KeyMemory {
    /// The keys that an outage may have set back.
    pub(super) setbacks: Setbacks,
    /// The keys that have failed, with the desired state of the primary at that time. `None` if the primary had gone.
    failed: HashMap<ObjectKey, Option<SlowMark>>,
    /// The keys whose last call had failed when the current generation took over, and that have neither succeeded nor
    /// changed since.
    had_failed: HashSet<ObjectKey>,
    /// The UIDs of deleted primaries.
    gone: HashMap<ObjectKey, Arc<str>>,
    /// The triggers of queued keys since their last calls.
    triggers: HashMap<ObjectKey, Triggers>,
}

impl KeyMemory {
    /// Records that a call about `key` begins. Returns whether the failures of the key are to be forgotten, because
    /// another client has changed the primary since.
    pub(super) fn begins(&mut self, key: &ObjectKey, primary: Option<&Object>) -> bool {
        self.setbacks.clear(key);
        if primary.is_some() {
            self.gone.remove(key);
        }
        let now = primary.map(|object| SlowMark::of(&object.header));
        let is_other = self.failed.get(key).is_some_and(|failed| *failed != now);
        if is_other {
            self.failed.remove(key);
            self.had_failed.remove(key);
        }
        is_other
    }

    /// Records that the call about `key` failed, with the primary in the state `left`.
    pub(super) fn fails(&mut self, key: &ObjectKey, left: Option<SlowMark>) {
        self.failed.insert(key.clone(), left);
    }

    /// Records that the work on `key` is done until something changes, or until the requested time.
    pub(super) fn ends(&mut self, key: &ObjectKey) {
        self.failed.remove(key);
        self.had_failed.remove(key);
        self.gone.remove(key);
    }

    /// Records that another generation is called from now on.
    pub(super) fn passes_on(&mut self) {
        self.had_failed = self.failed.keys().cloned().collect();
    }

    /// Whether the last call about `key` under the previous generation failed.
    pub(super) fn had_failed(&self, key: &ObjectKey) -> bool {
        self.had_failed.contains(key)
    }

    /// Records that the primary of `key`, with this `uid`, was deleted.
    pub(crate) fn goes(&mut self, key: ObjectKey, uid: Arc<str>) {
        self.gone.insert(key, uid);
    }

    /// As [`Self::goes`], for a primary that was deleted before the current round began. If the round has since seen a
    /// newer primary of this key go, the newer UID is kept.
    pub(super) fn went_before(&mut self, key: ObjectKey, uid: Arc<str>) {
        self.gone.entry(key).or_insert(uid);
    }

    /// The UID of the deleted primary of `key`. `None` if the host has not seen it go.
    pub(super) fn uid_of_gone(&self, key: &ObjectKey) -> Option<Arc<str>> {
        self.gone.get(key).cloned()
    }

    /// Notes that `trigger` is about to queue `key`.
    pub(crate) fn note(&mut self, key: &ObjectKey, trigger: &Arc<Trigger>) {
        self.triggers.entry(key.clone()).or_default().note(trigger);
    }

    /// The triggers of `key` since they were last taken. Keeps them.
    pub(super) fn triggers(&self, key: &ObjectKey) -> Triggers {
        self.triggers.get(key).cloned().unwrap_or_default()
    }

    /// Takes the triggers of `key` since they were last taken.
    pub(crate) fn take_triggers(&mut self, key: &ObjectKey) -> Triggers {
        let triggers = self.triggers.remove(key).unwrap_or_default();
        if self.triggers.is_empty() {
            // A start queues every key. Free the memory, because so much is not needed again for long.
            self.triggers = HashMap::new();
        }
        triggers
    }

    /// Keeps the `triggers` of `key` for its next call, as this one was not made.
    pub(super) fn keep_triggers(&mut self, key: &ObjectKey, triggers: &Triggers) {
        if triggers.is_empty() {
            return;
        }
        let mut all = triggers.clone();
        all.extend(&self.triggers.remove(key).unwrap_or_default());
        self.triggers.insert(key.clone(), all);
    }

    /// Takes the keys that have failed, sorted: another configuration or version of the plugin may do better.
    pub(crate) fn forget_failed(&mut self) -> Vec<ObjectKey> {
        let mut keys: Vec<_> = self.failed.drain().map(|(key, _)| key).collect();
        keys.sort();
        keys
    }
}
