//! Puts the keys that events lead to into the queue, and what queued them into the memory for their next call.

use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::cache::mapping::{Mapping, Primaries as _};
use windlass_core::cache::watch::{Tombstone, WatchEvent};
use windlass_core::defect::Defect;
use windlass_core::object::ObjectKey;
use windlass_core::queue::trigger::{Trigger, TriggerReason};
use windlass_core::queue::{Priority, Queue};

use crate::dispatch::memory::KeyMemory;
use crate::dispatch::route::{Route, Stores, priority};

/// Receives the keys of one declared watch.
pub(crate) struct KeySink {
    pub(crate) route: Route,
    pub(crate) queue: Queue<ObjectKey>,
    pub(crate) primaries: Stores,
    pub(crate) memory: Arc<Mutex<KeyMemory>>,
    /// The trigger of all keys of a first list, which may be many thousands.
    start: Arc<Trigger>,
}

impl KeySink {
    pub(crate) fn new(route: Route, queue: Queue<ObjectKey>, primaries: Stores, memory: Arc<Mutex<KeyMemory>>) -> Self {
        Self { route, queue, primaries, memory, start: Arc::new(TriggerReason::Start.into()) }
    }

    /// Remembers the UID of a deleted primary: the plugin is called about it once more, with this UID.
    pub(crate) fn remember_gone(&self, event: &WatchEvent) {
        if let (WatchEvent::Deleted(Tombstone { last, .. }), Mapping::Itself) = (event, &self.route.mapping) {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.goes(last.header.key.clone(), last.header.uid.text());
        }
    }

    /// Queues `keys`, which `event` concerns.
    pub(crate) fn queue(&self, keys: Vec<ObjectKey>, event: &WatchEvent) {
        // All keys of a first list share one trigger.
        let is_start = matches!(event, WatchEvent::Applied { initial: true, .. });
        if keys.is_empty() || (is_start && Defect::StartQueuesNothing.is_seeded()) {
            return;
        }
        let trigger = if is_start { self.start.clone() } else { Arc::new(self.route.trigger(event)) };
        self.note(&keys, &trigger);
        let priority = priority(event, &self.route);
        // A start or a request of a user asks for a call. A change need not, if no call would read it.
        let is_change = matches!(trigger.reason, TriggerReason::Changed | TriggerReason::Deleted);
        for key in keys {
            if is_change {
                self.queue.add_for_change(key.clone(), priority);
            } else {
                self.queue.add_with(key.clone(), priority);
            }
            // Logged before the key is queued, so that a reader of the line finds the key queued or running.
            tracing::trace!(target: "windlass::feed", kind = %self.route.primary.kind, %key, ?priority, "queued");
        }
    }

    /// Queues every primary, because the affected ones are unknown.
    pub(crate) fn queue_all(&self) {
        let keys = self.primaries.all();
        let trigger = Trigger { watch: self.route.watch.clone(), ..TriggerReason::Changed.into() };
        self.queue_in_background(keys, &Arc::new(trigger));
    }

    /// Queues `keys` at low priority for this `trigger`.
    pub(crate) fn queue_in_background(&self, keys: Vec<ObjectKey>, trigger: &Arc<Trigger>) {
        self.note(&keys, trigger);
        for key in keys {
            self.queue.add_with(key, Priority::BACKGROUND);
        }
    }

    /// Notes the trigger of `keys` for their next calls. Call this before they are queued, as a worker may take them at
    /// once.
    fn note(&self, keys: &[ObjectKey], trigger: &Arc<Trigger>) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            memory.note(key, trigger);
        }
    }
}
