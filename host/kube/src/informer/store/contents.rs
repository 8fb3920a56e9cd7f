//! The contents of a store: objects by key, name, owner and index, and their version.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use tokio::time::Instant;
use windlass_core::cache::watch::IndexSource;
use windlass_core::defect::Defect;
use windlass_core::object::compact::Version;
use windlass_core::object::pointer_tree::PointerError;
use windlass_core::object::progress::Stamp;
use windlass_core::object::{Object, ObjectKey};

use super::StoreScope;
use crate::discovery::Resource;
use crate::informer::conditions::{ConditionCounts, ConditionTally};
use crate::informer::index::{DeclaredIndex, OwnerIndex};

/// An object that is ordered by name.
struct ByName(Object);

impl Borrow<str> for ByName {
    fn borrow(&self) -> &str {
        &self.0.header.key.name
    }
}

impl Ord for ByName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.header.key.name.cmp(&other.0.header.key.name)
    }
}

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByName {}

/// The objects of one namespace.
struct Namespace {
    names: BTreeSet<ByName>,
    /// When one of the objects last came, changed or went.
    changed: Stamp,
}

/// Invariant: `names`, `owners`, `indexes` and `conditions` contain exactly the objects of `objects`, and no namespace
/// is empty.
#[derive(Default)]
pub(crate) struct Contents {
    /// Set by the first complete list.
    resource: Option<Arc<Resource>>,
    hasher: DefaultHashBuilder,
    objects: HashTable<Object>,
    /// By namespace (empty for cluster-scoped objects) and name, and thus sorted by key.
    names: BTreeMap<Arc<str>, Namespace>,
    /// When a namespace last became empty.
    emptied: Stamp,
    owners: OwnerIndex,
    indexes: HashMap<IndexSource, DeclaredIndex>,
    conditions: ConditionTally,
    /// The bytes that the objects occupied when each was inserted, or when they were last weighed.
    bytes: usize,
    /// The bytes that the objects would occupy with every text unpacked.
    whole_bytes: usize,
    version: Option<Version>,
    /// When the contents reached their version.
    version_since: Option<Instant>,
    /// When the last applied list began.
    listed: Option<Stamp>,
    /// See [`Store::era`](super::Store::era).
    era: Option<Stamp>,
    /// See [`Progress::epoch`](windlass_core::object::progress::Progress::epoch).
    epoch: u64,
    /// When an object last came, changed or went. A version alone changes nothing.
    changed: Stamp,
}

fn namespace_of(key: &ObjectKey) -> &str {
    key.namespace.as_deref().unwrap_or_default()
}

impl Contents {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.objects.find(self.hasher.hash_one(key), |object| object.header.key == *key)
    }

    /// Returns the previous object.
    pub(crate) fn insert(&mut self, object: &Object) -> Option<Object> {
        // Before anything else: readers must not take contents that a panic left behind for unchanged ones.
        self.changed = Stamp::take();
        let key = &object.header.key;
        let hash = |object: &Object| self.hasher.hash_one(&object.header.key);
        let old = match self.objects.entry(self.hasher.hash_one(key), |other| other.header.key == *key, hash) {
            Entry::Occupied(mut entry) => Some(std::mem::replace(entry.get_mut(), object.clone())),
            Entry::Vacant(entry) => {
                entry.insert(object.clone());
                None
            }
        };
        if let Some(namespace) = self.names.get_mut(namespace_of(key)) {
            namespace.changed = self.changed;
            namespace.names.replace(ByName(object.clone()));
        } else {
            let namespace = Namespace { names: [ByName(object.clone())].into(), changed: self.changed };
            self.names.insert(key.namespace.clone().unwrap_or_default(), namespace);
        }
        self.update_indexes(old.as_ref(), Some(object));
        old
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Object> {
        let hash = self.hasher.hash_one(key);
        let found = self.objects.find_entry(hash, |object| object.header.key == *key).ok()?;
        let is_counted = !Defect::RemovalIsNotCounted.is_seeded();
        if is_counted {
            self.changed = Stamp::take();
        }
        let (old, _) = found.remove();
        if let Some(namespace) = self.names.get_mut(namespace_of(key)) {
            if is_counted {
                namespace.changed = self.changed;
            }
            namespace.names.remove(&*key.name);
            if namespace.names.is_empty() {
                self.emptied = self.changed;
                self.names.remove(namespace_of(key));
            }
        }
        self.update_indexes(Some(&old), None);
        Some(old)
    }

    fn update_indexes(&mut self, old: Option<&Object>, new: Option<&Object>) {
        self.owners.update(old, new);
        self.conditions.update(old, new);
        for index in self.indexes.values_mut() {
            index.update(old, new);
        }
        let size = |object: Option<&Object>| object.map_or(0, Object::footprint);
        self.bytes = (self.bytes + size(new)).saturating_sub(size(old));
        let whole = |object: Option<&Object>| object.map_or(0, Object::whole_footprint);
        self.whole_bytes = self.whole_bytes + whole(new) - whole(old);
    }

    /// Builds an index that may occupy `limit` bytes, or adds a user to an index that exists.
    pub(crate) fn declare(&mut self, source: &IndexSource, limit: usize) -> Result<(), PointerError> {
        if let Some(index) = self.indexes.get_mut(source) {
            index.users += 1;
            return Ok(());
        }
        let mut index = DeclaredIndex::new(source, limit)?;
        index.users = 1;
        for object in self.iter() {
            index.update(None, Some(object));
        }
        self.indexes.insert(source.clone(), index);
        Ok(())
    }

    /// Reverses one [`Contents::declare`].
    pub(crate) fn undeclare(&mut self, source: &IndexSource) {
        let Some(index) = self.indexes.get_mut(source) else { return };
        index.users -= 1;
        if index.users == 0 {
            self.indexes.remove(source);
        }
    }

    /// Sorted by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Object> {
        self.names.values().flat_map(|namespace| &namespace.names).map(|ByName(object)| object)
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.resource.is_some()
    }

    /// Whether the server guarantees that versions of the resource can be compared as numbers.
    pub(crate) fn is_comparable(&self) -> bool {
        self.resource.as_ref().is_some_and(|resource| resource.comparable)
    }

    /// The order of two versions, if the server guarantees that they can be compared. Otherwise `None`, whatever the
    /// versions look like: then only the order of the watch's events is known.
    pub(crate) fn compare(&self, a: &Version, b: &Version) -> Option<Ordering> {
        a.compare(b).filter(|_| self.is_comparable())
    }

    /// Records the source of the contents, a list that began at `began`. A list that is older than the contents, as
    /// after a restored backup, begins an epoch. So does the first list after the server was restored.
    pub(crate) fn set_listed(&mut self, resource: Arc<Resource>, version: Version, began: Stamp, era: Option<Stamp>) {
        let before = self.version.as_ref().and_then(|before| version.compare(before));
        let is_older = resource.comparable && before == Some(Ordering::Less);
        self.epoch += u64::from(is_older || (self.is_synced() && self.era != era));
        (self.resource, self.version, self.listed, self.era) = (Some(resource), Some(version), Some(began), era);
        self.version_since = Some(Instant::now());
    }

    /// Records that the resource is not served any more. If it is served again, its state does not follow from the
    /// earlier one.
    pub(crate) fn set_gone(&mut self) {
        self.changed = Stamp::take();
        self.epoch += u64::from(self.resource.is_some());
        (self.resource, self.version, self.listed, self.era) = (None, None, None, None);
    }

    /// See [`Store::version`].
    pub(crate) fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    pub(crate) fn set_version(&mut self, version: Version) {
        if self.version.as_ref() != Some(&version) {
            self.version_since = Some(Instant::now());
        }
        self.version = Some(version);
    }

    /// See [`Store::changed`](super::Store::changed). `None` if there is no such index.
    pub(super) fn changed(&self, scope: StoreScope<'_>) -> Option<Stamp> {
        // For a scope that has no objects, the earliest stamp: it is always the same state.
        Some(match scope {
            StoreScope::All => self.changed,
            StoreScope::Namespace(namespace) => self.names.get(namespace).map(|it| it.changed).unwrap_or_default(),
            StoreScope::Owned(uid) => self.owners.changed(uid).unwrap_or_default(),
            StoreScope::Index(source, value) => self.complete(source)?.changed(value).unwrap_or_default(),
        })
    }

    /// See [`Store::changed_near`](super::Store::changed_near).
    pub(super) fn changed_near(&self, key: &ObjectKey) -> Stamp {
        self.names.get(namespace_of(key)).map_or(self.emptied, |namespace| namespace.changed)
    }

    /// The index, if it is declared and has all objects.
    fn complete(&self, source: &IndexSource) -> Option<&DeclaredIndex> {
        self.indexes.get(source).filter(|index| index.is_complete())
    }

    pub(crate) fn listed(&self) -> Option<Stamp> {
        self.listed
    }

    /// See [`Store::version_since`](super::Store::version_since).
    pub(crate) fn version_since(&self) -> Option<Instant> {
        self.version_since
    }

    /// See [`Store::era`](super::Store::era).
    pub(crate) fn era(&self) -> Option<Stamp> {
        self.era
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn resource(&self) -> Option<&Arc<Resource>> {
        self.resource.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.indexes.values().map(DeclaredIndex::bytes).sum::<usize>()
    }

    /// The memory of an index, in bytes. 0 if it is not declared.
    pub(crate) fn index_bytes(&self, source: &IndexSource) -> usize {
        self.indexes.get(source).map_or(0, DeclaredIndex::bytes)
    }

    pub(crate) fn whole_bytes(&self) -> usize {
        self.whole_bytes
    }

    /// See [`Store::conditions`](super::Store::conditions).
    pub(super) fn conditions(&self) -> ConditionCounts {
        self.conditions.counts()
    }

    /// Rebuilds everything else from `objects`.
    pub(crate) fn rebuild(&mut self) {
        self.changed = Stamp::take();
        let objects = std::mem::take(&mut self.objects);
        self.names.clear();
        self.emptied = self.changed;
        self.owners = OwnerIndex::default();
        self.conditions = ConditionTally::default();
        for index in self.indexes.values_mut() {
            index.clear();
        }
        (self.bytes, self.whole_bytes) = (0, 0);
        for object in &objects {
            self.insert(object);
        }
    }

    /// Removes everything except the declared indexes.
    pub(crate) fn clear(&mut self) {
        self.objects = HashTable::new();
        self.rebuild();
        self.set_gone();
    }

    /// Sums up the objects' sizes again, because packing changes them.
    pub(crate) fn weigh(&mut self) {
        self.bytes = self.objects.iter().map(Object::footprint).sum();
    }

    /// Visits the objects of `scope` after the key `after`, sorted by key, until `visit` breaks. Returns false if there
    /// is no such index, or if it is incomplete.
    pub(super) fn scan(
        &self,
        scope: StoreScope<'_>,
        after: Option<&ObjectKey>,
        mut visit: impl FnMut(&Object) -> ControlFlow<()>,
    ) -> bool {
        let first = after.map(namespace_of).unwrap_or_default();
        let namespaces = match scope {
            StoreScope::All => (Bound::Included(first), Bound::Unbounded),
            StoreScope::Namespace(namespace) if namespace < first => return true,
            StoreScope::Namespace(namespace) => (Bound::Included(namespace), Bound::Included(namespace)),
            StoreScope::Owned(uid) => {
                let _ = self.owners.after(uid, after).iter().try_for_each(visit);
                return true;
            }
            StoreScope::Index(source, value) => {
                let Some(index) = self.complete(source) else { return false };
                let _ = index.after(value, after).iter().try_for_each(visit);
                return true;
            }
        };
        for (namespace, Namespace { names, .. }) in self.names.range::<str, _>(namespaces) {
            let start = match after {
                Some(after) if **namespace == *first => Bound::Excluded(&*after.name),
                _ => Bound::Unbounded,
            };
            for ByName(object) in names.range::<str, _>((start, Bound::Unbounded)) {
                if visit(object).is_break() {
                    return true;
                }
            }
        }
        true
    }
}
