//! Reads and writes the parts that every object has. Objects are JSON values. Their shape was checked when they arrived
//! (`decode`), so a function that reads does not fail: it treats a value of the wrong type as missing.

mod canonical;
pub(crate) mod go;
pub(crate) mod json_path;
pub(crate) mod label_selector;
pub(crate) mod names;

use serde_json::{Map, Value, json};

pub(crate) use canonical::{braces, canonical};
pub(crate) use go::{aggregate, decode_base64, go_kind, is_go_zero};

/// The names of all fields in `metadata`.
pub(crate) const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// An entry of `metadata.ownerReferences`, with the parts that the garbage collector needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerReference<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) blocks_deletion: bool,
}

/// The deepest allowed nesting of an object. Clients read at most 128 levels, and recursion needs stack for each level.
pub(crate) const OBJECT_DEPTH_MAX: usize = 100;

/// The nesting depth of a value's lists and maps.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(crate) fn resource_version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

pub(crate) fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

pub(crate) fn generation(object: &Value) -> Option<i64> {
    object.pointer("/metadata/generation").and_then(Value::as_i64)
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    strings(object, "/metadata/finalizers")
}

/// True if finalizers prevent the object's removal: those in its metadata, or those in a namespace's spec.
pub(crate) fn is_held(object: &Value) -> bool {
    !finalizers(object).is_empty() || !namespace_finalizers(object).is_empty()
}

/// The finalizers in a namespace's spec. Objects of other kinds may have a field of this name with another meaning.
pub(crate) fn namespace_finalizers(object: &Value) -> Vec<&str> {
    let is_namespace = object["kind"] == "Namespace" && object["apiVersion"] == "v1";
    if is_namespace { strings(object, "/spec/finalizers") } else { vec![] }
}

/// The items of the list at `pointer`; empty if there is no list.
pub(crate) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn strings<'a>(object: &'a Value, pointer: &str) -> Vec<&'a str> {
    items(object, pointer).iter().filter_map(Value::as_str).collect()
}

/// True if the object has a condition of this type whose status is `True`.
pub(crate) fn condition_holds(object: &Value, kind: &str) -> bool {
    let conditions = items(object, "/status/conditions");
    conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

pub(crate) fn owner_references(object: &Value) -> Vec<OwnerReference<'_>> {
    items(object, "/metadata/ownerReferences")
        .iter()
        .map(|owner| OwnerReference {
            api_version: text(owner, "/apiVersion"),
            kind: text(owner, "/kind"),
            name: text(owner, "/name"),
            uid: text(owner, "/uid"),
            blocks_deletion: owner["blockOwnerDeletion"] == json!(true),
        })
        .collect()
}

/// The metadata map, created if necessary.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_mut(object, "metadata")
}

/// The map at `key`, created if it is missing or not a map.
pub(crate) fn map_mut<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    let parent = as_map_mut(object);
    as_map_mut(parent.entry(key).or_insert_with(|| json!({})))
}

/// The value as a map. Anything else is replaced by an empty map.
pub(crate) fn as_map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("the line above made it a map"),
    }
}

/// Sets the finalizers. An empty list removes the field, as a real server does.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[&str]) {
    let finalizers = json!(finalizers);
    set_or_remove_list(object, "finalizers", finalizers);
}

fn set_or_remove_list(object: &mut Value, key: &str, list: Value) {
    let metadata = metadata_mut(object);
    if list.as_array().is_some_and(Vec::is_empty) {
        metadata.remove(key);
    } else {
        metadata.insert(key.to_owned(), list);
    }
}

/// Removes the owner references for which `gone` returns true.
pub(crate) fn remove_owner_references(object: &mut Value, gone: impl Fn(&str) -> bool) {
    let kept: Vec<Value> = match object.pointer("/metadata/ownerReferences") {
        Some(Value::Array(owners)) => owners.iter().filter(|owner| !gone(text(owner, "/uid"))).cloned().collect(),
        _ => return,
    };
    set_or_remove_list(object, "ownerReferences", Value::Array(kept));
}

/// Copies `key` from `from`, or removes it if `from` has none.
pub(crate) fn copy_field(object: &mut Value, from: &Value, key: &str) {
    let map = as_map_mut(object);
    match from.get(key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}

/// Follows a dotted path (`spec.replicas`).
pub(crate) fn at_path<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, step| value.get(step))
}

/// Sets the value at a dotted path, creating maps on the way.
pub(crate) fn set_path(object: &mut Value, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            as_map_mut(object).insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let child = as_map_mut(object).entry(first).or_insert_with(|| json!({}));
            set_path(child, rest, value);
        }
    }
}

/// Like [`map_mut`], but returns the map as a `Value`.
pub(crate) fn map_mut_value<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    let value = as_map_mut(object).entry(key).or_insert_with(|| json!({}));
    as_map_mut(value);
    value
}

/// Loads a value into the processor's cache before it is written, by reading a byte of each key and text. The parts of
/// an object are scattered in memory. While writing, each step depends on the one before, so the processor waits for
/// one cache miss after another. Here the reads are independent, so it waits for many at the same time.
pub(crate) fn read_ahead(value: &Value) {
    std::hint::black_box(first_bytes(value));
}

fn first_bytes(value: &Value) -> u8 {
    let first = |text: &str| text.as_bytes().first().copied().unwrap_or_default();
    match value {
        Value::String(text) => first(text),
        Value::Array(items) => items.iter().fold(0, |sum, item| sum ^ first_bytes(item)),
        Value::Object(fields) => fields.iter().fold(0, |sum, (key, field)| sum ^ first(key) ^ first_bytes(field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_namespaces_spec_has_finalizers_that_hold_it() {
        let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {}, "spec": {"finalizers": ["kubernetes"]}});
        assert!(is_held(&object("v1", "Namespace")));
        assert!(!is_held(&object("windlass.dev/v1alpha1", "ClusterPluginPolicy")), "it is a field like any other");
    }
}
