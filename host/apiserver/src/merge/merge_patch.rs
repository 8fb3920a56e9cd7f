//! JSON merge patches (RFC 7396).

use serde_json::{Map, Value};

/// Applies a merge patch: null removes a field, maps are merged, and any other value replaces the old one.
pub(crate) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(fields) = object else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_removes_maps_merge_and_the_rest_replaces() {
        let mut object = json!({ "gone": 1, "map": { "a": 1, "b": 2 }, "list": [1], "text": "x" });
        merge(&mut object, &json!({ "gone": null, "map": { "b": null, "c": 3 }, "list": [2], "text": { "d": null } }));
        assert_eq!(object, json!({ "map": { "a": 1, "c": 3 }, "list": [2], "text": {} }));
    }
}
