//! Secondary indexes of a store: from a value to the objects that have it.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;
use windlass_core::object::{Object, ObjectKey};
use windlass_core::watch::IndexSource;

use crate::informer::pointer::{PointerError, PointerTree};

/// Objects by a value, each list in the order of keys. No list is empty.
#[derive(Default)]
pub(crate) struct IndexGroups {
    lists: HashMap<Arc<str>, Vec<Object>>,
}

impl IndexGroups {
    pub(crate) fn insert(&mut self, value: &Arc<str>, object: &Object) {
        let list = self.lists.entry(Arc::clone(value)).or_default();
        match position(list, &object.header.key) {
            Ok(at) => list[at] = object.clone(),
            Err(at) => list.insert(at, object.clone()),
        }
    }

    pub(crate) fn remove(&mut self, value: &str, key: &ObjectKey) {
        let Some(list) = self.lists.get_mut(value) else { return };
        if let Ok(at) = position(list, key) {
            list.remove(at);
        }
        if list.is_empty() {
            self.lists.remove(value);
        }
    }

    /// In the order of keys.
    pub(crate) fn get(&self, value: &str) -> &[Object] {
        self.lists.get(value).map_or(&[], Vec::as_slice)
    }

    /// The part of a list that comes after a key.
    pub(crate) fn after(&self, value: &str, key: Option<&ObjectKey>) -> &[Object] {
        let list = self.get(value);
        let from = key.map_or(0, |key| list.partition_point(|object| object.header.key <= *key));
        &list[from..]
    }
}

fn position(list: &[Object], key: &ObjectKey) -> Result<usize, usize> {
    list.binary_search_by(|object| object.header.key.cmp(key))
}

/// By the UID of the controller.
#[derive(Default)]
pub(crate) struct OwnerIndex(IndexGroups);

impl OwnerIndex {
    /// `old` has made place for `new`; either may be missing.
    pub(crate) fn update(&mut self, old: Option<&Object>, new: Option<&Object>) {
        let owner = |object: &Object| object.header.controller().map(|owner| Arc::clone(&owner.uid));
        let (before, after) = (old.and_then(owner), new.and_then(owner));
        if let (Some(old), Some(uid)) = (old, before.filter(|uid| after.as_ref() != Some(uid))) {
            self.0.remove(&uid, &old.header.key);
        }
        if let (Some(new), Some(uid)) = (new, after) {
            self.0.insert(&uid, new);
        }
    }

    pub(crate) fn after(&self, uid: &str, key: Option<&ObjectKey>) -> &[Object] {
        self.0.after(uid, key)
    }
}

/// An index that plugins have declared.
pub(crate) struct DeclaredIndex {
    values: Values,
    groups: IndexGroups,
    /// How many have declared it and are still there.
    pub(crate) users: usize,
}

/// Where the values of an index are.
enum Values {
    Label(Arc<str>),
    Field { pointer: Arc<str>, tree: PointerTree },
}

impl DeclaredIndex {
    /// An empty index. Its values are what `source` names.
    pub(crate) fn new(source: &IndexSource) -> Result<Self, PointerError> {
        let values = match source {
            IndexSource::Label(key) => Values::Label(Arc::clone(key)),
            IndexSource::Field(pointer) => {
                Values::Field { pointer: Arc::clone(pointer), tree: PointerTree::new([&**pointer])? }
            }
        };
        Ok(Self { values, groups: IndexGroups::default(), users: 0 })
    }

    /// `old` has made place for `new`; either may be missing.
    pub(crate) fn update(&mut self, old: Option<&Object>, new: Option<&Object>) {
        let values = |object: Option<&Object>| object.map(|object| self.values.of(object)).unwrap_or_default();
        let (before, after) = (values(old), values(new));
        for gone in before.difference(&after) {
            if let Some(old) = old {
                self.groups.remove(gone, &old.header.key);
            }
        }
        for value in &after {
            if let Some(new) = new {
                self.groups.insert(value, new);
            }
        }
    }

    pub(crate) fn after(&self, value: &str, key: Option<&ObjectKey>) -> &[Object] {
        self.groups.after(value, key)
    }

    /// Forgets all objects.
    pub(crate) fn clear(&mut self) {
        self.groups = IndexGroups::default();
    }
}

impl Values {
    fn of(&self, object: &Object) -> BTreeSet<Arc<str>> {
        match self {
            Self::Label(key) => object.header.labels.get(key).cloned().into_iter().collect(),
            Self::Field { pointer, tree } => {
                // The object's text has been read once; what of it is selected is small.
                let selected = tree.select(&object.glance()).ok();
                let value = selected.and_then(|text| serde_json::from_str::<Value>(&text).ok());
                value.as_ref().and_then(|value| value.pointer(pointer)).map(strings).unwrap_or_default()
            }
        }
    }
}

/// Whether `object` would be found under `value` in an index of `source`.
pub(crate) fn has_value(source: &IndexSource, object: &Object, value: &str) -> bool {
    DeclaredIndex::new(source).is_ok_and(|index| index.values.of(object).contains(value))
}

fn strings(value: &Value) -> BTreeSet<Arc<str>> {
    match value {
        Value::String(text) => [text.as_str().into()].into(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(Arc::from).collect(),
        _ => BTreeSet::new(),
    }
}
