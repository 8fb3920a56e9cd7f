//! The objects of one watch: any number of readers, one writer.
//!
//! Objects are kept as bytes beside a small header and handed out as shared pointers. Only an informer writes, through
//! its [`StoreWriter`]; readers never see half of a re-list.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::BuildHasher;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use windlass_core::compact::Version;
use windlass_core::object::{Object, ObjectKey};
use windlass_core::watch::IndexSource;

use crate::discovery::Resource;
use crate::index::{DeclaredIndex, OwnerIndex};
use crate::pointer::PointerError;

/// A reader of one watch's objects. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    contents: Arc<RwLock<Contents>>,
}

/// The one writer of a store.
pub(crate) struct StoreWriter {
    contents: Arc<RwLock<Contents>>,
}

/// Which objects a scan visits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    All,
    Namespace(&'a str),
    /// The objects that the owner with this UID controls.
    Owned(&'a str),
    /// The objects with this value in a declared index.
    Index(&'a IndexSource, &'a str),
}

/// An object in the order of names.
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

/// Invariant: `names`, `owners` and `indexes` have exactly the objects of `objects`, and no namespace is empty.
#[derive(Default)]
pub(crate) struct Contents {
    /// Set by the first complete list.
    resource: Option<Arc<Resource>>,
    hasher: DefaultHashBuilder,
    /// By key.
    objects: HashTable<Object>,
    /// By namespace, which is empty for cluster-scoped objects, and name: in the order of keys.
    names: BTreeMap<Arc<str>, BTreeSet<ByName>>,
    owners: OwnerIndex,
    indexes: HashMap<IndexSource, DeclaredIndex>,
    /// What the objects occupied when each was inserted, or they were last weighed.
    bytes: usize,
    /// What they would occupy with every text unpacked.
    whole_bytes: usize,
    version: Option<Version>,
}

fn namespace_of(key: &ObjectKey) -> &str {
    key.namespace.as_deref().unwrap_or_default()
}

impl Contents {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.objects.find(self.hasher.hash_one(key), |object| object.header.key == *key)
    }

    /// Returns what was there before.
    pub(crate) fn insert(&mut self, object: &Object) -> Option<Object> {
        let key = &object.header.key;
        let hash = |object: &Object| self.hasher.hash_one(&object.header.key);
        let old = match self.objects.entry(self.hasher.hash_one(key), |other| other.header.key == *key, hash) {
            Entry::Occupied(mut entry) => Some(std::mem::replace(entry.get_mut(), object.clone())),
            Entry::Vacant(entry) => {
                entry.insert(object.clone());
                None
            }
        };
        match self.names.get_mut(namespace_of(key)) {
            Some(names) => drop(names.replace(ByName(object.clone()))),
            None => drop(self.names.insert(key.namespace.clone().unwrap_or_default(), [ByName(object.clone())].into())),
        }
        self.update_indexes(old.as_ref(), Some(object));
        old
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Object> {
        let hash = self.hasher.hash_one(key);
        let (old, _) = self.objects.find_entry(hash, |object| object.header.key == *key).ok()?.remove();
        if let Some(names) = self.names.get_mut(namespace_of(key)) {
            names.remove(&*key.name);
            if names.is_empty() {
                self.names.remove(namespace_of(key));
            }
        }
        self.update_indexes(Some(&old), None);
        Some(old)
    }

    fn update_indexes(&mut self, old: Option<&Object>, new: Option<&Object>) {
        self.owners.update(old, new);
        for index in self.indexes.values_mut() {
            index.update(old, new);
        }
        let size = |object: Option<&Object>| object.map_or(0, Object::footprint);
        self.bytes = (self.bytes + size(new)).saturating_sub(size(old));
        let whole = |object: Option<&Object>| object.map_or(0, Object::whole_footprint);
        self.whole_bytes = self.whole_bytes + whole(new) - whole(old);
    }

    /// Builds an index, or notes one more user of it.
    pub(crate) fn declare(&mut self, source: &IndexSource) -> Result<(), PointerError> {
        if let Some(index) = self.indexes.get_mut(source) {
            index.users += 1;
            return Ok(());
        }
        let mut index = DeclaredIndex::new(source)?;
        index.users = 1;
        for object in self.iter() {
            index.update(None, Some(object));
        }
        self.indexes.insert(source.clone(), index);
        Ok(())
    }

    /// Takes back one [`Contents::declare`].
    pub(crate) fn undeclare(&mut self, source: &IndexSource) {
        let Some(index) = self.indexes.get_mut(source) else { return };
        index.users -= 1;
        if index.users == 0 {
            self.indexes.remove(source);
        }
    }

    /// In the order of keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Object> {
        self.names.values().flatten().map(|ByName(object)| object)
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.resource.is_some()
    }

    pub(crate) fn set_resource(&mut self, resource: Option<Arc<Resource>>) {
        self.resource = resource;
    }

    /// See [`Store::version`].
    pub(crate) fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    pub(crate) fn set_version(&mut self, version: Version) {
        self.version = Some(version);
    }

    /// Makes everything again from the objects by key.
    pub(crate) fn rebuild(&mut self) {
        let objects = std::mem::take(&mut self.objects);
        self.names.clear();
        self.owners = OwnerIndex::default();
        for index in self.indexes.values_mut() {
            index.clear();
        }
        (self.bytes, self.whole_bytes) = (0, 0);
        for object in &objects {
            self.insert(object);
        }
    }

    /// Forgets everything but which indexes there are.
    pub(crate) fn clear(&mut self) {
        self.objects = HashTable::new();
        self.rebuild();
        self.resource = None;
        self.version = None;
    }

    /// Sums up anew what the objects occupy, as packing changes it.
    pub(crate) fn weigh(&mut self) {
        self.bytes = self.objects.iter().map(Object::footprint).sum();
    }

    /// Visits the objects of `scope` after the key `after`, in the order of keys, until `visit` breaks. False: there is no
    /// such index.
    fn scan(
        &self,
        scope: Scope<'_>,
        after: Option<&ObjectKey>,
        mut visit: impl FnMut(&Object) -> ControlFlow<()>,
    ) -> bool {
        let first = after.map(namespace_of).unwrap_or_default();
        let namespaces = match scope {
            Scope::All => (Bound::Included(first), Bound::Unbounded),
            Scope::Namespace(namespace) if namespace < first => return true,
            Scope::Namespace(namespace) => (Bound::Included(namespace), Bound::Included(namespace)),
            Scope::Owned(uid) => {
                let _ = self.owners.after(uid, after).iter().try_for_each(visit);
                return true;
            }
            Scope::Index(source, value) => {
                let Some(index) = self.indexes.get(source) else { return false };
                let _ = index.after(value, after).iter().try_for_each(visit);
                return true;
            }
        };
        for (namespace, names) in self.names.range::<str, _>(namespaces) {
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

impl Store {
    /// An empty store and its writer.
    pub(crate) fn new() -> (Self, StoreWriter) {
        let contents = Arc::<RwLock<Contents>>::default();
        (Self { contents: Arc::clone(&contents) }, StoreWriter { contents })
    }

    /// The object with this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.read().get(key).cloned()
    }

    /// All objects of `namespace`, in the order of names.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Object> {
        self.collect(Scope::Namespace(namespace))
    }

    /// All objects whose controller has this UID, in the order of keys.
    #[must_use]
    pub fn owned_by(&self, uid: &str) -> Vec<Object> {
        self.collect(Scope::Owned(uid))
    }

    /// All objects, in the order of keys.
    #[must_use]
    pub fn all(&self) -> Vec<Object> {
        self.collect(Scope::All)
    }

    /// All objects with this value in an index that a subscription of this watch has declared, in the order of keys.
    #[must_use]
    pub fn indexed(&self, source: &IndexSource, value: &str) -> Vec<Object> {
        self.collect(Scope::Index(source, value))
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Roughly what the objects occupy in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.read().bytes
    }

    /// What budgets are charged: [`Store::bytes`] as if nothing were packed, so that it does not grow by being read.
    pub(crate) fn whole_bytes(&self) -> usize {
        self.read().whole_bytes
    }

    /// The `resourceVersion` up to which all changes are in the store and its indexes. None: there was no complete list.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.read().version.clone()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The resource that the store holds; None until the first complete list.
    #[must_use]
    pub fn resource(&self) -> Option<Arc<Resource>> {
        self.read().resource.clone()
    }

    /// Visits objects under the read lock: `visit` must be short and must not read the store. False: the scope is an index
    /// that nobody declares, or not any more.
    pub(crate) fn scan(
        &self,
        scope: Scope<'_>,
        after: Option<&ObjectKey>,
        visit: impl FnMut(&Object) -> ControlFlow<()>,
    ) -> bool {
        self.read().scan(scope, after, visit)
    }

    fn collect(&self, scope: Scope<'_>) -> Vec<Object> {
        let mut objects = Vec::new();
        self.scan(scope, None, |object| {
            objects.push(object.clone());
            ControlFlow::Continue(())
        });
        objects
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl StoreWriter {
    /// Changes the contents; readers see all of `change` or nothing.
    pub(crate) fn update<T>(&mut self, change: impl FnOnce(&mut Contents) -> T) -> T {
        change(&mut self.contents.write().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::SmallRng;
    use rand::{RngExt as _, SeedableRng as _};
    use windlass_core::object::ObjectKind;
    use windlass_core::watch::WatchSpec;

    use super::*;
    use crate::parse::Parser;

    fn parser() -> Parser {
        Parser::new(&WatchSpec::all(ObjectKind::new("v1", "Pod"))).expect("no pointers")
    }

    fn object(namespace: Option<&str>, name: &str, owner: Option<&str>) -> Object {
        let namespace = namespace.map(|namespace| format!(r#","namespace":"{namespace}""#)).unwrap_or_default();
        let owners = owner
            .map(|uid| {
                let reference = r#"{"apiVersion":"v1","kind":"Owner","name":"o","controller":true,"uid""#;
                format!(r#","ownerReferences":[{reference}:"{uid}"}}]"#)
            })
            .unwrap_or_default();
        let text = format!(r#"{{"metadata":{{"name":"{name}"{namespace}{owners}}}}}"#);
        parser().object(&text).expect("an object")
    }

    fn keys(objects: &[Object]) -> Vec<String> {
        objects.iter().map(|object| object.header.key.to_string()).collect()
    }

    #[test]
    fn objects_are_found_by_key_namespace_and_owner() {
        let (store, mut writer) = Store::new();
        writer.update(|contents| {
            contents.insert(&object(Some("b"), "2", Some("u")));
            contents.insert(&object(Some("a"), "1", Some("u")));
            contents.insert(&object(None, "0", None));
        });
        assert_eq!(keys(&store.all()), ["0", "a/1", "b/2"]);
        assert_eq!(keys(&store.in_namespace("b")), ["b/2"]);
        assert_eq!(keys(&store.owned_by("u")), ["a/1", "b/2"]);
        assert!(store.get(&ObjectKey::cluster("0")).is_some());
        writer.update(|contents| contents.insert(&object(Some("a"), "1", Some("v"))));
        assert_eq!(keys(&store.owned_by("u")), ["b/2"]);
        writer.update(|contents| contents.remove(&ObjectKey::namespaced("b", "2")));
        assert!(store.owned_by("u").is_empty() && store.in_namespace("b").is_empty());
        assert_eq!(store.len(), 2);
    }

    #[test]
    fn a_scan_goes_on_after_any_key() {
        let (store, mut writer) = Store::new();
        let all = [(None, "x"), (Some("a"), "1"), (Some("a"), "2"), (Some("b"), "1")];
        writer.update(|contents| {
            for (namespace, name) in all {
                contents.insert(&object(namespace, name, None));
            }
        });
        let after = |scope, after: &ObjectKey| {
            let mut found = Vec::new();
            store.scan(scope, Some(after), |object| {
                found.push(object.clone());
                ControlFlow::Continue(())
            });
            keys(&found)
        };
        assert_eq!(after(Scope::All, &ObjectKey::cluster("x")), ["a/1", "a/2", "b/1"]);
        assert_eq!(after(Scope::All, &ObjectKey::namespaced("a", "1")), ["a/2", "b/1"]);
        assert_eq!(after(Scope::All, &ObjectKey::namespaced("aa", "1")), ["b/1"]);
        assert_eq!(after(Scope::Namespace("a"), &ObjectKey::namespaced("a", "1")), ["a/2"]);
        assert!(after(Scope::Namespace("a"), &ObjectKey::namespaced("b", "0")).is_empty());
    }

    /// The simplest possible model: a set of (namespace, name, owner), changed at random beside the store.
    #[test]
    fn store_and_indexes_agree_with_a_model_under_random_changes() {
        let mut random = SmallRng::seed_from_u64(7);
        let (store, mut writer) = Store::new();
        let mut model = BTreeMap::new();
        for _ in 0..5_000 {
            let namespace = format!("n{}", random.random_range(0..3));
            let name = format!("o{}", random.random_range(0..20));
            let key = ObjectKey::namespaced(&*namespace, &*name);
            if random.random_bool(0.4) {
                let removed = writer.update(|contents| contents.remove(&key));
                assert_eq!(removed.is_some(), model.remove(&key).is_some());
            } else {
                let owner = random.random_bool(0.7).then(|| format!("u{}", random.random_range(0..4)));
                writer.update(|contents| contents.insert(&object(Some(&namespace), &name, owner.as_deref())));
                model.insert(key, owner);
            }
            assert_eq!(store.len(), model.len());
        }
        assert_eq!(
            store.all().iter().map(|object| object.header.key.clone()).collect::<Vec<_>>(),
            model.keys().cloned().collect::<Vec<_>>()
        );
        for uid in ["u0", "u1", "u2", "u3"] {
            let expected: BTreeSet<_> =
                model.iter().filter(|(_, owner)| owner.as_deref() == Some(uid)).map(|(key, _)| key.clone()).collect();
            let found: BTreeSet<_> = store.owned_by(uid).iter().map(|object| object.header.key.clone()).collect();
            assert_eq!(found, expected);
        }
    }
}
