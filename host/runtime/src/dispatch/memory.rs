//! The memory that dispatch has of a key from one call to the next, beside the failures that the queue counts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windlass_core::object::{Object, ObjectKey};
use windlass_core::queue::hot_loop::SlowMark;
use windlass_core::queue::trigger::{Trigger, Triggers};

use super::setbacks::Setbacks;

/// The memory of one controller, over the generations of its plugin. It holds no key that has ended well and that
/// nothing is to be done about.
#[derive(Debug, Default)]
pub(crate) struct KeyMemory {
    /// Keys that an outage may have set back.
    pub(super) setbacks: Setbacks,
    /// The keys that have failed, with the wish that they failed to bring about. None: the primary had gone.
    failed: HashMap<ObjectKey, Option<SlowMark>>,
    /// The keys that had failed last when the generation at work took over, and have neither ended well nor been
    /// changed since.
    had_failed: HashSet<ObjectKey>,
    /// The uids of primaries that have gone.
    gone: HashMap<ObjectKey, Arc<str>>,
    /// The triggers of the keys that are queued and have not been called about.
    triggers: HashMap<ObjectKey, Triggers>,
}

impl KeyMemory {
    /// A call about `key` begins. Returns whether its failures are to be forgotten: somebody has changed the primary
    /// since.
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

    /// The call about `key` failed, and left the primary so.
    pub(super) fn fails(&mut self, key: &ObjectKey, left: Option<SlowMark>) {
        self.failed.insert(key.clone(), left);
    }

    /// Nothing is to be done about `key` until something changes, or it asks for it.
    pub(super) fn ends(&mut self, key: &ObjectKey) {
        self.failed.remove(key);
        self.had_failed.remove(key);
        self.gone.remove(key);
    }

    /// Another generation is to be called from now on.
    pub(super) fn passes_on(&mut self) {
        self.had_failed = self.failed.keys().cloned().collect();
    }

    /// Whether `key` had failed last under the generation before.
    pub(super) fn had_failed(&self, key: &ObjectKey) -> bool {
        self.had_failed.contains(key)
    }

    /// The primary of `key` has gone, and this was its uid.
    pub(super) fn goes(&mut self, key: ObjectKey, uid: Arc<str>) {
        self.gone.insert(key, uid);
    }

    /// The uid that the primary of `key` had, which has gone. None: the host has not seen it go.
    pub(super) fn uid_of_gone(&self, key: &ObjectKey) -> Option<Arc<str>> {
        self.gone.get(key).cloned()
    }

    /// `key` is about to be queued, by `trigger`.
    pub(crate) fn note(&mut self, key: &ObjectKey, trigger: &Arc<Trigger>) {
        self.triggers.entry(key.clone()).or_default().note(trigger);
    }

    /// The triggers of `key` since they were last taken, which stay where they are.
    pub(super) fn triggers(&self, key: &ObjectKey) -> Triggers {
        self.triggers.get(key).cloned().unwrap_or_default()
    }

    /// The triggers of `key` since they were last taken.
    pub(crate) fn take_triggers(&mut self, key: &ObjectKey) -> Triggers {
        let triggers = self.triggers.remove(key).unwrap_or_default();
        if self.triggers.is_empty() {
            // A start queues every key there is. The room for all of them is not needed again for long.
            self.triggers = HashMap::new();
        }
        triggers
    }

    /// The call about `key` was not made: its `triggers` are for the next.
    pub(super) fn keep_triggers(&mut self, key: &ObjectKey, triggers: &Triggers) {
        if triggers.is_empty() {
            return;
        }
        let mut all = triggers.clone();
        all.extend(&self.triggers.remove(key).unwrap_or_default());
        self.triggers.insert(key.clone(), all);
    }

    /// The keys that have failed: another configuration or another version of the plugin may do better.
    pub(crate) fn forget_failed(&mut self) -> Vec<ObjectKey> {
        self.failed.drain().map(|(key, _)| key).collect()
    }
}
