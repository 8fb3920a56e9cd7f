//! Converts objects in recordings to the form in which users write them.

use serde_json::{Map, Value};
use windlass_core::object::pointer;

/// Adds the kind to an object if it has none, as items of a list may.
pub(super) fn of_kind(mut object: Value, kind: &Value) -> Value {
    for field in ["apiVersion", "kind"] {
        if object[field].is_null() {
            object[field] = kind[field].clone();
        }
    }
    object
}

pub(super) fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// Parses an object that a document contains as text.
pub(super) fn embedded(text: &Value) -> Option<Value> {
    parsed(text.as_str()?)
}

/// An object as its user would write it, without the fields that the server, controllers and kubectl added.
pub(super) fn wanted(mut object: Value) -> Value {
    const KEPT: [&str; 4] = ["name", "namespace", "labels", "annotations"];
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| KEPT.contains(&field.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    object
}

/// The fields that a user changes: an object's spec, or its data.
pub(super) fn spec(object: &Value) -> Map<String, Value> {
    let fields = object.as_object().cloned().unwrap_or_default();
    fields.into_iter().filter(|(field, _)| !matches!(field.as_str(), "apiVersion" | "kind" | "metadata")).collect()
}

/// The merge patch from `before` to `after`.
pub(super) fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(of_before), Value::Object(of_after)) = (before, after) else { return after.clone() };
    let gone =
        of_before.keys().filter(|field| !of_after.contains_key(*field)).map(|field| (field.clone(), Value::Null));
    let others = of_after.iter().filter(|(field, value)| of_before.get(*field) != Some(value));
    let others = others
        .map(|(field, value)| (field.clone(), difference(&of_before.get(field).cloned().unwrap_or_default(), value)));
    gone.chain(others).collect::<Map<_, _>>().into()
}

/// Visits each leaf value with its JSON pointer.
pub(super) fn leaves(value: &Value, place: &str, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (field, value) in fields {
                leaves(value, &pointer::joined(place, field), visit);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                leaves(value, &format!("{place}/{index}"), visit);
            }
        }
        value => visit(place, value),
    }
}
