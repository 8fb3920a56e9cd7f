//! What an informer has seen, and its way to the subscribers.
//!
//! One lock orders everything: a change of the store and its delivery to each subscriber happen under it, and so does
//! the snapshot of a new subscriber. Hence a subscriber's events are its snapshot and every later change, once.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;

use tokio::sync::{mpsc, watch};
use windlass_core::object::{Object, ObjectKey};
use windlass_core::watch::{Tombstone, WatchEvent};

use crate::discovery::Resource;
use crate::informer::{InformerError, InformerStatus};
use crate::store::{Contents, Store, StoreWriter};

/// The shared side of an informer.
pub(crate) struct Feed {
    store: Store,
    state: Mutex<State>,
    status: watch::Sender<InformerStatus>,
    /// How many subscribers there are; changed under the lock of `state`.
    subscribers: watch::Sender<usize>,
}

struct State {
    writer: StoreWriter,
    senders: HashMap<u64, mpsc::UnboundedSender<WatchEvent>>,
    next_id: u64,
    /// The informer has stopped for good: no more events will come.
    closed: bool,
}

impl State {
    fn send(&self, events: &[WatchEvent]) {
        for sender in self.senders.values() {
            for event in events {
                // A receiver that is gone is about to be removed by its drop.
                let _ = sender.send(event.clone());
            }
        }
    }
}

impl Feed {
    pub(crate) fn new() -> Self {
        let (store, writer) = Store::new();
        let state = State { writer, senders: HashMap::new(), next_id: 0, closed: false };
        Self {
            store,
            state: Mutex::new(state),
            status: watch::Sender::default(),
            subscribers: watch::Sender::default(),
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        let (sender, events) = mpsc::unbounded_channel();
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        if !state.closed {
            state.senders.insert(id, sender);
        }
        self.subscribers.send_replace(state.senders.len());
        let snapshot = self.store.all().into_iter();
        Subscription { feed: Arc::clone(self), id, snapshot, events }
    }

    /// Takes over a complete list: what is new or changed is applied, what is missing has gone.
    pub(crate) fn replace(&self, objects: Vec<Object>, resource: Arc<Resource>) {
        let mut state = self.lock();
        let events = state.writer.update(|contents| {
            let initial = !contents.is_synced();
            contents.set_synced(resource);
            let listed: HashSet<_> = objects.iter().map(|object| object.header.key.clone()).collect();
            let gone: Vec<_> = contents
                .iter()
                .map(|object| &object.header.key)
                .filter(|key| !listed.contains(*key))
                .cloned()
                .collect();
            let mut events: Vec<_> = gone.iter().filter_map(|key| remove(contents, key)).collect();
            for object in objects {
                insert(contents, object, initial, &mut events);
            }
            events
        });
        state.send(&events);
        self.status.send_modify(|status| {
            status.synced = true;
            status.lists += 1;
        });
    }

    /// Takes over an object from the watch, unless the store has already seen this state or a later one.
    pub(crate) fn apply(&self, object: Object) {
        let mut state = self.lock();
        let events = state.writer.update(|contents| {
            let mut events = Vec::new();
            let stored = contents.get(&object.header.key);
            if stored.is_none_or(|stored| is_newer(&object, stored)) {
                insert(contents, object, false, &mut events);
            }
            events
        });
        state.send(&events);
    }

    /// Takes over a deletion from the watch; `last` is the state in which the object went.
    pub(crate) fn delete(&self, last: Object) {
        let mut state = self.lock();
        let event = state.writer.update(|contents| {
            let stored = contents.get(&last.header.key)?;
            if stored.header.uid != last.header.uid {
                // Either the name has come back already, or the watch skipped how it did.
                return if is_newer(&last, stored) { remove(contents, &last.header.key) } else { None };
            }
            contents.remove(&last.header.key);
            Some(WatchEvent::Deleted(Tombstone { last, final_state_unknown: false }))
        });
        state.send(event.as_slice());
    }

    /// Ends every subscription.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.senders.clear();
        self.status.send_modify(|status| status.stopped = true);
    }

    pub(crate) fn update_status(&self, change: impl FnOnce(&mut InformerStatus)) {
        self.status.send_modify(change);
    }

    pub(crate) fn subscriber_count(&self) -> watch::Receiver<usize> {
        self.subscribers.subscribe()
    }

    fn unsubscribe(&self, id: u64) {
        let mut state = self.lock();
        state.senders.remove(&id);
        self.subscribers.send_replace(state.senders.len());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores `object`. A name that came back with another UID is a deletion that nobody saw, and then a new object.
fn insert(contents: &mut Contents, object: Object, initial: bool, events: &mut Vec<WatchEvent>) {
    let old = contents.insert(object.clone());
    let old = match old {
        Some(old) if old.header.uid != object.header.uid => {
            events.push(WatchEvent::Deleted(Tombstone { last: old, final_state_unknown: true }));
            None
        }
        Some(old) if old.header.version == object.header.version => return,
        old => old,
    };
    events.push(WatchEvent::Applied { old, new: object, initial });
}

/// Removes what nobody saw going.
fn remove(contents: &mut Contents, key: &ObjectKey) -> Option<WatchEvent> {
    let last = contents.remove(key)?;
    Some(WatchEvent::Deleted(Tombstone { last, final_state_unknown: true }))
}

/// Whether `object` is a later state than `stored`. Where versions do not compare, what comes later is newer.
fn is_newer(object: &Object, stored: &Object) -> bool {
    match compare_versions(&object.header.version, &stored.header.version) {
        Some(order) => order == Ordering::Greater,
        None => object.header.version != stored.header.version,
    }
}

/// Versions that are decimal numbers compare as such, at any length (KEP-5504). Others do not compare.
pub(crate) fn compare_versions(a: &str, b: &str) -> Option<Ordering> {
    let is_number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0') && !text.is_empty();
    (is_number(a) && is_number(b)).then(|| a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
}

/// One subscriber's view of an informer.
pub struct Subscription {
    feed: Arc<Feed>,
    id: u64,
    snapshot: vec::IntoIter<Object>,
    events: mpsc::UnboundedReceiver<WatchEvent>,
}

impl Subscription {
    /// The informer's store. Keeping a clone of it does not keep the informer running, this subscription does.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.feed.store
    }

    /// Waits for the first complete list, whose events are then all in this subscription. False: the informers stopped
    /// before.
    pub async fn synced(&self) -> bool {
        let mut status = self.feed.status.subscribe();
        match status.wait_for(|status| status.synced || status.stopped).await {
            Ok(status) => status.synced,
            Err(_) => false,
        }
    }

    /// The next event: first those that the store held at the beginning, as initial ones, then every change since, once.
    /// None: the informers have stopped. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        match self.snapshot.next() {
            Some(new) => Some(WatchEvent::Applied { old: None, new, initial: true }),
            None => self.events.recv().await,
        }
    }

    /// Completes when the informer fails from now on with an error that `is` of a sort. Does not hold the subscription.
    pub fn fails(
        &self,
        is: impl Fn(&InformerError) -> bool + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let mut status = self.feed.status.subscribe();
        status.mark_unchanged();
        async move {
            while status.changed().await.is_ok() {
                if status.borrow_and_update().error.as_deref().is_some_and(&is) {
                    return;
                }
            }
            std::future::pending::<()>().await;
        }
    }

    /// How the informer is doing.
    #[must_use]
    pub fn status(&self) -> InformerStatus {
        self.feed.status.borrow().clone()
    }

    /// What keeps the informer from listing or watching right now.
    #[must_use]
    pub fn error(&self) -> Option<Arc<InformerError>> {
        self.feed.status.borrow().error.clone()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.unsubscribe(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::thread;

    use futures::FutureExt as _;
    use rand::rngs::SmallRng;
    use rand::{RngExt as _, SeedableRng as _};
    use windlass_core::object::ObjectKind;

    use super::*;

    fn resource() -> Arc<Resource> {
        let kind = ObjectKind::new("v1", "Pod");
        let resource =
            Resource { kind, plural: "pods".into(), namespaced: false, subresources: Vec::new(), verbs: Vec::new() };
        Arc::new(resource)
    }

    fn pod(name: u32, uid: u32, version: u32) -> Object {
        let text = format!(r#"{{"metadata":{{"name":"p{name}","uid":"u{uid}","resourceVersion":"{version}"}}}}"#);
        crate::parse::object(&text, &ObjectKind::new("v1", "Pod")).expect("an object")
    }

    /// Changes `feed` as a server might, in an order that it might not.
    fn change_at_random(feed: &Feed, random: &mut SmallRng, version: u32) {
        let object = |random: &mut SmallRng| {
            let uid = if random.random_bool(0.9) { 1 } else { 2 };
            // Sometimes a version from before.
            pod(random.random_range(0..8), uid, version.saturating_sub(random.random_range(0..4)).max(1))
        };
        match random.random_range(0..20) {
            0 => {
                let objects: BTreeMap<_, _> =
                    (0..6).map(|_| object(random)).map(|pod| (pod.header.key.clone(), pod)).collect();
                feed.replace(objects.into_values().collect(), resource());
            }
            1..=12 => feed.apply(object(random)),
            _ => feed.delete(object(random)),
        }
    }

    /// What a subscriber that believes its events holds in the end. Each event must follow from those before.
    fn replayed(mut subscription: Subscription) -> BTreeMap<ObjectKey, Object> {
        let mut state = BTreeMap::new();
        while let Some(Some(event)) = subscription.next().now_or_never() {
            match event {
                WatchEvent::Applied { old, new, .. } => {
                    assert_eq!(state.insert(new.header.key.clone(), new), old);
                }
                WatchEvent::Deleted(tombstone) => {
                    let last = state.remove(&tombstone.last.header.key).expect("deleted once, after it was applied");
                    assert_eq!(last.header.uid, tombstone.last.header.uid);
                }
            }
        }
        state
    }

    #[test]
    fn whoever_joins_whenever_ends_with_what_the_store_holds() {
        let feed = Arc::new(Feed::new());
        let subscriptions = thread::scope(|scope| {
            let joining = (0..3).map(|_| scope.spawn(|| (0..40).map(|_| feed.subscribe()).collect::<Vec<_>>()));
            let joining: Vec<_> = joining.collect();
            let mut random = SmallRng::seed_from_u64(11);
            let mut subscriptions = Vec::new();
            for version in 1..4_000 {
                change_at_random(&feed, &mut random, version);
                if version % 100 == 0 {
                    subscriptions.push(feed.subscribe());
                    drop(feed.subscribe());
                }
            }
            subscriptions.extend(joining.into_iter().flat_map(|thread| thread.join().expect("no panic")));
            subscriptions
        });
        let stored: BTreeMap<_, _> =
            feed.store.all().into_iter().map(|object| (object.header.key.clone(), object)).collect();
        assert_eq!(subscriptions.len(), 159);
        for subscription in subscriptions {
            assert_eq!(replayed(subscription), stored);
        }
        assert_eq!(*feed.subscriber_count().borrow(), 0);
    }

    #[test]
    fn versions_compare_as_numbers_of_any_length() {
        assert_eq!(compare_versions("9", "10"), Some(Ordering::Less));
        assert_eq!(compare_versions("99999999999999999999999", "100000000000000000000000"), Some(Ordering::Less));
        assert_eq!(compare_versions("7", "7"), Some(Ordering::Equal));
        for other in ["", "007", "a1", "-1"] {
            assert_eq!(compare_versions("7", other), None);
        }
    }
}
