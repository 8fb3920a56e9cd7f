//! Matches the items of a new list with the items of the old list.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ListKind;
use crate::object::canonical;

/// The items of an old list by their keys. Only lists of the type `map` have keys that identify an item after a change.
pub(super) struct OldItems<'a> {
    keys: &'a [String],
    items: BTreeMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub(super) fn new(kind: &'a ListKind, old: Option<&'a Value>) -> OldItems<'a> {
        let ListKind::Map(keys) = kind else { return OldItems { keys: &[], items: BTreeMap::new() } };
        let old = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        OldItems { keys, items: old.iter().map(|item| (identity(keys, item), item)).collect() }
    }

    /// The old item with the same keys as `item`.
    pub(super) fn of(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() { None } else { self.items.get(&identity(self.keys, item)).copied() }
    }
}

fn identity(keys: &[String], item: &Value) -> String {
    let named = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    canonical(&Value::Object(named.collect()))
}
