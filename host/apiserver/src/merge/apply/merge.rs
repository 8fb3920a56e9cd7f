//! Merges the configuration of an apply into an object.
//!
//! Follows `structured-merge-diff/typed/merge.go`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use crate::merge::{
    fields::{Step, step_of_item},
    lists::Place,
};
use crate::schema::ListKind;

/// Sets everything from `config` in `live`.
pub(super) fn merge(live: &Value, config: &Value, place: Place<'_>) -> Value {
    match (live, config) {
        (Value::Object(live), Value::Object(config)) if !place.is_atomic_map() => {
            Value::Object(merge_maps(live, config, place))
        }
        (Value::Array(live), Value::Array(config)) if *place.list() != ListKind::Atomic => {
            Value::Array(merge_lists(live, config, place))
        }
        // Null does not clear a map or list, because other managers may have added entries.
        (Value::Object(fields), Value::Null) if !place.is_atomic_map() && !fields.is_empty() => live.clone(),
        (Value::Array(items), Value::Null) if *place.list() != ListKind::Atomic && !items.is_empty() => live.clone(),
        _ => config.clone(),
    }
}

fn merge_maps(live: &Map<String, Value>, config: &Map<String, Value>, place: Place<'_>) -> Map<String, Value> {
    let mut merged = live.clone();
    for (name, value) in config {
        let value = match live.get(name) {
            Some(live) => merge(live, value, place.field(name)),
            None => value.clone(),
        };
        merged.insert(name.clone(), value);
    }
    merged
}

/// Merges lists item by item, in the order of the configuration. An item that is only in the live list stays before the
/// shared item that it preceded.
fn merge_lists(live: &[Value], config: &[Value], place: Place<'_>) -> Vec<Value> {
    let steps = |list: &[Value]| -> Vec<Step> {
        list.iter().enumerate().map(|(index, item)| step_of_item(item, index, place)).collect()
    };
    let live_steps = steps(live);
    // If several items have the same identity, the first of the live items and the last of the configuration's are
    // used.
    let live_items: BTreeMap<&Step, &Value> = live_steps.iter().zip(live).rev().collect();
    let config_steps = steps(config);
    let config_items: BTreeMap<&Step, &Value> = config_steps.iter().zip(config).collect();

    let mut seen = BTreeSet::new();
    let mut pending: VecDeque<&Step> = config_steps.iter().filter(|step| seen.insert(*step)).collect();
    let mut shared = pending.clone();
    shared.retain(|step| live_items.contains_key(step));
    let merged_item = |step: &Step| {
        let config = config_items.get(step)?;
        Some(live_items.get(step).map_or_else(|| (*config).clone(), |live| merge(live, config, place.item())))
    };

    let mut merged = Vec::with_capacity(live.len().max(config.len()));
    for (step, item) in live_steps.iter().zip(live) {
        if !config_items.contains_key(step) {
            merged.push(item.clone());
            continue;
        }
        // A shared item is added when it is its turn in the configuration, together with the new items before it.
        if shared.front() == Some(&step) {
            shared.pop_front();
            let turn = pending.iter().position(|pending| *pending == step).unwrap_or_default();
            merged.extend(pending.drain(..=turn).filter_map(merged_item));
        }
    }
    merged.extend(pending.into_iter().filter_map(merged_item));
    merged
}
