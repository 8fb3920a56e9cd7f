//! Rescans: each object of a cache is handled again as if it were new.
//!
//! Usually every primary runs at a start, a resync, a swap and a new configuration, so it does not matter what the
//! other caches hold. If the plugin's own code decides which primaries count, only those run that the code lets pass,
//! and those that other watched objects lead to. So all caches are rescanned, as an informer's resync in client-go
//! passes its objects to the event handlers again.

use std::collections::{HashSet, VecDeque};
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
    requests: watch::Sender<Arc<Trigger>>,
    filters_primaries: bool,
}

impl Rescans {
    /// `filters_primaries`: whether the plugin's own code decides which primaries count.
    pub(crate) fn new(filters_primaries: bool) -> Self {
        Self { requests: watch::Sender::new(Arc::new(TriggerReason::Start.into())), filters_primaries }
    }

    /// Whether the plugin's own code decides which primaries count. Otherwise every primary runs instead of a rescan,
    /// except at the start.
    pub(crate) fn filters_primaries(&self) -> bool {
        self.filters_primaries
    }

    /// Requests a rescan, whose keys get this `trigger`. If another one has not ended, both go on as one, which begins
    /// with the objects that are left.
    pub(crate) fn request(&self, trigger: impl Into<Trigger>) {
        self.requests.send_replace(Arc::new(trigger.into()));
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
    requests: watch::Receiver<Arc<Trigger>>,
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
        // Mark the request as seen before asking `may_begin`. A request that comes after the answer is then not lost.
        let trigger = self.requests.borrow_and_update().clone();
        if may_begin() && !Defect::RescanIsLost.is_seeded() {
            self.trigger = trigger;
            self.begin_again();
        }
    }

    /// Begins with the objects that the last rescan has not reached. Otherwise, if rescans are requested faster than
    /// they end, these objects would never be handled.
    fn begin_again(&mut self) {
        let left: HashSet<_> = self.left.iter().cloned().collect();
        let others = self.cache.keys().into_iter().filter(|key| !left.contains(key));
        self.left.extend(others);
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
            // The object was deleted. The watch delivers the deletion as an event.
        }
        None
    }

    /// Puts an object back whose event was not handled.
    pub(crate) fn put_back(&mut self, event: &WatchEvent) {
        self.left.push_front(event.key().clone());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use windlass_core::object::Header;

    use super::*;

    /// A cache with objects of these names.
    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<Vec<&'static str>>>);

    impl ScannedCache for Names {
        fn keys(&self) -> Vec<ObjectKey> {
            self.0.lock().expect("no panic").iter().map(|name| ObjectKey::namespaced("prod", *name)).collect()
        }

        fn get(&self, key: &ObjectKey) -> Option<Object> {
            self.keys().contains(key).then(|| Object::new(Header::bare(key.clone(), "u", "1"), "{}"))
        }
    }

    fn scene(names: &[&'static str]) -> (Names, Rescans, Rescan) {
        let (cache, rescans) = (Names(Arc::new(Mutex::new(names.to_vec()))), Rescans::new(true));
        let rescan = rescans.of(cache.clone());
        (cache, rescans, rescan)
    }

    /// The names of the next `count` objects.
    fn handled(rescan: &mut Rescan, count: usize) -> Vec<String> {
        (0..count).map_while(|_| rescan.next()).map(|event| event.key().name.to_string()).collect()
    }

    #[test]
    fn a_rescan_that_replaces_another_begins_with_the_objects_that_are_left() {
        let (cache, rescans, mut rescan) = scene(&["a", "b", "c", "d", "e"]);
        rescans.request(TriggerReason::Resync);
        rescan.begin_requested(|| true);
        assert_eq!(handled(&mut rescan, 2), ["a", "b"]);
        cache.0.lock().expect("no panic").retain(|name| *name != "d");
        cache.0.lock().expect("no panic").insert(0, "0");
        rescans.request(TriggerReason::Configuration);
        rescan.begin_requested(|| true);
        assert_eq!(rescan.trigger().to_string(), "Configuration");
        assert_eq!(handled(&mut rescan, 9), ["c", "e", "0", "a", "b"], "each object once");
    }

    #[test]
    fn rescans_requested_faster_than_they_end_still_reach_every_object() {
        let (_, rescans, mut rescan) = scene(&["a", "b", "c", "d", "e"]);
        let mut reached = Vec::new();
        for _ in 0..3 {
            rescans.request(TriggerReason::Resync);
            rescan.begin_requested(|| true);
            reached.extend(handled(&mut rescan, 2));
        }
        assert_eq!(reached, ["a", "b", "c", "d", "e", "a"]);
    }
}
