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

use super::left_keys::{LeftKey, RoundKeys};
use super::memory::KeyMemory;
use super::rescan::Rescans;
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
    pub(crate) rescans: Rescans,
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

    /// The keys, for the round that comes after this one.
    pub(crate) fn of_round(&self) -> RoundKeys {
        RoundKeys {
            primary: self.primary.clone(),
            queue: self.queue.clone(),
            memory: self.memory.clone(),
            filters_primaries: self.rescans.filters_primaries(),
        }
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

    /// As [`Self::queue_all`], without the keys' failures, because something has changed that may have fixed them.
    pub(crate) fn start_afresh(&self, reason: TriggerReason) {
        let failed = self.memory().forget_failed();
        for key in &failed {
            self.forget(key);
        }
        if self.rescans.filters_primaries() {
            // They must not wait for their backoff, even if the plugin's code does not let them pass.
            self.queue_in_background(failed, reason);
        }
        if let Some(timer) = self.primaries.timer.as_ref().filter(|timer| timer.is_pending()) {
            // A due time whose call has not ended well may fare better now.
            self.queue_in_background(vec![timer.key.clone()], reason);
        }
        self.queue_all(reason);
    }

    /// Queues the key of a timer that is due.
    pub(crate) fn run_timer(&self, key: &ObjectKey) {
        self.memory().note(key, &Arc::new(TriggerReason::RequeueAfter.into()));
        self.queue.add(key.clone());
    }

    /// Queues the key of the controller's timer for changes that came before the timer could be called.
    pub(crate) fn catch_up_timer(&self, key: &ObjectKey) {
        self.queue_in_background(vec![key.clone()], TriggerReason::Start);
    }

    /// Queues the keys whose last calls failed, with all their retries. Returns their number.
    pub(super) fn run_failed(&self) -> usize {
        let failed = self.memory().forget_failed();
        let keys = failed.len();
        for key in &failed {
            self.forget(key);
        }
        self.queue_in_background(failed, TriggerReason::RunRequested);
        keys
    }

    /// Queues every primary at low priority with this `trigger`, or those to which a [rescan](Rescans) leads if the
    /// plugin's code decides which primaries count. Returns the number of primaries. A timer runs only when it is due.
    pub(crate) fn queue_all(&self, trigger: impl Into<Trigger>) -> usize {
        if self.primaries.timer.is_some() {
            return 0;
        }
        let keys = self.primaries.all();
        let primaries = keys.len();
        if self.rescans.filters_primaries() {
            self.rescans.request(trigger);
        } else {
            self.queue_in_background(keys, trigger);
        }
        primaries
    }

    /// Queues `keys`, which a delivery to the hook of this name has named.
    pub(crate) fn queue_delivered(&self, keys: impl IntoIterator<Item = ObjectKey>, hook: &str) {
        let trigger = Arc::new(of_hook(hook));
        for key in keys {
            self.memory().note(&key, &trigger);
            self.queue.add_with(key, Priority::CHANGE);
        }
    }

    /// As [`Self::queue_all`], because a delivery to the hook of this name leads to all primaries.
    pub(crate) fn queue_all_delivered(&self, hook: &str) -> usize {
        self.queue_all(of_hook(hook))
    }

    fn queue_in_background(&self, keys: Vec<ObjectKey>, trigger: impl Into<Trigger>) {
        let trigger = Arc::new(trigger.into());
        for key in keys {
            self.memory().note(&key, &trigger);
            self.queue.add_with(key, Priority::BACKGROUND);
        }
    }

    /// As [`Self::catch_up`], for a generation that replaces another.
    pub(crate) fn take_over(&self, gone: impl IntoIterator<Item = (ObjectKey, Arc<str>)>) {
        self.memory().passes_on();
        self.catch_up(gone, TriggerReason::Swap);
    }

    /// Begins to work: all first lists are in the caches. `gone`: as in [`Self::catch_up`], or `None` if no events were
    /// discarded.
    pub(crate) fn begin(&self, gone: Option<impl IntoIterator<Item = (ObjectKey, Arc<str>)>>) {
        match gone {
            Some(gone) => self.catch_up(gone, TriggerReason::Start),
            // Without a rescan, the first lists become keys as they come.
            None => self.rescans.request(TriggerReason::Start),
        }
    }

    /// Calls [`Self::start_afresh`], and queues the deleted primaries in `gone`, each with its UID: the events of the
    /// watches were discarded until now, so no event has queued these. For the same reason, it queues a timer that
    /// changes call.
    pub(crate) fn catch_up(&self, gone: impl IntoIterator<Item = (ObjectKey, Arc<str>)>, reason: TriggerReason) {
        self.queue_gone(gone, KeyMemory::went_before);
        self.start_afresh(reason);
        if let Some(timer) = self.primaries.timer.as_ref().filter(|timer| timer.follows_changes) {
            self.queue_in_background(vec![timer.key.clone()], reason);
        }
    }

    /// Queues primaries that the previous generation had and this one lacks. Each runs once all caches have proven to
    /// be fresh: until then it is unknown whether the primary was deleted or has not arrived yet.
    pub(crate) fn doubt_missing(&self, missing: Vec<(ObjectKey, Arc<str>)>) {
        if let Some(gate) = self.gate.as_ref().filter(|_| !missing.is_empty()) {
            gate.doubt(missing.iter().map(|(key, _)| DoubtfulKey::new(key.clone())));
        }
        // The last round's cache had these primaries until now, so they went later than any that the memory has.
        self.queue_gone(missing, KeyMemory::goes);
    }

    /// Queues the keys that an earlier round has `left`, without asking the plugin's code. Deletions and requested runs
    /// go before the run of every primary, as they did in that round.
    pub(crate) fn queue_left(&self, left: Vec<(ObjectKey, LeftKey)>, reason: TriggerReason) {
        let trigger = Arc::new(reason.into());
        for (key, LeftKey { triggers, gone }) in left {
            let is_urgent = gone.is_some() || triggers.has_run_request();
            let priority = if is_urgent { Priority::CHANGE } else { Priority::BACKGROUND };
            let mut memory = self.memory();
            memory.keep_triggers(&key, &triggers);
            memory.note(&key, &trigger);
            if let Some(uid) = gone {
                memory.went_before(key.clone(), uid);
            }
            drop(memory);
            self.queue.add_with(key, priority);
        }
    }

    fn queue_gone(
        &self,
        gone: impl IntoIterator<Item = (ObjectKey, Arc<str>)>,
        remember: impl Fn(&mut KeyMemory, ObjectKey, Arc<str>),
    ) {
        for (key, uid) in gone {
            let object = Some(ObjectRef { kind: self.primary.kind.clone(), key: key.clone(), uid: Some(uid.clone()) });
            let trigger = Trigger { reason: TriggerReason::Deleted, watch: None, object };
            let mut memory = self.memory();
            memory.note(&key, &Arc::new(trigger));
            remember(&mut memory, key.clone(), uid);
            drop(memory);
            self.queue.add_with(key, Priority::CHANGE);
        }
    }
}

/// The trigger of keys that a delivery to the hook of this name has queued.
fn of_hook(hook: &str) -> Trigger {
    Trigger { watch: Some(hook.into()), ..TriggerReason::Hook.into() }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use windlass_core::object::{Header, Object, ObjectKind};
    use windlass_core::queue::ItemExponential;

    use super::*;
    use crate::clock::SystemClock;
    use crate::dispatch::rescan::ScannedCache;
    use crate::observe::metrics::HostMetrics;

    /// A cache with one object.
    struct OneObject(Object);

    impl ScannedCache for OneObject {
        fn keys(&self) -> Vec<ObjectKey> {
            vec![self.0.header.key.clone()]
        }

        fn get(&self, _: &ObjectKey) -> Option<Object> {
            Some(self.0.clone())
        }
    }

    fn object(name: &str) -> Object {
        Object::new(Header::bare(ObjectKey::namespaced("prod", name), name, "1"), "{}")
    }

    /// The keys of a controller whose code `filters_primaries`, or not, of which `stores` has the primaries.
    fn keys(filters_primaries: bool, primaries: Stores) -> ControllerKeys {
        let metrics = HostMetrics::new().controller("a", "a");
        ControllerKeys {
            primary: PrimaryKind { kind: ObjectKind::new("v1", "Secret"), namespaced: true },
            primaries,
            queue: Queue::new(Arc::new(SystemClock::new()), ItemExponential::default()),
            gate: None,
            memory: Arc::default(),
            rescans: Rescans::new(filters_primaries),
            status: ControllerStatus::unlisted(&"a".into(), "a", 1, metrics),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_filtered_fresh_start_runs_failed_keys_and_rescans_the_rest() {
        let keys = keys(true, Stores::default());
        let mut rescan = keys.rescans.of(OneObject(object("listed")));
        let failed = object("failed").header.key.clone();
        keys.memory().fails(&failed, None);
        keys.start_afresh(TriggerReason::Configuration);
        assert_eq!(keys.queue.get().now_or_never(), Some(Some(failed.clone())), "it must not wait for its backoff");
        assert_eq!(keys.memory().take_triggers(&failed).to_string(), "Configuration");
        assert!(keys.queue.get().now_or_never().is_none(), "the code is asked about the others");
        rescan.begin_requested(|| true);
        let next = rescan.next().expect("an object");
        assert_eq!((&*next.key().name, rescan.trigger().to_string().as_str()), ("listed", "Configuration"));
    }

    #[tokio::test(start_paused = true)]
    async fn primaries_that_run_for_a_delivery_learn_its_hook() {
        let keys = keys(true, Stores::default());
        let mut rescan = keys.rescans.of(OneObject(object("listed")));
        keys.queue_all_delivered("pushed");
        rescan.begin_requested(|| true);
        let of_rescan = rescan.trigger();
        let key = object("listed").header.key.clone();
        keys.queue_in_background(vec![key.clone()], of_hook("pushed"));
        let triggers = keys.memory().take_triggers(&key);
        for trigger in triggers.iter().chain([&**of_rescan]) {
            assert_eq!((trigger.reason, trigger.watch.as_deref()), (TriggerReason::Hook, Some("pushed")));
        }
    }
}
