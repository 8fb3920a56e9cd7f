//! The objects of an informer, and their delivery to subscribers.
//!
//! One lock orders everything. A change of the store and its delivery to each subscriber happen under it, and so does
//! the snapshot for a new subscriber. So the events of a subscriber are its snapshot and every later change, each once.
//! Observers of the store (`windlass_core::object::progress`) are notified under it too, after the subscribers.

mod charging;
mod history;
mod merge;
mod same;
mod subscription;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use windlass_core::cache::freshness::Evidence;
use windlass_core::cache::watch::{IndexSource, WatchEvent, WatchSpec};
use windlass_core::object::Object;
use windlass_core::object::compact::Version;
use windlass_core::object::pointer_tree::PointerError;
use windlass_core::object::progress::{Advance, Progress as _, Stamp};
use windlass_core::object::text::Dictionary;

use self::merge::Moved;
use self::same::is_same;
pub use self::subscription::Subscription;
use crate::discovery::Resource;
use crate::informer::budget::{Budget, Charges};
use crate::informer::error::OverBudget;
use crate::informer::packing;
use crate::informer::status::{InformerFigures, InformerStatus};
use crate::informer::store::{Contents, Store, StoreWriter};

/// Options of a subscriber.
#[derive(Clone, Debug, Default)]
pub struct SubscribeOptions {
    /// Indexes that the store must have while this subscription lives.
    pub indexes: Vec<IndexSource>,
    /// The budget that the cache is charged to, if any.
    pub budget: Option<Arc<Budget>>,
}

/// The part of an informer that is shared with its subscribers.
pub(crate) struct Feed {
    spec: WatchSpec,
    /// The maximum size of the store, in bytes.
    limit: usize,
    store: Store,
    state: Mutex<FeedState>,
    status: watch::Sender<InformerStatus>,
    /// The number of subscribers. Changed under the lock of `state`.
    subscribers: watch::Sender<usize>,
    /// Wakes an informer that waits before its next attempt.
    hurry: Notify,
    /// When a list was last requested by force.
    wanted: watch::Sender<Option<Stamp>>,
    /// When the server last sent anything.
    heard: Mutex<Option<Instant>>,
    /// When the last proof of freshness began, and its result. Held while a proof is in progress.
    proven: tokio::sync::Mutex<Option<(Stamp, Evidence)>>,
    /// The dictionary for texts that did not arrive in a list.
    dictionary: OnceLock<Arc<Dictionary>>,
}

struct FeedState {
    writer: StoreWriter,
    subscribers: HashMap<u64, Subscriber>,
    charges: Charges,
    next_id: u64,
    /// Events that are not delivered yet. Each is added before the change that it describes is made, so that a panic in
    /// between loses no event.
    outbox: Vec<WatchEvent>,
    /// The informer has stopped for good, and there will be no more events.
    closed: bool,
}

struct Subscriber {
    sender: mpsc::UnboundedSender<WatchEvent>,
    options: SubscribeOptions,
}

pub(crate) struct CompleteList {
    pub(crate) objects: Vec<Object>,
    pub(crate) version: Version,
    pub(crate) resource: Arc<Resource>,
    /// The time just before the list was requested.
    pub(crate) began: Stamp,
    /// The restore of the server that the list is known to follow.
    pub(crate) era: Option<Stamp>,
}

impl FeedState {
    /// Changes the contents with `change`, which puts its events into the outbox first, and delivers these events.
    fn change<T>(&mut self, change: impl FnOnce(&mut Contents, &mut Vec<WatchEvent>) -> T) -> T {
        let Self { writer, outbox, .. } = self;
        let result = writer.update(|contents| change(contents, outbox));
        self.deliver();
        result
    }

    /// Applies an event of the watch with `event`, and also notifies the observers.
    fn take(&mut self, event: impl FnOnce(&mut Contents, &mut Vec<WatchEvent>) -> Moved) {
        let Self { writer, outbox, .. } = self;
        let moved = writer.update(|contents| event(contents, outbox));
        let changes = if self.writer.is_observed() { self.outbox.clone() } else { Vec::new() };
        self.deliver();
        if self.writer.is_observed() {
            moved.report(&changes, |advance| self.writer.notify(advance));
        }
    }

    fn deliver(&mut self) {
        for event in self.outbox.drain(..) {
            for subscriber in self.subscribers.values() {
                // If the receiver is gone, the drop of its subscription will remove it here.
                let _ = subscriber.sender.send(event.clone());
            }
        }
    }

    fn remove(&mut self, id: u64, spec: &WatchSpec) {
        let Some(options) = self.stop(id) else { return };
        if let Some(budget) = &options.budget {
            self.charges.leave(budget, spec);
        }
    }

    /// Ends a subscription. The caller adjusts the charges.
    fn stop(&mut self, id: u64) -> Option<SubscribeOptions> {
        let Subscriber { options, .. } = self.subscribers.remove(&id)?;
        self.writer.update(|contents| options.indexes.iter().for_each(|index| contents.undeclare(index)));
        Some(options)
    }
}

impl Feed {
    /// A feed of the objects of `spec` with at most `limit` bytes.
    pub(crate) fn new(spec: WatchSpec, limit: usize) -> Self {
        let (store, writer) = Store::new();
        let state = FeedState {
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
            wanted: watch::Sender::default(),
            heard: Mutex::default(),
            proven: tokio::sync::Mutex::default(),
            dictionary: OnceLock::new(),
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        self.enter(&mut self.lock(), SubscribeOptions::default())
    }

    pub(crate) fn subscribe_with(self: &Arc<Self>, options: SubscribeOptions) -> Result<Subscription, PointerError> {
        let mut state = self.lock();
        for (at, index) in options.indexes.iter().enumerate() {
            let declared = state.writer.update(|contents| contents.declare(index, self.limit));
            if let Err(error) = declared {
                let before = &options.indexes[..at];
                state.writer.update(|contents| before.iter().for_each(|index| contents.undeclare(index)));
                return Err(error);
            }
        }
        Ok(self.enter(&mut state, options))
    }

    /// Adds a subscriber whose indexes are already declared.
    fn enter(self: &Arc<Self>, state: &mut FeedState, options: SubscribeOptions) -> Subscription {
        let (sender, events) = mpsc::unbounded_channel();
        let id = state.next_id;
        state.next_id += 1;
        let mut is_paid = || options.budget.as_ref().is_none_or(|budget| state.charges.join(budget, &self.spec));
        let is_in = !state.closed && is_paid();
        let has_indexes = is_in && !options.indexes.is_empty();
        let snapshot = if is_in { self.store.all() } else { Vec::new() };
        if is_in {
            state.subscribers.insert(id, Subscriber { sender, options });
        } else {
            state.writer.update(|contents| options.indexes.iter().for_each(|index| contents.undeclare(index)));
        }
        self.subscribers.send_replace(state.subscribers.len());
        if has_indexes {
            // The indexes need memory as well, so subscribers without room for them are stopped. The informer notices
            // with its next list whether a subscriber is left.
            let at_least = state.charges.bytes();
            let _ = self.charge(state, at_least);
        }
        self.hurry.notify_one();
        Subscription { feed: Arc::clone(self), id, snapshot: snapshot.into_iter(), events }
    }

    /// Applies a complete list: new and changed objects are stored, and missing ones are removed.
    pub(crate) fn replace(&self, listed: CompleteList) -> Result<(), OverBudget> {
        let mut state = self.lock();
        let epoch = state.change(|contents, outbox| merge::list(contents, listed, outbox));
        self.status.send_modify(|status| {
            status.synced = true;
            status.gone = false;
            status.lists += 1;
            status.epoch = epoch;
        });
        state.writer.notify(Advance::Listed);
        self.charge(&mut state, 0)
    }

    /// Applies an object from the watch, unless the store has already seen this state or a later one.
    pub(crate) fn apply(&self, object: &Object) -> Result<(), OverBudget> {
        let mut state = self.lock();
        state.take(|contents, outbox| merge::applied(contents, object, outbox));
        self.charge(&mut state, 0)
    }

    /// Applies a deletion from the watch. `last` is the object's last state.
    pub(crate) fn delete(&self, last: Object) -> Result<(), OverBudget> {
        let mut state = self.lock();
        state.take(|contents, outbox| merge::deleted(contents, last, outbox));
        self.charge(&mut state, 0)
    }

    /// Applies a state of `object` that the watch's `where` does not admit, or in which the object was deleted.
    pub(crate) fn exclude(&self, object: Object) -> Result<(), OverBudget> {
        let mut state = self.lock();
        state.take(|contents, outbox| merge::excluded(contents, object, outbox));
        self.charge(&mut state, 0)
    }

    /// Records that everything up to `version` has been received.
    pub(crate) fn bookmark(&self, version: Version) {
        self.lock().take(|contents, _| Moved::to(contents, version));
    }

    /// Removes all objects, because their kind is not served any more. The next list counts as a first one.
    pub(crate) fn vanish(&self) {
        let mut state = self.lock();
        let epoch = state.change(|contents, outbox| {
            merge::nothing(contents, outbox);
            contents.set_gone();
            contents.epoch()
        });
        *self.heard() = None;
        let was_gone = self.status.borrow().gone;
        self.status.send_modify(|status| {
            status.synced = false;
            status.gone = true;
            status.epoch = epoch;
        });
        if !was_gone {
            state.writer.notify(Advance::Lost);
        }
        // An empty store is never too large.
        let _ = self.charge(&mut state, 0);
    }

    /// Repairs what a panic may have left incomplete. The informer lists again afterwards.
    pub(crate) fn recover(&self) {
        let mut state = self.lock();
        state.writer.update(Contents::rebuild);
        state.deliver();
        self.status.send_modify(|status| status.panics += 1);
    }

    /// The store's own copy of the same state as `object`, so that a list need not keep a second one.
    pub(crate) fn known(&self, object: &Object) -> Option<Object> {
        let stored = self.store.get(&object.header.key);
        stored.filter(|stored| is_same(stored, object))
    }

    /// Whether the store lacks `object` and has already seen later events. The object may have been deleted since.
    pub(crate) fn is_late(&self, object: &Object) -> bool {
        self.store.is_late(object)
    }

    pub(crate) fn figures(&self, restored: Option<Stamp>) -> InformerFigures {
        let (watch, status) = (self.spec.clone(), self.status.borrow().clone());
        let unproven = !self.store.follows(restored);
        let silence = self.silence();
        InformerFigures { watch, objects: self.store.len(), bytes: self.store.bytes(), status, unproven, silence }
    }

    /// Records that the server has sent something now.
    pub(crate) fn hears(&self) {
        *self.heard() = Some(Instant::now());
    }

    fn heard(&self) -> MutexGuard<'_, Option<Instant>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
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
        state.writer.notify(Advance::Lost);
    }

    /// Packs and unpacks texts, depending on whether they were read.
    pub(crate) fn cool(&self) {
        if packing::sweep(&self.store, &self.dictionary) {
            self.lock().writer.update(Contents::weigh);
        }
    }

    /// Completes when there is a new subscriber, or at once if there was one since the last call.
    pub(crate) async fn hurried(&self) {
        self.hurry.notified().await;
    }

    /// Requests a list. The next list that begins serves all earlier requests.
    pub(crate) fn relist(&self) {
        self.wanted.send_replace(Some(Stamp::take()));
        self.hurry.notify_one();
    }

    /// Completes when a list is requested, or at once if one was requested since the last list began.
    pub(crate) async fn list_wanted(&self) {
        // The sender is in `self`, so this cannot fail.
        let _ = self.wanted.subscribe().wait_for(|wanted| *wanted > self.store.listed()).await;
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn spec(&self) -> &WatchSpec {
        &self.spec
    }

    pub(crate) fn proven(&self) -> &tokio::sync::Mutex<Option<(Stamp, Evidence)>> {
        &self.proven
    }

    /// Whether no events are expected for now: the informer has stopped, or the kind is not served.
    pub(crate) fn is_over(&self) -> bool {
        let status = self.status.borrow();
        status.stopped || status.gone
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
        // Indexes that only this subscriber declared are gone, so the charge shrinks, and no subscriber is stopped.
        let at_least = state.charges.bytes();
        let _ = self.charge(&mut state, at_least);
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        // After a panic under the lock, `recover` repairs the state before anything else happens.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
