//! Removes fields from an object.
//!
//! Follows `structured-merge-diff/typed/remove.go`: a map or list that becomes empty is replaced by null. A custom
//! resource keeps the null, and is invalid if its schema does not allow null there. For built-in kinds, Go's decoding
//! drops empty lists and free-key maps (`omitempty`), and keeps empty structs.

use serde_json::{Map, Value};

use super::field;
use crate::merge::{
    fields::{Set, step_of_item},
    lists::Place,
};
use crate::schema::ListKind;

/// Removes the fields in `gone`, each with everything beneath it.
pub(super) fn remove(value: &mut Value, gone: &Set, place: Place<'_>) {
    match value {
        Value::Object(fields) if !place.is_atomic_map() => remove_from_map(fields, gone, place),
        Value::Array(list) if *place.list() != ListKind::Atomic => remove_from_list(list, gone, place),
        _ => {}
    }
}

fn remove_from_map(fields: &mut Map<String, Value>, gone: &Set, place: Place<'_>) {
    fields.retain(|name, value| {
        let step = field(name);
        if gone.has(&step) {
            return false;
        }
        let Some(below) = gone.below(&step) else { return true };
        let place = place.field(name);
        let was_empty = is_empty(value, place);
        remove_below(value, below, place);
        was_empty || !is_empty(value, place)
    });
}

/// Removes fields below a field or item. If it becomes empty, it may become null.
fn remove_below(value: &mut Value, gone: &Set, place: Place<'_>) {
    remove(value, gone, place);
    let is_empty = match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    if is_empty && !matches!(place, Place::Builtin { .. }) {
        *value = Value::Null;
    }
}

fn is_empty(value: &Value, place: Place<'_>) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty() && place.goes_when_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn remove_from_list(list: &mut Vec<Value>, gone: &Set, place: Place<'_>) {
    let mut index = 0;
    list.retain_mut(|item| {
        let step = step_of_item(item, index, place);
        index += 1;
        if gone.has(&step) {
            return false;
        }
        if let Some(below) = gone.below(&step) {
            remove_below(item, below, place.item());
        }
        true
    });
}
