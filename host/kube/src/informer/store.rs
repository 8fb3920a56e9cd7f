//! The objects of one watch: any number of readers, one writer.
//!
//! Objects are kept as bytes beside a small header and handed out as shared pointers. Only an informer writes, through
//! its [`StoreWriter`]; readers never see half of a re-list.

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

/// The one writer of a store.
pub(crate) struct StoreWriter {
    shared: Arc<StoreInner>,
}

#[derive(Default)]
struct StoreInner {
    contents: RwLock<Contents>,
    observers: Observers,
}

/// A store without a complete list: what it lacks may exist all the same.
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

    /// The object with this key, if it can be told whether there is one. It is asked under one lock: a cache that
    /// bursts its budget is emptied between two questions, and must not look like one that never held the object.
    ///
    /// # Errors
    ///
    /// There was no complete list, or the cache has been emptied since.
    pub fn find(&self, key: &ObjectKey) -> Result<Option<Object>, NotSynced> {
        let contents = self.read();
        if contents.is_synced() { Ok(contents.get(key).cloned()) } else { Err(NotSynced) }
    }

    /// All objects of `namespace`, in the order of names.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Object> {
        self.collect(StoreScope::Namespace(namespace))
    }

    /// All objects whose controller has this UID, in the order of keys.
    #[must_use]
    pub fn owned_by(&self, uid: &str) -> Vec<Object> {
        self.collect(StoreScope::Owned(uid))
    }

    /// All objects, in the order of keys.
    #[must_use]
    pub fn all(&self) -> Vec<Object> {
        self.collect(StoreScope::All)
    }

    /// All objects with this value in an index that a subscription of this watch has declared, in the order of keys.
    #[must_use]
    pub fn indexed(&self, source: &IndexSource, value: &str) -> Vec<Object> {
        self.collect(StoreScope::Index(source, value))
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Roughly what the objects occupy in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.read().bytes()
    }

    /// The bytes that budgets are charged: [`Store::bytes`] as if nothing were packed, so that a cache does not grow by
    /// being read.
    pub(crate) fn whole_bytes(&self) -> usize {
        self.read().whole_bytes()
    }

    /// How many objects have which conditions. What it costs depends on how many types there are, not on how many
    /// objects.
    #[must_use]
    pub fn conditions(&self) -> ConditionCounts {
        self.read().conditions()
    }

    /// The `resourceVersion` up to which all changes are in the store and its indexes. None: there was no complete
    /// list.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.read().version().cloned()
    }

    /// The version, if versions compare and it is later than `other`.
    pub(crate) fn later_than(&self, other: &Version) -> Option<Version> {
        let contents = self.read();
        let is_later = |version: &&Version| contents.compare(version, other) == Some(Ordering::Greater);
        contents.version().filter(is_later).cloned()
    }

    /// Whether there is a complete list.
    pub(crate) fn is_synced(&self) -> bool {
        self.read().is_synced()
    }

    /// Whether versions of the resource compare, and not merely look as if they did.
    pub(crate) fn is_comparable(&self) -> bool {
        self.read().is_comparable()
    }

    /// Whether `object` is none that the store has, in a state from before what the store has seen already.
    pub(crate) fn is_late(&self, object: &Object) -> bool {
        let contents = self.read();
        let is_before = |seen: &Version| contents.compare(&object.header.version, seen) == Some(Ordering::Less);
        contents.get(&object.header.key).is_none() && contents.version().is_some_and(is_before)
    }

    /// When the contents came to their version. A bookmark that repeats the version says nothing about the server's.
    pub(crate) fn version_since(&self) -> Option<Instant> {
        self.read().version_since()
    }

    /// The restore of the server that the contents are known to come after.
    pub(crate) fn era(&self) -> Option<Stamp> {
        self.read().era()
    }

    /// Whether the contents come after the last restore of the server, noticed at `restored`. What is not there does.
    pub(crate) fn follows(&self, restored: Option<Stamp>) -> bool {
        let contents = self.read();
        !contents.is_synced() || contents.era() == restored
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The resource that the store holds; None until the first complete list.
    #[must_use]
    pub fn resource(&self) -> Option<Arc<Resource>> {
        self.read().resource().cloned()
    }

    /// Like [`Self::scan`], but false also if nothing can be told: see [`Self::find`].
    pub(crate) fn scan_synced(
        &self,
        scope: StoreScope<'_>,
        after: Option<&ObjectKey>,
        visit: impl FnMut(&Object) -> ControlFlow<()>,
    ) -> bool {
        let contents = self.read();
        contents.is_synced() && contents.scan(scope, after, visit)
    }

    /// Visits objects under the read lock: `visit` must be short and must not read the store. False: the scope is an
    /// index that nobody declares, or not any more.
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
    /// Changes the contents; readers see all of `change` or nothing.
    pub(crate) fn update<T>(&mut self, change: impl FnOnce(&mut Contents) -> T) -> T {
        change(&mut self.shared.contents.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether anybody is told of changes. Whoever is not counted yet sees the change that was made before.
    pub(crate) fn is_observed(&self) -> bool {
        !self.shared.observers.is_empty()
    }

    /// Tells the observers of a change that has been made.
    pub(crate) fn tell(&mut self, advance: Advance<'_>) {
        self.shared.observers.tell(advance);
    }
}

#[cfg(test)]
mod tests;
