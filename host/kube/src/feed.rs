//! What an informer has seen, and its way to the subscribers.
//!
//! One lock orders everything: a change of the store and its delivery to each subscriber happen under it, and so does
//! the snapshot of a new subscriber. Hence a subscriber's events are its snapshot and every later change, once.

mod same;
mod subscription;

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, mpsc, watch};
use windlass_core::compact::Version;
use windlass_core::object::{Object, ObjectKey};
use windlass_core::text::Dictionary;
use windlass_core::watch::{IndexSource, Tombstone, WatchEvent, WatchSpec};

use self::same::is_same;
pub use self::subscription::Subscription;
use crate::budget::{Budget, Charges, Excess, Scope};
use crate::cold;
use crate::discovery::Resource;
use crate::informer::{InformerFigures, InformerStatus};
use crate::pointer::PointerError;
use crate::store::{Contents, Store, StoreWriter};

/// What a subscriber wants beside the events.
#[derive(Clone, Debug, Default)]
pub struct SubscribeOptions {
    /// Indexes that the store must have as long as this subscription lives.
    pub indexes: Vec<IndexSource>,
    /// What the cache is charged to. None: to nobody.
    pub budget: Option<Arc<Budget>>,
}

/// The shared side of an informer.
pub(crate) struct Feed {
    spec: WatchSpec,
    /// The most that the store may hold, in bytes.
    limit: usize,
    store: Store,
    state: Mutex<State>,
    status: watch::Sender<InformerStatus>,
    /// How many subscribers there are; changed under the lock of `state`.
    subscribers: watch::Sender<usize>,
    /// Asks an informer that waits before its next attempt not to wait any longer.
    hurry: Notify,
    /// What texts are packed against that did not come in a list.
    dictionary: OnceLock<Arc<Dictionary>>,
}

struct State {
    writer: StoreWriter,
    subscribers: HashMap<u64, Subscriber>,
    charges: Charges,
    next_id: u64,
    /// Events that are not delivered yet. Each is here before the change that it tells of is made, so that a panic on the
    /// way loses none.
    outbox: Vec<WatchEvent>,
    /// The informer has stopped for good: no more events will come.
    closed: bool,
}

struct Subscriber {
    sender: mpsc::UnboundedSender<WatchEvent>,
    options: SubscribeOptions,
}

/// What a complete list said.
pub(crate) struct Listed {
    pub(crate) objects: Vec<Object>,
    pub(crate) version: Version,
    pub(crate) resource: Arc<Resource>,
}

/// All subscribers have been stopped because the cache became too large for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

impl State {
    /// Changes the contents by `change`, which tells of what it does in the outbox first, and delivers that.
    fn change<T>(&mut self, change: impl FnOnce(&mut Contents, &mut Vec<WatchEvent>) -> T) -> T {
        let Self { writer, outbox, .. } = self;
        let result = writer.update(|contents| change(contents, outbox));
        self.deliver();
        result
    }

    fn deliver(&mut self) {
        for event in self.outbox.drain(..) {
            for subscriber in self.subscribers.values() {
                // A receiver that is gone is about to be removed by its drop.
                let _ = subscriber.sender.send(event.clone());
            }
        }
    }

    /// A subscriber has gone.
    fn remove(&mut self, id: u64, spec: &WatchSpec) {
        let Some(options) = self.stop(id) else { return };
        if let Some(budget) = &options.budget {
            self.charges.leave(budget, spec);
        }
    }

    /// Ends a subscription, whoever pays for it.
    fn stop(&mut self, id: u64) -> Option<SubscribeOptions> {
        let Subscriber { options, .. } = self.subscribers.remove(&id)?;
        self.writer.update(|contents| options.indexes.iter().for_each(|index| contents.undeclare(index)));
        Some(options)
    }
}

impl Feed {
    /// A feed of what `spec` watches, for at most `limit` bytes.
    pub(crate) fn new(spec: WatchSpec, limit: usize) -> Self {
        let (store, writer) = Store::new();
        let state = State {
            writer,
            subscribers: HashMap::new(),
            charges: Charges::default(),
            next_id: 0,
            outbox: Vec::new(),
            closed: false,
        };
        Self {
            spec,
            limit,
            store,
            state: Mutex::new(state),
            status: watch::Sender::default(),
            subscribers: watch::Sender::default(),
            hurry: Notify::new(),
            dictionary: OnceLock::new(),
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        self.enter(&mut self.lock(), SubscribeOptions::default())
    }

    pub(crate) fn subscribe_with(self: &Arc<Self>, options: SubscribeOptions) -> Result<Subscription, PointerError> {
        let mut state = self.lock();
        for (at, index) in options.indexes.iter().enumerate() {
            let declared = state.writer.update(|contents| contents.declare(index));
            if let Err(error) = declared {
                let before = &options.indexes[..at];
                state.writer.update(|contents| before.iter().for_each(|index| contents.undeclare(index)));
                return Err(error);
            }
        }
        Ok(self.enter(&mut state, options))
    }

    /// Adds a subscriber whose indexes are declared.
    fn enter(self: &Arc<Self>, state: &mut State, options: SubscribeOptions) -> Subscription {
        let (sender, events) = mpsc::unbounded_channel();
        let id = state.next_id;
        state.next_id += 1;
        let mut is_paid = || options.budget.as_ref().is_none_or(|budget| state.charges.join(budget, &self.spec));
        let is_in = !state.closed && is_paid();
        let snapshot = if is_in { self.store.all() } else { Vec::new() };
        if is_in {
            state.subscribers.insert(id, Subscriber { sender, options });
        } else {
            state.writer.update(|contents| options.indexes.iter().for_each(|index| contents.undeclare(index)));
        }
        self.subscribers.send_replace(state.subscribers.len());
        self.hurry.notify_one();
        Subscription { feed: Arc::clone(self), id, snapshot: snapshot.into_iter(), events }
    }

    /// Takes over a complete list: what is new or changed is applied, what is missing has gone.
    pub(crate) fn replace(&self, listed: Listed) -> Result<(), OverBudget> {
        let mut state = self.lock();
        let is_older = state.change(|contents, outbox| {
            let initial = !contents.is_synced();
            contents.set_resource(Some(listed.resource));
            let keys: HashSet<_> = listed.objects.iter().map(|object| &object.header.key).collect();
            let gone = contents.iter().filter(|object| !keys.contains(&object.header.key));
            let gone: Vec<_> = gone.map(|object| object.header.key.clone()).collect();
            for key in gone {
                remove(contents, &key, outbox);
            }
            for object in listed.objects {
                insert(contents, &object, initial, outbox);
            }
            let before = contents.version().and_then(|before| listed.version.compare(before));
            contents.set_version(listed.version);
            before == Some(Ordering::Less)
        });
        self.status.send_modify(|status| {
            status.synced = true;
            status.gone = false;
            status.lists += 1;
            status.epoch += u64::from(is_older);
        });
        self.charge(&mut state, 0)
    }

    /// Takes over an object from the watch, unless the store has already seen this state or a later one.
    pub(crate) fn apply(&self, object: &Object) -> Result<(), OverBudget> {
        let mut state = self.lock();
        state.change(|contents, outbox| {
            let version = object.header.version.clone();
            let stored = contents.get(&object.header.key);
            if stored.is_none_or(|stored| is_newer(object, stored)) {
                insert(contents, object, false, outbox);
            }
            advance(contents, version);
        });
        self.charge(&mut state, 0)
    }

    /// Takes over a deletion from the watch; `last` is the state in which the object went.
    pub(crate) fn delete(&self, last: Object) -> Result<(), OverBudget> {
        let mut state = self.lock();
        state.change(|contents, outbox| {
            advance(contents, last.header.version.clone());
            let Some(stored) = contents.get(&last.header.key) else { return };
            if stored.header.uid == last.header.uid {
                // Through a selector, the same object may have gone and come back since.
                if last.header.version.compare(&stored.header.version) == Some(Ordering::Less) {
                    return;
                }
                let key = last.header.key.clone();
                outbox.push(WatchEvent::Deleted(Tombstone { last, final_state_unknown: false }));
                contents.remove(&key);
            } else if is_newer(&last, stored) {
                // Its name had come back, which the watch skipped, and has gone again.
                remove(contents, &last.header.key, outbox);
            }
        });
        self.charge(&mut state, 0)
    }

    /// Everything up to `version` has been told.
    pub(crate) fn bookmark(&self, version: Version) {
        self.lock().writer.update(|contents| advance(contents, version));
    }

    /// The kind is served no more, so all its objects have gone; the next list is a first one again.
    pub(crate) fn vanish(&self) {
        let mut state = self.lock();
        state.change(|contents, outbox| {
            let keys: Vec<_> = contents.iter().map(|object| object.header.key.clone()).collect();
            for key in keys {
                remove(contents, &key, outbox);
            }
            contents.set_resource(None);
        });
        self.status.send_modify(|status| {
            status.synced = false;
            status.gone = true;
        });
        // Nothing can be too large.
        let _ = self.charge(&mut state, 0);
    }

    /// Mends what a panic may have left half done. The informer lists again after it.
    pub(crate) fn recover(&self) {
        let mut state = self.lock();
        state.writer.update(Contents::rebuild);
        state.deliver();
        self.status.send_modify(|status| status.panics += 1);
    }

    /// What the store holds of the same state as `object`: a list then needs no second copy of it.
    pub(crate) fn known(&self, object: &Object) -> Option<Object> {
        let stored = self.store.get(&object.header.key);
        stored.filter(|stored| is_same(stored, object))
    }

    /// Whether the watch tells of an object that the store does not have, in a state from before what the watch has told
    /// already. It may have gone since.
    pub(crate) fn is_late(&self, object: &Object) -> bool {
        let is_before = |seen: &Version| object.header.version.compare(seen) == Some(Ordering::Less);
        self.store.get(&object.header.key).is_none() && self.store.version().as_ref().is_some_and(is_before)
    }

    /// What there is to say of it now.
    pub(crate) fn figures(&self) -> InformerFigures {
        let (watch, status) = (self.spec.clone(), self.status.borrow().clone());
        InformerFigures { watch, objects: self.store.len(), bytes: self.store.bytes(), status }
    }

    /// Whether anybody can afford a cache of `bytes`; for a list that is still coming in.
    pub(crate) fn afford(&self, bytes: usize) -> Result<(), OverBudget> {
        self.charge(&mut self.lock(), bytes)
    }

    /// Charges what the store holds, or `at_least` bytes, and stops those who cannot pay.
    fn charge(&self, state: &mut State, at_least: usize) -> Result<(), OverBudget> {
        let bytes = self.store.whole_bytes().max(at_least);
        let broke = if bytes > self.limit {
            let (watch, limit) = (self.spec.clone(), self.limit);
            let excess = Excess { watch, needed: bytes, total: bytes, limit, scope: Scope::Informer };
            state.charges.refuse(&excess);
            state.subscribers.keys().copied().collect()
        } else {
            let broke = state.charges.set(bytes, &self.spec);
            let is_broke = |subscriber: &Subscriber| {
                subscriber.options.budget.as_ref().is_some_and(|it| broke.iter().any(|broke| Arc::ptr_eq(broke, it)))
            };
            state.subscribers.iter().filter(|(_, it)| is_broke(it)).map(|(id, _)| *id).collect::<Vec<_>>()
        };
        if broke.is_empty() {
            return Ok(());
        }
        for id in broke {
            state.stop(id);
        }
        self.subscribers.send_replace(state.subscribers.len());
        if state.subscribers.is_empty() { Err(OverBudget) } else { Ok(()) }
    }

    /// Ends every subscription and frees the store.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let ids: Vec<_> = state.subscribers.keys().copied().collect();
        for id in ids {
            state.remove(id, &self.spec);
        }
        state.writer.update(Contents::clear);
        self.status.send_modify(|status| status.stopped = true);
    }

    /// Packs and unpacks texts, by who has read them.
    pub(crate) fn cool(&self) {
        if cold::sweep(&self.store, &self.dictionary) {
            self.lock().writer.update(Contents::weigh);
        }
    }

    /// Completes when somebody new subscribes, or has since the last time.
    pub(crate) async fn hurried(&self) {
        self.hurry.notified().await;
    }

    pub(crate) fn update_status(&self, change: impl FnOnce(&mut InformerStatus)) {
        self.status.send_modify(change);
    }

    pub(crate) fn subscriber_count(&self) -> watch::Receiver<usize> {
        self.subscribers.subscribe()
    }

    fn unsubscribe(&self, id: u64) {
        let mut state = self.lock();
        state.remove(id, &self.spec);
        self.subscribers.send_replace(state.subscribers.len());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic under the lock, `recover` puts things right before anything else happens.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores `object`. A name that came back with another UID is a deletion that nobody saw, and then a new object.
fn insert(contents: &mut Contents, object: &Object, initial: bool, outbox: &mut Vec<WatchEvent>) {
    let mut old = contents.get(&object.header.key).cloned();
    if old.as_ref().is_some_and(|old| is_same(old, object)) {
        return;
    }
    if let Some(last) = old.take_if(|old| old.header.uid != object.header.uid) {
        outbox.push(WatchEvent::Deleted(Tombstone { last, final_state_unknown: true }));
    }
    outbox.push(WatchEvent::Applied { old, new: object.clone(), initial });
    contents.insert(object);
}

/// Removes what nobody saw going.
fn remove(contents: &mut Contents, key: &ObjectKey, outbox: &mut Vec<WatchEvent>) {
    let Some(last) = contents.get(key).cloned() else { return };
    outbox.push(WatchEvent::Deleted(Tombstone { last, final_state_unknown: true }));
    contents.remove(key);
}

/// Notes that everything up to `version` is in `contents`, unless that is known already.
fn advance(contents: &mut Contents, version: Version) {
    let order = contents.version().and_then(|before| version.compare(before));
    if !version.is_empty() && order != Some(Ordering::Less) {
        contents.set_version(version);
    }
}

/// Whether `object` is a later state than `stored`. Where versions do not compare, what comes later is newer.
fn is_newer(object: &Object, stored: &Object) -> bool {
    match object.header.version.compare(&stored.header.version) {
        Some(order) => order == Ordering::Greater,
        None => object.header.version != stored.header.version,
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
    use crate::parse::Parser;

    fn pods() -> WatchSpec {
        WatchSpec::all(ObjectKind::new("v1", "Pod"))
    }

    fn resource() -> Arc<Resource> {
        let kind = ObjectKind::new("v1", "Pod");
        let resource =
            Resource { kind, plural: "pods".into(), namespaced: false, subresources: Vec::new(), verbs: Vec::new() };
        Arc::new(resource)
    }

    fn pod(name: u32, uid: u32, version: u32) -> Object {
        let text = format!(r#"{{"metadata":{{"name":"p{name}","uid":"u{uid}","resourceVersion":"{version}"}}}}"#);
        Parser::new(&pods()).expect("no pointers").object(&text).expect("an object")
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
                let version = version.to_string().as_str().into();
                feed.replace(Listed { objects: objects.into_values().collect(), version, resource: resource() })
            }
            1..=12 => feed.apply(&object(random)),
            _ => feed.delete(object(random)),
        }
        .expect("no budget");
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
        let feed = Arc::new(Feed::new(pods(), usize::MAX));
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
    fn nobody_pays_for_a_cache_that_has_ended() {
        let feed = Arc::new(Feed::new(pods(), usize::MAX));
        feed.apply(&pod(1, 1, 1)).expect("no budget");
        feed.close();
        let budget = Budget::new(10_000);
        let options = SubscribeOptions { budget: Some(Arc::clone(&budget)), ..SubscribeOptions::default() };
        drop(feed.subscribe_with(options).expect("no indexes"));
        assert_eq!(budget.used(), 0);
    }
}
