//! Secondary indexes of a store: from a value to the objects with that value.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;
use windlass_core::cache::watch::IndexSource;
use windlass_core::defect::Defect;
use windlass_core::object::labels::{Labels, LabelsError};
use windlass_core::object::pointer_tree::{PointerError, PointerTree};
use windlass_core::object::progress::Stamp;
use windlass_core::object::selector::Selector;
use windlass_core::object::{Object, ObjectKey, shallow};

/// The approximate memory of a value, in addition to its text: its count, its place in the map, and its list.
const VALUE_BYTES: usize = 128;
/// The approximate memory of an object's place in a list. It is doubled, because a list may have room for twice as many
/// objects as it has.
const PLACE_BYTES: usize = 2 * size_of::<Object>();
/// The approximate memory of an object's place in the map of selectors, in addition to the selectors.
const SELECTORS_BYTES: usize = 96;

/// The objects with one value, sorted by key.
struct IndexList {
    objects: Vec<Object>,
    /// When one of the objects last came, changed or went.
    changed: Stamp,
}

/// Objects by a value. No list is empty.
#[derive(Default)]
pub(crate) struct IndexGroups {
    lists: HashMap<Arc<str>, IndexList>,
    /// The approximate memory of all lists, in bytes.
    bytes: usize,
    /// When a list last became empty.
    emptied: Stamp,
}

impl IndexGroups {
    pub(crate) fn insert(&mut self, value: &Arc<str>, object: &Object) {
        let list = self.lists.entry(Arc::clone(value)).or_insert_with(|| {
            self.bytes += VALUE_BYTES + value.len();
            IndexList { objects: Vec::new(), changed: Stamp::default() }
        });
        list.changed = Stamp::take();
        match position(&list.objects, &object.header.key) {
            Ok(_) if Defect::IndexKeepsFirstState.is_seeded() => {}
            Ok(at) => list.objects[at] = object.clone(),
            Err(at) => {
                list.objects.insert(at, object.clone());
                self.bytes += PLACE_BYTES;
            }
        }
    }

    pub(crate) fn remove(&mut self, value: &str, key: &ObjectKey) {
        let Some(list) = self.lists.get_mut(value) else { return };
        let (now, is_counted) = (Stamp::take(), !Defect::RemovalIsNotCounted.is_seeded());
        if is_counted {
            list.changed = now;
        }
        if let Ok(at) = position(&list.objects, key) {
            list.objects.remove(at);
            self.bytes -= PLACE_BYTES;
        }
        if list.objects.is_empty() && is_counted {
            self.emptied = now;
            self.lists.remove(value);
            self.bytes -= VALUE_BYTES + value.len();
        }
    }

    /// The objects with this value after a key, sorted by key.
    pub(crate) fn after(&self, value: &str, key: Option<&ObjectKey>) -> &[Object] {
        let list: &[Object] = self.lists.get(value).map_or(&[], |list| &list.objects);
        let from = key.map_or(0, |key| list.partition_point(|object| object.header.key <= *key));
        &list[from..]
    }

    /// When an object with this value last came, changed or went. `None` if there is no object now.
    fn changed(&self, value: &str) -> Option<Stamp> {
        self.lists.get(value).map(|list| list.changed)
    }
}

fn position(list: &[Object], key: &ObjectKey) -> Result<usize, usize> {
    list.binary_search_by(|object| object.header.key.cmp(key))
}

/// Objects by the UID of their controller.
#[derive(Default)]
pub(crate) struct OwnerIndex(IndexGroups);

impl OwnerIndex {
    /// Replaces `old` by `new`; either may be missing.
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

    /// When an object of this owner last came, changed or went. `None` if there is no object now.
    pub(crate) fn changed(&self, uid: &str) -> Option<Stamp> {
        self.0.changed(uid)
    }
}

/// An index that plugins have declared.
pub(crate) struct DeclaredIndex {
    source: IndexSource,
    /// The part of an object's text that the source reads. `None` if the source reads no text.
    looked_at: Option<PointerTree>,
    /// Objects by value; for selectors, by the label that another object must have to be selected.
    groups: IndexGroups,
    /// The selectors of each object, in an index of selectors.
    selectors: HashMap<ObjectKey, Vec<Selector>>,
    /// The approximate memory of `selectors`, in bytes.
    selectors_bytes: usize,
    /// The memory that the index may occupy, in bytes.
    limit: usize,
    /// Whether the index would have exceeded its limit. It is then empty and stays empty, because it could not be
    /// complete.
    exceeded: bool,
    /// The number of current declarations.
    pub(crate) users: usize,
}

impl DeclaredIndex {
    /// An empty index by the values that `source` names. It may occupy `limit` bytes.
    pub(crate) fn new(source: &IndexSource, limit: usize) -> Result<Self, PointerError> {
        let pointers = source.pointers();
        let tree = (!pointers.is_empty()).then(|| PointerTree::new(pointers.iter().map(String::as_str)));
        Ok(Self {
            source: source.clone(),
            looked_at: tree.transpose()?,
            groups: IndexGroups::default(),
            selectors: HashMap::new(),
            selectors_bytes: 0,
            limit,
            exceeded: false,
            users: 0,
        })
    }

    /// The approximate memory that the index occupies, in bytes. If the index would have exceeded its limit, the result
    /// is larger than the limit.
    pub(crate) fn bytes(&self) -> usize {
        if self.exceeded { self.limit.saturating_add(1) } else { self.groups.bytes + self.selectors_bytes }
    }

    /// Whether it has all objects.
    pub(crate) fn is_complete(&self) -> bool {
        !self.exceeded
    }

    /// Replaces `old` by `new`; either may be missing.
    pub(crate) fn update(&mut self, old: Option<&Object>, new: Option<&Object>) {
        if self.exceeded {
            return;
        }
        let (before, after) = if self.is_of_selectors() {
            self.replace_selectors(old, new)
        } else {
            let values = |object: Option<&Object>| object.map(|object| self.values(object)).unwrap_or_default();
            (values(old), values(new))
        };
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
        if self.bytes() > self.limit {
            self.clear();
            self.exceeded = true;
        }
    }

    /// The objects found by `value`, after a key, sorted by key.
    pub(crate) fn after(&self, value: &str, key: Option<&ObjectKey>) -> Cow<'_, [Object]> {
        if !self.is_of_selectors() {
            return Cow::Borrowed(self.groups.after(value, key));
        }
        let Ok(labels) = value.parse::<Labels>() else { return Cow::default() };
        let candidates = needs_met(&labels).flat_map(|need| self.groups.after(&need, key).to_vec());
        let selects = |object: &Object| {
            let selectors = self.selectors.get(&object.header.key);
            selectors.is_some_and(|selectors| selectors.iter().any(|selector| selector.matches(&labels)))
        };
        let mut found: Vec<Object> = candidates.filter(selects).collect();
        found.sort_by(|a, b| a.header.key.cmp(&b.header.key));
        found.dedup_by(|a, b| a.header.key == b.header.key);
        Cow::Owned(found)
    }

    /// When an object found by `value` last came, changed or went. `None` if there is no object now.
    ///
    /// For selectors, the latest change of any object that `value` might find. A list that has become empty has changed
    /// when the last list did, so that the result never repeats for another state.
    pub(crate) fn changed(&self, value: &str) -> Option<Stamp> {
        if !self.is_of_selectors() {
            return self.groups.changed(value);
        }
        let labels = value.parse::<Labels>().ok()?;
        needs_met(&labels).map(|need| self.groups.changed(&need).unwrap_or(self.groups.emptied)).max()
    }

    pub(crate) fn clear(&mut self) {
        self.groups = IndexGroups::default();
        (self.selectors, self.selectors_bytes) = (HashMap::new(), 0);
        self.exceeded = false;
    }

    fn is_of_selectors(&self) -> bool {
        matches!(self.source, IndexSource::Selector { .. })
    }

    fn values(&self, object: &Object) -> BTreeSet<Arc<str>> {
        self.source.values(object, &self.body(object))
    }

    /// Replaces the selectors of the old object by those of the new one. Returns the needs of both.
    fn replace_selectors(&mut self, old: Option<&Object>, new: Option<&Object>) -> (Needs, Needs) {
        let before = old.and_then(|old| self.selectors.remove(&old.header.key)).unwrap_or_default();
        let after = new.map(|new| self.source.selectors(&self.body(new))).unwrap_or_default();
        let needs = (needs(&before), needs(&after));
        self.selectors_bytes = self.selectors_bytes + selectors_bytes(&after) - selectors_bytes(&before);
        if let Some(new) = new.filter(|_| !after.is_empty()) {
            self.selectors.insert(new.header.key.clone(), after);
        }
        needs
    }

    /// The part of the object's text that the source reads, as JSON.
    fn body(&self, object: &Object) -> Value {
        let selected = self.looked_at.as_ref().and_then(|tree| tree.select(&object.glance()).ok());
        selected.and_then(|text| shallow::parse(&text).ok()).unwrap_or_default()
    }
}

/// Labels, as `key=value`, for an object with selectors. The selectors can select only objects that have at least one
/// of these labels. Each selector contributes the key that it requires with the fewest values, so that most objects are
/// not candidates for most selectors. A selector that requires no label contributes [`NO_NEED`], which every object
/// meets.
type Needs = BTreeSet<Arc<str>>;

/// The need of a selector that requires no label.
const NO_NEED: &str = "";

fn needs(selectors: &[Selector]) -> Needs {
    let of = |selector: &Selector| -> Vec<Arc<str>> {
        match selector.needed() {
            Some((key, values)) => values.map(|value| need(key, value)).collect(),
            None => vec![NO_NEED.into()],
        }
    };
    selectors.iter().flat_map(of).collect()
}

fn selectors_bytes(selectors: &[Selector]) -> usize {
    if selectors.is_empty() { 0 } else { SELECTORS_BYTES + selectors.iter().map(Selector::footprint).sum::<usize>() }
}

/// The needs that an object with `labels` meets.
fn needs_met(labels: &Labels) -> impl Iterator<Item = Arc<str>> {
    labels.iter().map(|(key, value)| need(key, value)).chain([NO_NEED.into()])
}

fn need(key: &str, value: &str) -> Arc<str> {
    format!("{key}={value}").into()
}

/// Checks whether `value` is valid for an index of `source`: an index of selectors is queried with labels.
pub(crate) fn check(source: &IndexSource, value: &str) -> Result<(), LabelsError> {
    if matches!(source, IndexSource::Selector { .. }) { value.parse::<Labels>().map(drop) } else { Ok(()) }
}

/// Whether an index of `source` would find `object` under `value`.
pub(crate) fn has_value(source: &IndexSource, object: &Object, value: &str) -> bool {
    let Ok(mut index) = DeclaredIndex::new(source, usize::MAX) else { return false };
    index.update(None, Some(object));
    !index.after(value, None).is_empty()
}

#[cfg(test)]
mod tests;
