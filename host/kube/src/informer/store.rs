//! The objects of one watch, with any number of readers and one writer.
//!
//! Objects are stored as bytes with a small header, and returned as shared pointers. Only an informer writes, through
//! its [`StoreWriter`]. Readers never see an incomplete list.

mod contents;
mod observers;

use std::cmp::Ordering;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, Weak};

use tokio::time::Instant;
use windlass_core::cache::watch::IndexSource;
use windlass_core::object::compact::Version;
use windlass_core::object::progress::{Advance, Observer, Progress, Stamp};
use windlass_core::object::{Object, ObjectKey};

pub(crate) use self::contents::Contents;
use self::observers::Observers;
use crate::discovery::Resource;
use crate::informer::conditions::ConditionCounts;

/// A reader of one watch's objects. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    shared: Arc<StoreInner>,
}

/// The only writer of a store.
pub(crate) struct StoreWriter {
    shared: Arc<StoreInner>,
}

#[derive(Default)]
struct StoreInner {
    contents: RwLock<Contents>,
    observers: Observers,
}

/// The store has no complete list, so an object that it lacks may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cache has not been filled yet, or has been emptied")]
pub struct NotSynced;

/// Which objects a scan visits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreScope<'a> {
    All,
    Namespace(&'a str),
    /// The objects that the owner with this UID controls.
    Owned(&'a str),
    /// The objects with this value in a declared index.
    Index(&'a IndexSource, &'a str),
}

impl Store {
    /// An empty store and its writer.
    pub(crate) fn new() -> (Self, StoreWriter) {
        let shared = Arc::<StoreInner>::default();
        (Self { shared: Arc::clone(&shared) }, StoreWriter { shared })
    }

    /// The object with this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.read().get(key).cloned()
    }

    /// The object with this key, or `None` if there is no such object. One lock covers this read and the check for a
    /// complete list. Otherwise a cache that exceeds its budget could be emptied in between, and would look as if it
    /// never contained the object.
    ///
    /// # Errors
    ///
    /// There was no complete list, or the cache has been emptied since.
    pub fn find(&self, key: &ObjectKey) -> Result<Option<Object>, NotSynced> {
        let contents = self.read();
        if contents.is_synced() { Ok(contents.get(key).cloned()) } else { Err(NotSynced) }
    }

    /// The state of `scope`: when one of its objects last came, changed or went. Two equal results mean that the scope
    /// has the same objects in the same state both times. `None` if there is no complete list, or no such index.
    pub(crate) fn changed(&self, scope: StoreScope<'_>) -> Option<Stamp> {
        let contents = self.read();
        contents.is_synced().then(|| contents.changed(scope)).flatten()
    }

    /// When an object in the namespace of `key` last came, changed or went. If two answers are equal, every read of the
    /// object between them would have had the same result. `None` if there is no complete list.
    pub(crate) fn changed_near(&self, key: &ObjectKey) -> Option<Stamp> {
        let contents = self.read();
        contents.is_synced().then(|| contents.changed_near(key))
    }

    /// The state that a read of this object comes from: the object's own, or its namespace's if there is no such
    /// object. `None` if there is no complete list.
    #[must_use]
    pub fn stamp_of(&self, key: &ObjectKey) -> Option<Stamp> {
        let contents = self.read();
        contents.is_synced().then(|| contents.get(key).map_or_else(|| contents.changed_near(key), Object::stamp))
    }

    /// All objects of `namespace`, sorted by name.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Object> {
        self.collect(StoreScope::Namespace(namespace))
    }

    /// All objects whose controller has this UID, sorted by key.
    #[must_use]
    pub fn owned_by(&self, uid: &str) -> Vec<Object> {
        self.collect(StoreScope::Owned(uid))
    }

    /// All objects, sorted by key.
    #[must_use]
    pub fn all(&self) -> Vec<Object> {
        self.collect(StoreScope::All)
    }

    /// All objects with this value in an index that a subscription of this watch has declared, sorted by key.
    #[must_use]
    pub fn indexed(&self, source: &IndexSource, value: &str) -> Vec<Object> {
        self.collect(StoreScope::Index(source, value))
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// The approximate memory that the objects and all indexes occupy, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.read().bytes()
    }

    /// The bytes that budgets are charged for the objects, as if nothing were packed, so that reading a cache does not
    /// make it larger.
    pub(crate) fn whole_bytes(&self) -> usize {
        self.read().whole_bytes()
    }

    /// The approximate memory of these indexes together, in bytes.
    pub(crate) fn index_bytes<'s>(&self, sources: impl IntoIterator<Item = &'s IndexSource>) -> usize {
        let contents = self.read();
        sources.into_iter().map(|source| contents.index_bytes(source)).fold(0, usize::saturating_add)
    }

    /// The number of objects with each condition. The cost depends on the number of types, not on the number of
    /// objects.
    #[must_use]
    pub fn conditions(&self) -> ConditionCounts {
        self.read().conditions()
    }

    /// The `resourceVersion` up to which all changes are in the store and its indexes. `None` if there was no complete
    /// list.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.read().version().cloned()
    }

    /// The version, if versions can be compared and it is later than `other`.
    pub(crate) fn later_than(&self, other: &Version) -> Option<Version> {
        let contents = self.read();
        let is_later = |version: &&Version| contents.compare(version, other) == Some(Ordering::Greater);
        contents.version().filter(is_later).cloned()
    }

    /// Whether there is a complete list.
    pub(crate) fn is_synced(&self) -> bool {
        self.read().is_synced()
    }

    /// Whether versions of the resource are guaranteed to be comparable.
    pub(crate) fn is_comparable(&self) -> bool {
        self.read().is_comparable()
    }

    /// Whether the store lacks `object`, although the store's version is later than the object's.
    pub(crate) fn is_late(&self, object: &Object) -> bool {
        let contents = self.read();
        let is_before = |seen: &Version| contents.compare(&object.header.version, seen) == Some(Ordering::Less);
        contents.get(&object.header.key).is_none() && contents.version().is_some_and(is_before)
    }

    /// When the contents reached their version. A bookmark that repeats the version says nothing about the server's
    /// version.
    pub(crate) fn version_since(&self) -> Option<Instant> {
        self.read().version_since()
    }

    /// The restore of the server that the contents are known to follow.
    pub(crate) fn era(&self) -> Option<Stamp> {
        self.read().era()
    }

    /// Whether the contents follow the last restore of the server, noticed at `restored`. True for an empty store
    /// without a list.
    pub(crate) fn follows(&self, restored: Option<Stamp>) -> bool {
        let contents = self.read();
        !contents.is_synced() || contents.era() == restored
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The resource of the store. `None` until the first complete list.
    #[must_use]
    pub fn resource(&self) -> Option<Arc<Resource>> {
        self.read().resource().cloned()
    }

    /// As [`Self::scan`], but also returns false if the store is not synced: see [`Self::find`].
    pub(crate) fn scan_synced(
        &self,
        scope: StoreScope<'_>,
        after: Option<&ObjectKey>,
        visit: impl FnMut(&Object) -> ControlFlow<()>,
    ) -> bool {
        let contents = self.read();
        contents.is_synced() && contents.scan(scope, after, visit)
    }

    /// As [`Self::scan_synced`], but returns the visited scope's [state](Self::changed), or `None` instead of false.
    pub(crate) fn scan_state(
        &self,
        scope: StoreScope<'_>,
        after: Option<&ObjectKey>,
        visit: impl FnMut(&Object) -> ControlFlow<()>,
    ) -> Option<Stamp> {
        let contents = self.read();
        let is_complete = contents.is_synced() && contents.scan(scope, after, visit);
        is_complete.then(|| contents.changed(scope)).flatten()
    }

    /// Visits objects under the read lock. `visit` must be short and must not read the store. Returns false if the
    /// scope is an index that is not declared, or that was too large.
    pub(crate) fn scan(
        &self,
        scope: StoreScope<'_>,
        after: Option<&ObjectKey>,
        visit: impl FnMut(&Object) -> ControlFlow<()>,
    ) -> bool {
        self.read().scan(scope, after, visit)
    }

    fn collect(&self, scope: StoreScope<'_>) -> Vec<Object> {
        let mut objects = Vec::new();
        self.scan(scope, None, |object| {
            objects.push(object.clone());
            ControlFlow::Continue(())
        });
        objects
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.shared.contents.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Progress for Store {
    fn version(&self) -> Option<Version> {
        self.read().version().cloned()
    }

    fn is_comparable(&self) -> bool {
        self.read().is_comparable()
    }

    fn epoch(&self) -> u64 {
        self.read().epoch()
    }

    fn listed(&self) -> Option<Stamp> {
        self.read().listed()
    }

    fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.read().get(key).cloned()
    }

    fn observe(&self, token: usize, observer: Weak<dyn Observer>) {
        self.shared.observers.add(token, observer);
    }
}

impl StoreWriter {
    /// Changes the contents. Readers see all of `change` or nothing.
    pub(crate) fn update<T>(&mut self, change: impl FnOnce(&mut Contents) -> T) -> T {
        change(&mut self.shared.contents.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether there are observers. An observer that registers too late to be counted finds the change in the store.
    pub(crate) fn is_observed(&self) -> bool {
        !self.shared.observers.is_empty()
    }

    /// Notifies the observers of a change that was made.
    pub(crate) fn notify(&mut self, advance: Advance<'_>) {
        self.shared.observers.notify(advance);
    }
}

#[cfg(test)]
mod tests;
