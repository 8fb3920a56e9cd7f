//! The objects of one watch: any number of readers, one writer.
//!
//! Objects are kept as bytes beside a small header and handed out as shared pointers. Only an informer writes, through
//! its [`StoreWriter`]; readers never see half of a re-list.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use windlass_core::object::{Object, ObjectKey};

use crate::discovery::Resource;
use crate::index::OwnerIndex;

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
}

/// Invariant: `owners` has exactly the controllers of the objects in `namespaces`, and no namespace is empty.
#[derive(Default)]
pub(crate) struct Contents {
    /// Set by the first complete list.
    resource: Option<Arc<Resource>>,
    /// By namespace, which is empty for cluster-scoped objects, and name: in the order of keys.
    namespaces: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Object>>,
    owners: OwnerIndex,
    length: usize,
}

fn namespace_of(key: &ObjectKey) -> &str {
    key.namespace.as_deref().unwrap_or_default()
}

impl Contents {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.namespaces.get(namespace_of(key))?.get(&key.name)
    }

    /// Returns what was there before.
    pub(crate) fn insert(&mut self, object: Object) -> Option<Object> {
        let key = &object.header.key;
        let namespace = key.namespace.clone().unwrap_or_default();
        let name = Arc::clone(&key.name);
        let header = Arc::clone(&object.header);
        let old = self.namespaces.entry(namespace).or_default().insert(name, object);
        match &old {
            Some(old) => self.owners.remove(&old.header),
            None => self.length += 1,
        }
        self.owners.insert(&header);
        old
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Object> {
        let objects = self.namespaces.get_mut(namespace_of(key))?;
        let old = objects.remove(&key.name)?;
        if objects.is_empty() {
            self.namespaces.remove(namespace_of(key));
        }
        self.owners.remove(&old.header);
        self.length -= 1;
        Some(old)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Object> {
        self.namespaces.values().flat_map(BTreeMap::values)
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.resource.is_some()
    }

    pub(crate) fn set_synced(&mut self, resource: Arc<Resource>) {
        self.resource = Some(resource);
    }

    /// Visits the objects of `scope` after the key `after`, in the order of keys, until `visit` breaks.
    fn scan(&self, scope: Scope<'_>, after: Option<&ObjectKey>, mut visit: impl FnMut(&Object) -> ControlFlow<()>) {
        let first = after.map(namespace_of).unwrap_or_default();
        let namespaces = match scope {
            Scope::All => (Bound::Included(first), Bound::Unbounded),
            Scope::Namespace(namespace) if namespace < first => return,
            Scope::Namespace(namespace) => (Bound::Included(namespace), Bound::Included(namespace)),
            Scope::Owned(uid) => {
                let keys = self.owners.get(uid).into_iter().flatten();
                let keys = keys.filter(|key| after.is_none_or(|after| *key > after));
                let _ = keys.filter_map(|key| self.get(key)).try_for_each(visit);
                return;
            }
        };
        for (namespace, objects) in self.namespaces.range::<str, _>(namespaces) {
            let start = match after {
                Some(after) if **namespace == *first => Bound::Excluded(&*after.name),
                _ => Bound::Unbounded,
            };
            for object in objects.range::<str, _>((start, Bound::Unbounded)).map(|(_, object)| object) {
                if visit(object).is_break() {
                    return;
                }
            }
        }
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

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().length
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

    /// Visits objects under the read lock: `visit` must be short and must not read the store.
    pub(crate) fn scan(
        &self,
        scope: Scope<'_>,
        after: Option<&ObjectKey>,
        visit: impl FnMut(&Object) -> ControlFlow<()>,
    ) {
        self.read().scan(scope, after, visit);
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

    use super::*;

    fn object(namespace: Option<&str>, name: &str, owner: Option<&str>) -> Object {
        let namespace = namespace.map(|namespace| format!(r#","namespace":"{namespace}""#)).unwrap_or_default();
        let owners = owner
            .map(|uid| {
                let reference = r#"{"apiVersion":"v1","kind":"Owner","name":"o","controller":true,"uid""#;
                format!(r#","ownerReferences":[{reference}:"{uid}"}}]"#)
            })
            .unwrap_or_default();
        let text = format!(r#"{{"metadata":{{"name":"{name}"{namespace}{owners}}}}}"#);
        crate::parse::object(&text, &ObjectKind::new("v1", "Pod")).expect("an object")
    }

    fn keys(objects: &[Object]) -> Vec<String> {
        objects.iter().map(|object| object.header.key.to_string()).collect()
    }

    #[test]
    fn objects_are_found_by_key_namespace_and_owner() {
        let (store, mut writer) = Store::new();
        writer.update(|contents| {
            contents.insert(object(Some("b"), "2", Some("u")));
            contents.insert(object(Some("a"), "1", Some("u")));
            contents.insert(object(None, "0", None));
        });
        assert_eq!(keys(&store.all()), ["0", "a/1", "b/2"]);
        assert_eq!(keys(&store.in_namespace("b")), ["b/2"]);
        assert_eq!(keys(&store.owned_by("u")), ["a/1", "b/2"]);
        assert!(store.get(&ObjectKey::cluster("0")).is_some());
        writer.update(|contents| contents.insert(object(Some("a"), "1", Some("v"))));
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
                contents.insert(object(namespace, name, None));
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
                writer.update(|contents| contents.insert(object(Some(&namespace), &name, owner.as_deref())));
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
