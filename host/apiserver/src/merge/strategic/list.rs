//! Applies strategic merge patches to lists.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Directive, PATCH, Spot, StrategicError, directive, merge_maps};
use crate::object::canonical;
use crate::schema::typed::PatchStrategy;

/// Merges a patch into a list. The result is in the order of `$setElementOrder`, or else in the patch's order.
pub(super) fn merge(
    current: &[Value],
    patch: &[Value],
    place: Spot<'_>,
    order: Option<&[Value]>,
) -> Result<Vec<Value>, StrategicError> {
    let strategy = place.place.patch_strategy();
    let merged = match strategy {
        // In a list that is replaced, directives have no effect. They must not be stored.
        PatchStrategy::Replace => return Ok(without_directives(patch)),
        PatchStrategy::MergeScalars => merge_scalars(current.to_vec(), patch),
        PatchStrategy::MergeBy(key) => merge_items(current.to_vec(), patch, key, place)?,
    };
    let before = positions(current, strategy);
    let Some(order) = order else {
        return Ok(in_order(merged, &before, &positions(patch, strategy), strategy));
    };
    let order = positions(order, strategy);
    let there = positions(&merged, strategy);
    let is_unordered = |item: &&Value| {
        let identity = identity(item, strategy);
        there.contains_key(&identity) && !order.contains_key(&identity)
    };
    match patch.iter().find(is_unordered) {
        Some(item) => Err(StrategicError::NotOrdered(identity(item, strategy), place.name.to_owned())),
        None => Ok(in_order(merged, &before, &order, strategy)),
    }
}

/// The key that identifies an item, in canonical JSON.
fn identity(item: &Value, strategy: &PatchStrategy) -> String {
    match strategy {
        PatchStrategy::MergeBy(key) => canonical(item.get(key).unwrap_or(&Value::Null)),
        PatchStrategy::MergeScalars | PatchStrategy::Replace => canonical(item),
    }
}

/// The position of each item by its key. If several items have the same key, the position of the first.
fn positions(list: &[Value], strategy: &PatchStrategy) -> BTreeMap<String, usize> {
    list.iter().enumerate().rev().map(|(index, item)| (identity(item, strategy), index)).collect()
}

fn without_directives(list: &[Value]) -> Vec<Value> {
    list.iter().filter(|item| item.get(PATCH).is_none()).cloned().collect()
}

fn merge_scalars(mut list: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    for item in patch {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
    list
}

fn merge_items(
    mut list: Vec<Value>,
    patch: &[Value],
    key: &str,
    place: Spot<'_>,
) -> Result<Vec<Value>, StrategicError> {
    let items: Vec<&Map<String, Value>> = patch
        .iter()
        .map(|item| {
            item.as_object().ok_or_else(|| StrategicError::Malformed(place.name.to_owned(), "a list of objects"))
        })
        .collect::<Result<_, _>>()?;
    // An item `{$patch: replace}` replaces the whole list by the other items of the patch.
    for item in &items {
        if directive(item)? == Some(Directive::Replace) && !item.contains_key(key) {
            return Ok(without_directives(patch));
        }
    }
    for item in items {
        let identity =
            item.get(key).ok_or_else(|| StrategicError::NoMergeKey(Value::Object(item.clone()), key.to_owned()))?;
        let is_same = |other: &Value| other.get(key) == Some(identity);
        if directive(item)? == Some(Directive::Delete) {
            list.retain(|other| !is_same(other));
            continue;
        }
        match list.iter_mut().find(|other| is_same(other)) {
            Some(other) => {
                let current = other.as_object().cloned().unwrap_or_default();
                *other = Value::Object(merge_maps(current, item, place.item())?);
            }
            None => list.push(Value::Object(merge_maps(Map::new(), item, place.item())?)),
        }
    }
    Ok(list)
}

/// Sorts the items that `order` names into that order. Each other item comes before the first ordered item that it
/// preceded in the old list.
fn in_order(
    merged: Vec<Value>,
    before: &BTreeMap<String, usize>,
    order: &BTreeMap<String, usize>,
    strategy: &PatchStrategy,
) -> Vec<Value> {
    let rank = |item: &Value| order.get(&identity(item, strategy)).copied();
    let old_place = |item: &Value| before.get(&identity(item, strategy)).copied();
    let (mut ordered, others): (Vec<Value>, Vec<Value>) = merged.into_iter().partition(|item| rank(item).is_some());
    ordered.sort_by_cached_key(rank);

    let mut result = Vec::with_capacity(ordered.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in ordered {
        // A new item has no old position, so no other item is put before it here.
        let was = old_place(&item);
        while let Some(other) = others.next_if(|other| was.is_some_and(|was| old_place(other) < Some(was))) {
            result.push(other);
        }
        result.push(item);
    }
    result.extend(others);
    result
}
