//! Rescans: each object of a cache is handled again as if it were new.
//!
//! Usually every primary runs at a start, a resync, a swap and a new configuration, so it does not matter what the
//! other caches hold. If the plugin's own code decides which primaries count, only those run that the code lets pass,
//! and those that other watched objects lead to. So all caches are rescanned, as an informer's resync in client-go
//! passes its objects to the event handlers again.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use windlass_core::cache::watch::WatchEvent;
use windlass_core::defect::Defect;
use windlass_core::object::{Object, ObjectKey};
use windlass_core::queue::trigger::{Trigger, TriggerReason};
use windlass_kube::Store;

/// Requests rescans from the feeders of one controller.
#[derive(Debug)]
pub(crate) struct Rescans {
    requests: watch::Sender<TriggerReason>,
    filters_primaries: bool,
}

impl Rescans {
    /// `filters_primaries`: whether the plugin's own code decides which primaries count.
    pub(crate) fn new(filters_primaries: bool) -> Self {
        Self { requests: watch::Sender::new(TriggerReason::Start), filters_primaries }
    }

    /// Whether the plugin's own code decides which primaries count. Otherwise every primary runs instead of a rescan,
    /// except at the start.
    pub(crate) fn filters_primaries(&self) -> bool {
        self.filters_primaries
    }

    /// Requests a rescan for this `reason`. It replaces one that has not ended.
    pub(crate) fn request(&self, reason: TriggerReason) {
        self.requests.send_replace(reason);
    }

    /// The rescans of one cache that are requested from now on.
    pub(crate) fn of(&self, cache: impl ScannedCache) -> Rescan {
        let (cache, requests) = (Box::new(cache), self.requests.subscribe());
        Rescan { cache, requests, left: VecDeque::new(), trigger: Arc::new(TriggerReason::Start.into()) }
    }
}

/// A cache that can be rescanned.
pub(crate) trait ScannedCache: Send + 'static {
    /// The keys of all objects, in a fixed order.
    fn keys(&self) -> Vec<ObjectKey>;

    /// The object with this key.
    fn get(&self, key: &ObjectKey) -> Option<Object>;
}

impl ScannedCache for Store {
    fn keys(&self) -> Vec<ObjectKey> {
        self.all().into_iter().map(|object| object.header.key.clone()).collect()
    }

    fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.get(key)
    }
}

/// The rescan of one cache. It holds only keys, so it does not keep old states of objects in memory.
pub(crate) struct Rescan {
    cache: Box<dyn ScannedCache>,
    requests: watch::Receiver<TriggerReason>,
    /// The objects that are yet to be handled.
    left: VecDeque<ObjectKey>,
    trigger: Arc<Trigger>,
}

impl Rescan {
    /// Completes when a rescan is requested. Cancel-safe.
    pub(crate) async fn requested(&mut self) {
        match self.requests.changed().await {
            Ok(()) => self.requests.mark_changed(),
            // The controller has ended.
            Err(_) => std::future::pending().await,
        }
    }

    /// Begins the requested rescan, if there is one and it `may_begin`. If it may not, it is dropped.
    pub(crate) fn begin_requested(&mut self, may_begin: impl FnOnce() -> bool) {
        if !self.requests.has_changed().is_ok_and(|has_changed| has_changed) {
            return;
        }
        // Before the question: a later request, which is made when it may begin, is then not taken for this one.
        let reason = *self.requests.borrow_and_update();
        if may_begin() && !Defect::RescanIsLost.is_seeded() {
            self.trigger = Arc::new(reason.into());
            self.left = self.cache.keys().into();
        }
    }

    /// Ends the current rescan.
    pub(crate) fn stop(&mut self) {
        self.left = VecDeque::new();
    }

    /// The trigger of the keys that the rescan queues.
    pub(crate) fn trigger(&self) -> &Arc<Trigger> {
        &self.trigger
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// The next object in its current state, as the event of a new object.
    pub(crate) fn next(&mut self) -> Option<WatchEvent> {
        while let Some(key) = self.left.pop_front() {
            if let Some(new) = self.cache.get(&key) {
                return Some(WatchEvent::Applied { old: None, new, initial: true });
            }
            // Its deletion is an event of its own.
        }
        None
    }

    /// Puts an object back whose event was not handled.
    pub(crate) fn put_back(&mut self, event: &WatchEvent) {
        self.left.push_front(event.key().clone());
    }
}
