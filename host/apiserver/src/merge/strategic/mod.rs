//! Strategic merge patches: merge patches that merge lists of the built-in kinds item by item.
//!
//! They exist only for built-in kinds; the server answers 415 for custom resources. The handler of PATCH calls this
//! module.
//!
//! The behaviour follows `k8s.io/apimachinery/pkg/util/strategicpatch/patch.go`. The merge keys come from the kind's
//! type. They differ from the list keys of server-side apply.

mod list;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::merge::lists::Place;

/// Why a patch cannot be applied. The server answers with 400 (`BadRequest`) or 422.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StrategicError {
    /// The patch or the object is not a JSON object.
    #[error("a strategic merge patch and the object to patch must be JSON objects")]
    NotAnObject,
    /// `$patch` is not `delete`, `replace` or `merge`.
    #[error("unknown patch type {0} in {1}")]
    UnknownDirective(String, String),
    /// A directive has the wrong type.
    #[error("{0} has an incorrect format: expected {1}")]
    Malformed(String, &'static str),
    /// An item of a merged list lacks the merge key.
    #[error("map: {0} does not contain declared merge key: {1}")]
    NoMergeKey(Value, String),
    /// The patch has a key that its `$retainKeys` does not list.
    #[error("the keys of the patch are not all in $retainKeys: {0} is missing")]
    NotRetained(String),
    /// The patch has an item that its `$setElementOrder` does not list.
    #[error("the patch has an item that $setElementOrder does not list: {0} of {1}")]
    NotOrdered(String, String),
}

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList/";
const SET_ELEMENT_ORDER: &str = "$setElementOrder/";

/// The place in the object to which a patch applies, and the field's name for messages.
#[derive(Clone, Copy)]
struct Spot<'a> {
    place: Place<'a>,
    name: &'a str,
}

impl<'a> Spot<'a> {
    fn field(self, name: &'a str) -> Self {
        Self { place: self.place.field(name), name }
    }

    fn item(self) -> Self {
        Self { place: self.place.item(), ..self }
    }
}

/// The value of `$patch` in a map or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directive {
    Delete,
    Merge,
    Replace,
}

/// Applies a patch to an object. `root` is the place of its kind.
pub(crate) fn strategic_merge(original: &Value, patch: &Value, root: Place<'_>) -> Result<Value, StrategicError> {
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(StrategicError::NotAnObject);
    };
    merge_maps(original.clone(), patch, Spot { place: root, name: "" }).map(Value::Object)
}

/// Merges a patch into a map.
fn merge_maps(
    mut map: Map<String, Value>,
    patch: &Map<String, Value>,
    place: Spot<'_>,
) -> Result<Map<String, Value>, StrategicError> {
    match directive(patch)? {
        Some(Directive::Delete) => return Ok(Map::new()),
        Some(Directive::Replace) => {
            return Ok(patch.iter().filter(|(name, _)| *name != PATCH).map(|(n, v)| (n.clone(), v.clone())).collect());
        }
        Some(Directive::Merge) | None => {}
    }
    retain_keys(&mut map, patch)?;
    delete_from_primitive_lists(&mut map, patch)?;
    for (name, value) in patch.iter().filter(|(name, _)| !is_directive(name)) {
        match value {
            Value::Null => {
                map.remove(name);
            }
            value => {
                let merged = merge_field(map.remove(name), value, place.field(name), order_of(patch, name)?)?;
                map.insert(name.clone(), merged);
            }
        }
    }
    order_untouched_lists(&mut map, patch, place)?;
    Ok(map)
}

/// The `$setElementOrder` for the list with this name.
fn order_of<'a>(patch: &'a Map<String, Value>, name: &str) -> Result<Option<&'a [Value]>, StrategicError> {
    match patch.get(&format!("{SET_ELEMENT_ORDER}{name}")) {
        None => Ok(None),
        Some(Value::Array(order)) => Ok(Some(order)),
        Some(_) => Err(StrategicError::Malformed(format!("{SET_ELEMENT_ORDER}{name}"), "a list")),
    }
}

fn merge_field(
    current: Option<Value>,
    patch: &Value,
    place: Spot<'_>,
    order: Option<&[Value]>,
) -> Result<Value, StrategicError> {
    match (current, patch) {
        (Some(Value::Object(current)), Value::Object(patch)) => merge_maps(current, patch, place).map(Value::Object),
        // There is no map to merge with. Merging with an empty map removes the directives.
        (_, Value::Object(patch)) => merge_maps(Map::new(), patch, place).map(Value::Object),
        (Some(Value::Array(current)), Value::Array(patch)) => {
            list::merge(&current, patch, place, order).map(Value::Array)
        }
        (_, Value::Array(patch)) => list::merge(&[], patch, place, order).map(Value::Array),
        (_, scalar) => Ok(scalar.clone()),
    }
}

/// Handles a `$setElementOrder` whose list the patch does not have: it only reorders the existing items.
fn order_untouched_lists(
    map: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    place: Spot<'_>,
) -> Result<(), StrategicError> {
    let names = patch.keys().filter_map(|key| key.strip_prefix(SET_ELEMENT_ORDER));
    for name in names.filter(|name| !patch.contains_key(*name)) {
        if let (Some(order), Some(Value::Array(current))) = (order_of(patch, name)?, map.get_mut(name)) {
            *current = list::merge(current, &[], place.field(name), Some(order))?;
        }
    }
    Ok(())
}

fn is_directive(name: &str) -> bool {
    [PATCH, RETAIN_KEYS].contains(&name)
        || [DELETE_FROM_PRIMITIVE_LIST, SET_ELEMENT_ORDER].iter().any(|prefix| name.starts_with(prefix))
}

fn directive(patch: &Map<String, Value>) -> Result<Option<Directive>, StrategicError> {
    match patch.get(PATCH) {
        None => Ok(None),
        Some(Value::String(name)) => match name.as_str() {
            "delete" => Ok(Some(Directive::Delete)),
            "merge" => Ok(Some(Directive::Merge)),
            "replace" => Ok(Some(Directive::Replace)),
            other => {
                let patch = Value::Object(patch.clone()).to_string();
                Err(StrategicError::UnknownDirective(other.to_owned(), patch))
            }
        },
        Some(_) => Err(StrategicError::Malformed(PATCH.to_owned(), "a string")),
    }
}

/// Handles `$retainKeys`: all fields that it does not list are removed.
fn retain_keys(map: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), StrategicError> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else {
        return Err(StrategicError::Malformed(RETAIN_KEYS.to_owned(), "a list"));
    };
    let is_retained = |name: &str| retained.iter().any(|retained| retained.as_str() == Some(name));
    let set = patch.iter().filter(|(name, value)| !is_directive(name) && !value.is_null());
    if let Some((name, _)) = set.into_iter().find(|(name, _)| !is_retained(name)) {
        return Err(StrategicError::NotRetained(name.clone()));
    }
    map.retain(|name, _| is_retained(name));
    Ok(())
}

/// Handles directives such as `$deleteFromPrimitiveList/finalizers: [x]`.
fn delete_from_primitive_lists(map: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), StrategicError> {
    for (key, gone) in patch {
        let Some(name) = key.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) else { continue };
        let Value::Array(gone) = gone else { return Err(StrategicError::Malformed(key.clone(), "a list")) };
        if let Some(Value::Array(list)) = map.get_mut(name) {
            list.retain(|item| !gone.contains(item));
        }
    }
    Ok(())
}
