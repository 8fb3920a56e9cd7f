//! Patches and projections, as a server applies them. This module does not access the stored objects.

use serde_json::{Map, Value, json};

/// Merges `patch` into `object`. A null removes its field, unless `keeps_nulls`, as in an apply.
pub(super) fn merge(object: &mut Value, patch: &Value, keeps_nulls: bool) {
    let (Value::Object(patch), true) = (patch, object.is_object() || object.is_null()) else {
        *object = patch.clone();
        return;
    };
    if object.is_null() {
        *object = Value::Object(Map::new());
    }
    let Some(fields) = object.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() && !keeps_nulls {
            fields.remove(key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), value, keeps_nulls);
        }
    }
}

/// Carries out one operation of a JSON patch. `None` if it does not apply.
pub(super) fn json_patch(object: &mut Value, operation: &Value) -> Option<()> {
    let path = operation["path"].as_str()?;
    let (parent, last) = path.rsplit_once('/')?;
    let last = last.replace("~1", "/").replace("~0", "~");
    if operation["op"] == "test" {
        return (object.pointer(path) == Some(&operation["value"])).then_some(());
    }
    let value = operation["value"].clone();
    match (object.pointer_mut(parent)?, operation["op"].as_str()?) {
        (Value::Object(fields), "add") => drop(fields.insert(last, value)),
        (Value::Object(fields), "replace") => *fields.get_mut(&last)? = value,
        (Value::Object(fields), "remove") => drop(fields.remove(&last)?),
        (Value::Array(elements), "add") if last == "-" => elements.push(value),
        (Value::Array(elements), "add") => {
            let at = last.parse().ok().filter(|at| *at <= elements.len())?;
            elements.insert(at, value);
        }
        (Value::Array(elements), "replace") => *elements.get_mut(last.parse::<usize>().ok()?)? = value,
        (Value::Array(elements), "remove") => {
            let at = last.parse().ok().filter(|at| *at < elements.len())?;
            elements.remove(at);
        }
        _ => return None,
    }
    Some(())
}

/// The part of an object that a read with `fields` returns.
pub(super) fn projected(object: &Value, fields: Option<&[String]>) -> Value {
    let Some(fields) = fields else { return object.clone() };
    let mut part = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {}});
    for name in ["name", "namespace", "uid"] {
        if let Some(value) = object["metadata"].get(name) {
            part["metadata"][name] = value.clone();
        }
    }
    for pointer in fields {
        if let Some(value) = object.pointer(pointer) {
            let wrap = |value, name: &str| json!({name.replace("~1", "/").replace("~0", "~"): value});
            let nested = pointer.rsplit('/').filter(|name| !name.is_empty()).fold(value.clone(), wrap);
            merge(&mut part, &nested, true);
        }
    }
    part
}
