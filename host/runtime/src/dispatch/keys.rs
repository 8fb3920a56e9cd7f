//! The keys of one controller. Feeders queue a key when something has changed; this module queues keys for other
//! reasons.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::cache::mapping::{Primaries as _, PrimaryKind};
use windlass_core::object::{ObjectKey, ObjectRef};
use windlass_core::queue::trigger::{Trigger, TriggerReason, Triggers};
use windlass_core::queue::{Priority, Queue};
use windlass_core::write::expectations::DoubtfulKey;
use windlass_core::write::gate::Gate;

use super::memory::KeyMemory;
use super::route::Stores;
use crate::observe::status::ControllerStatus;

/// After an outage shorter than this, failed keys keep their backoff, which is short too.
pub(super) const OUTAGE_WITHOUT_RETRY_MAX: Duration = Duration::from_secs(1);

/// The keys of one controller: the queue, the gate, and what earlier calls left behind.
pub(crate) struct ControllerKeys {
    pub(crate) primary: PrimaryKind,
    pub(crate) primaries: Stores,
    pub(crate) queue: Queue<ObjectKey>,
    /// Holds each key whose own writes the caches do not show yet. `None` if no key is held.
    pub(crate) gate: Option<Arc<Gate>>,
    /// The memory outlives the generation, as the queue does.
    pub(crate) memory: Arc<Mutex<KeyMemory>>,
    pub(crate) status: Arc<ControllerStatus>,
}

impl ControllerKeys {
    /// Whether the gate holds `key`.
    pub(super) fn is_held(&self, key: &ObjectKey) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.holds(key))
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, KeyMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the failures of `key`, because something has changed that may have fixed them.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.queue.forget(key);
        self.status.forget(key);
    }

    /// Queues the keys that failed in the outage since `began`, and forgets the failures that it caused. Returns their
    /// number.
    ///
    /// After a short outage, the keys still wait for their backoff. A server that answers probes but fails every write
    /// has one short outage after another, and must not be stormed.
    pub(super) fn recover(&self, began: Instant) -> usize {
        if began.elapsed() < OUTAGE_WITHOUT_RETRY_MAX {
            return 0;
        }
        let keys = self.memory().setbacks.take(began);
        let (count, trigger) = (keys.len(), Arc::new(TriggerReason::Retry.into()));
        for key in keys {
            self.queue.forget(&key);
            self.memory().note(&key, &trigger);
            self.queue.add(key);
        }
        count
    }

    /// The triggers of `key`, which is about to be called: the noted ones, or else the fact that its time has come.
    pub(super) fn triggers(&self, memory: &mut KeyMemory, key: &ObjectKey) -> Triggers {
        let mut triggers = memory.take_triggers(key);
        // If the key was queued for a later time, the reason for that is known.
        if triggers.is_empty() && self.queue.was_due(key) {
            let failed = self.queue.has_failed(key);
            let reason = if failed { TriggerReason::Retry } else { TriggerReason::RequeueAfter };
            triggers.note(&Arc::new(reason.into()));
        }
        triggers
    }

    /// Queues every primary at low priority without its failures, because something has changed that may have fixed
    /// them.
    pub(crate) fn start_afresh(&self, reason: TriggerReason) {
        let failed = self.memory().forget_failed();
        for key in failed {
            self.forget(&key);
        }
        self.queue_all(reason);
    }

    /// Queues the keys whose last calls failed, with all their retries. Returns their number.
    pub(super) fn run_failed(&self) -> usize {
        let failed = self.memory().forget_failed();
        let (keys, trigger) = (failed.len(), Arc::new(TriggerReason::RunRequested.into()));
        for key in failed {
            self.forget(&key);
            self.memory().note(&key, &trigger);
            self.queue.add_with(key, Priority::BACKGROUND);
        }
        keys
    }

    /// Queues every primary at low priority for this `reason`. Returns their number.
    pub(crate) fn queue_all(&self, reason: TriggerReason) -> usize {
        let (keys, trigger) = (self.primaries.all(), Arc::new(reason.into()));
        let queued = keys.len();
        for key in keys {
            self.memory().note(&key, &trigger);
            self.queue.add_with(key, Priority::BACKGROUND);
        }
        queued
    }

    /// As [`Self::catch_up`], for a generation that replaces another.
    pub(crate) fn take_over(&self, gone: impl IntoIterator<Item = (ObjectKey, Arc<str>)>) {
        self.memory().passes_on();
        self.catch_up(gone, TriggerReason::Swap);
    }

    /// Queues every primary for this `reason`. Also queues the primaries in `gone`, each with its UID, that were
    /// deleted while the events of the watches were discarded.
    pub(crate) fn catch_up(&self, gone: impl IntoIterator<Item = (ObjectKey, Arc<str>)>, reason: TriggerReason) {
        self.queue_gone(gone);
        self.start_afresh(reason);
    }

    /// Queues primaries that the previous generation had and this one lacks. Each runs once all caches have proven to
    /// be fresh: until then it is unknown whether the primary was deleted or has not arrived yet.
    pub(crate) fn doubt_missing(&self, missing: Vec<(ObjectKey, Arc<str>)>) {
        if let Some(gate) = self.gate.as_ref().filter(|_| !missing.is_empty()) {
            gate.doubt(missing.iter().map(|(key, _)| DoubtfulKey::new(key.clone())));
        }
        self.queue_gone(missing);
    }

    fn queue_gone(&self, gone: impl IntoIterator<Item = (ObjectKey, Arc<str>)>) {
        for (key, uid) in gone {
            let object = Some(ObjectRef { kind: self.primary.kind.clone(), key: key.clone(), uid: Some(uid.clone()) });
            let trigger = Trigger { reason: TriggerReason::Deleted, watch: None, object };
            let mut memory = self.memory();
            memory.note(&key, &Arc::new(trigger));
            memory.goes(key.clone(), uid);
            drop(memory);
            self.queue.add_with(key, Priority::CHANGE);
        }
    }
}
