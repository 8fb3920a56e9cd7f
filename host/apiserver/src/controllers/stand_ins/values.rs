//! Small functions on objects, shared by several stand-ins.

use serde_json::{Value, json};

use crate::object::{self, canonical, names, text};

/// The integer at `pointer`; 0 if there is none.
pub(super) fn integer(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// Evaluates an `IntOrString`: a number stays as it is; a percentage means that part of `total`, rounded up or down.
pub(super) fn scaled(value: &Value, total: i64, round_up: bool) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse::<i64>().ok());
    match percent {
        Some(percent) if round_up => (percent * total + 99).div_euclid(100),
        Some(percent) => (percent * total).div_euclid(100),
        None => value.as_i64().unwrap_or_default(),
    }
}

/// A hash of a pod template for names and labels. The number of earlier collisions is part of the input, so that each
/// collision leads to a new hash.
pub(super) fn hash(value: &Value, collisions: i64) -> String {
    let bytes = canonical(value).into_bytes().into_iter().chain(collisions.to_le_bytes());
    names::safe(fnv(bytes).to_string().bytes())
}

/// The 32-bit FNV-1a hash.
pub(super) fn fnv(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The entry of `metadata.ownerReferences` that names the controller of an object.
pub(super) fn controller_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": object::name(owner),
        "uid": object::uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The UID of the object's controller.
pub(super) fn controller_uid(object: &Value) -> Option<&str> {
    let owners = object::items(object, "/metadata/ownerReferences");
    owners.iter().find(|owner| owner["controller"] == json!(true)).map(|owner| text(owner, "/uid"))
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// The sort key for creation order: the time, and then the name.
pub(super) fn age_order(object: &Value) -> (&str, &str) {
    (text(object, "/metadata/creationTimestamp"), object::name(object))
}

/// The condition of this type.
pub(super) fn condition<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Replaces the condition of the same type. The transition time changes only if the status does. A condition with the
/// same status and reason is kept unchanged.
pub(super) fn set_condition(conditions: &mut Vec<Value>, mut new: Value) {
    if let Some(old) = condition(conditions, text(&new, "/type")) {
        if old["status"] == new["status"] && old["reason"] == new["reason"] {
            return;
        }
        if old["status"] == new["status"] {
            new["lastTransitionTime"] = old["lastTransitionTime"].clone();
        }
    }
    conditions.retain(|old| old["type"] != new["type"]);
    conditions.push(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_as_asked() {
        assert_eq!(scaled(&json!("25%"), 10, true), 3);
        assert_eq!(scaled(&json!("25%"), 10, false), 2);
        assert_eq!(scaled(&json!("100%"), 3, true), 3);
        assert_eq!(scaled(&json!(4), 10, true), 4);
        assert_eq!(scaled(&Value::Null, 10, true), 0);
    }

    #[test]
    fn a_hash_has_safe_characters_and_depends_on_collisions() {
        let first = hash(&json!({ "a": 1 }), 0);
        assert!(first.bytes().all(|byte| names::SAFE.contains(&byte)), "{first}");
        assert_eq!(first, hash(&json!({ "a": 1 }), 0));
        assert_ne!(first, hash(&json!({ "a": 1 }), 1));
        assert_ne!(first, hash(&json!({ "a": 2 }), 0));
    }

    fn said(status: &str, reason: &str, time: &str) -> Value {
        json!({ "type": "A", "status": status, "reason": reason, "lastTransitionTime": time })
    }

    #[test]
    fn a_condition_with_the_same_status_keeps_its_transition_time() {
        let mut conditions = vec![said("True", "x", "1")];
        set_condition(&mut conditions, said("True", "x", "2"));
        assert_eq!(conditions, [said("True", "x", "1")]);
        set_condition(&mut conditions, said("True", "y", "2"));
        assert_eq!(conditions, [said("True", "y", "1")]);
        set_condition(&mut conditions, said("False", "y", "3"));
        assert_eq!(conditions, [said("False", "y", "3")]);
    }
}
