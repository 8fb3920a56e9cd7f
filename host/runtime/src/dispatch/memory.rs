//! The memory that dispatch has of a key from one call to the next, beside the failures that the queue counts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windlass_core::hot_loop::SlowMark;
use windlass_core::object::{Object, ObjectKey};

use super::setbacks::Setbacks;

/// The memory of one controller, over the generations of its plugin. It holds no key that has ended well and that nothing
/// is to be done about.
#[derive(Debug, Default)]
pub(crate) struct KeyMemory {
    /// Keys that an outage may have set back.
    pub(super) setbacks: Setbacks,
    /// The keys that have failed, with the wish that they failed to bring about. None: the primary had gone.
    failed: HashMap<ObjectKey, Option<SlowMark>>,
    /// The keys that had failed last when the generation at work took over, and have neither ended well nor been changed since.
    had_failed: HashSet<ObjectKey>,
    /// The uids of primaries that have gone.
    gone: HashMap<ObjectKey, Arc<str>>,
}

impl KeyMemory {
    /// A call about `key` begins. Returns whether its failures are to be forgotten: somebody has changed the primary since.
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

    /// The keys that have failed: another configuration or another version of the plugin may do better.
    pub(crate) fn forget_failed(&mut self) -> Vec<ObjectKey> {
        self.failed.drain().map(|(key, _)| key).collect()
    }
}
