//! Writes that are sent only if the cache does not show their fields yet.

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Value};

use super::{Written, create, merge};
use crate::error::{ApiError, ApiReason, Error, JsonError};
use crate::json;
use crate::native::cache as host;
use crate::object::{ObjectRef, are_equal};

/// The fields of `metadata` that only the server sets.
const SET_BY_SERVER: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// The effect of [`ensure`], with the object as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    /// The cache shows the object with all desired fields: nothing was sent.
    Unchanged(Written),
    /// The object did not exist.
    Created(Written),
    /// The object lacked some of the desired fields.
    Patched(Written),
}

impl Ensured {
    /// The object as any type.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        let (Self::Unchanged(written) | Self::Created(written) | Self::Patched(written)) = self;
        written.object()
    }
}

/// Creates the object if it is not in the cache. Otherwise sends the smallest merge patch that gives the object the
/// desired fields, or nothing if it has them already. The kind must be watched without a projection: fields that a
/// projection hides would be sent each time.
///
/// Prefer [`apply`](super::apply): it also removes fields that the plugin applied before and no longer wants, and it
/// detects another writer of the same field. `ensure` does neither. Its advantage is that a create costs the server
/// less than an apply. Its rules:
///
/// - A field that `object` leaves out stays as it is. Null removes a field.
/// - A list belongs to the plugin as a whole. It is as desired if it has as many elements, and each has the desired
///   fields. When a list is written, an element keeps its other fields if the element at the same position has the same
///   `name`.
/// - A patch that writes a list or removes a field fails with reason [`Conflict`](ApiReason::Conflict) if the object
///   has changed since the cache showed it. Return the error, and the host runs the key again on a newer cache.
/// - The desired owners and finalizers are added to the existing ones; null instead of a list removes all of them. To
///   own the object, give it an [`OwnerReference`](crate::OwnerReference) to the controller: if the object has another
///   controller, `ensure` then fails with reason [`AlreadyExists`](ApiReason::AlreadyExists). Without such a reference
///   the object is patched, whichever owner it has.
/// - `status` is not compared: write it with [`apply_status`](super::apply_status). The fields of `metadata` that the
///   server sets are not compared either. So a `resourceVersion` is no lock, and an object that has one cannot be
///   created.
/// - Write values as the server stores them; any other value is sent again at each call. For example, the server stores
///   a quantity of `0.5` as `500m`, and drops empty and zero values of built-in kinds such as `nodeSelector: {}`,
///   `tolerations: []` and `paused: false`. Webhooks may add elements to lists.
///
/// ```no_run
/// # use windlass_sdk::{Error, writes};
/// # fn run(deployment: serde_json::Value) -> Result<(), Error> {
/// let deployment: serde_json::Value = writes::ensure(&deployment)?.object()?;
/// # Ok(())
/// # }
/// ```
pub fn ensure<T: Serialize + ?Sized>(object: &T) -> Result<Ensured, Error> {
    let desired = serde_json::to_value(object).map_err(|error| JsonError::new("an object to write", error))?;
    let target = target(&desired)?;
    let Some(text) = host::get(&target, None)? else {
        return create(&desired).send().map(Ensured::Created);
    };
    let cached: Value = json::read("a cached object", &text)?;
    if let Some(controller) = other_controller(&cached, &desired) {
        return Err(taken(&target, &controller).into());
    }
    let Some(patch) = patch(&cached, &desired) else { return Ok(Ensured::Unchanged(Written(text))) };
    // The patch must not reach a later object of this name, which may have another controller.
    let uid = cached["metadata"]["uid"].as_str().map(str::to_owned);
    let mut write = merge(ObjectRef { uid, ..target }, &patch);
    if let Some(version) = version(&cached, &patch) {
        write = write.if_version(version);
    }
    write.send().map(Ensured::Patched)
}

fn target(object: &Value) -> Result<ObjectRef, JsonError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let needed = |pointer: &str| {
        let missing = || serde_json::Error::custom(format!("{} is missing", pointer[1..].replace('/', ".")));
        text(pointer).ok_or_else(|| JsonError::new("an object to write", missing()))
    };
    let target = ObjectRef::cluster_scoped(needed("/apiVersion")?, needed("/kind")?, needed("/metadata/name")?);
    Ok(ObjectRef { namespace: text("/metadata/namespace"), ..target })
}

/// The controller of `cached`, if `desired` has a different one.
fn other_controller(cached: &Value, desired: &Value) -> Option<String> {
    let of = |object: &Value| {
        let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
        owners.iter().find(|owner| owner["controller"] == true).cloned()
    };
    let (has, wants) = (of(cached)?, of(desired)?);
    let text = |field: &str| has[field].as_str().unwrap_or_default().to_owned();
    (has["uid"] != wants["uid"]).then(|| format!("{} {}", text("kind"), text("name")))
}

fn taken(target: &ObjectRef, controller: &str) -> ApiError {
    ApiError {
        code: 409,
        reason: ApiReason::AlreadyExists,
        status_reason: "AlreadyExists".to_owned(),
        message: format!("it exists, and {controller} controls it"),
        retry_after_ms: None,
        verb: "ensure".to_owned(),
        resource: target.kind.clone(),
        object: Some(target.clone()),
    }
}

/// The `resourceVersion` of `cached`, if the patch must not be applied to a later version of the object.
fn version(cached: &Value, patch: &Value) -> Option<String> {
    let version = cached.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    version.filter(|_| may_undo(patch)).map(str::to_owned)
}

/// Whether a merge patch may undo newer writes of other clients: it replaces whole lists, and a null removes a whole
/// field.
fn may_undo(patch: &Value) -> bool {
    match patch {
        Value::Object(fields) => fields.values().any(may_undo),
        patch => patch.is_array() || patch.is_null(),
    }
}

/// The merge patch that gives `cached` the fields of `desired`. `None` if it has them.
fn patch(cached: &Value, desired: &Value) -> Option<Value> {
    let mut desired = desired.as_object().cloned().unwrap_or_default();
    for field in ["apiVersion", "kind", "status"] {
        desired.remove(field);
    }
    if let Some(Value::Object(metadata)) = desired.get_mut("metadata") {
        // The server drops empty maps and lists in metadata.
        metadata.retain(|field, value| !SET_BY_SERVER.contains(&&**field) && !is_empty(value));
        for (list, id) in [("ownerReferences", "uid"), ("finalizers", "")] {
            let cached = &cached["metadata"][list];
            if let (Some(Value::Array(wanted)), Value::Array(has)) = (metadata.get_mut(list), cached) {
                *wanted = joined(has, wanted, id);
            }
        }
    }
    difference(cached, &Value::Object(desired))
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Returns `has` with the elements of `wanted`. A wanted element replaces the element with the same `id`, or is
/// appended. Without an `id`, elements are the same if they are equal.
fn joined(has: &[Value], wanted: &[Value], id: &str) -> Vec<Value> {
    let mut all = has.to_vec();
    for wanted in wanted {
        match all.iter_mut().find(|it| if id.is_empty() { *it == wanted } else { it[id] == wanted[id] }) {
            Some(it) => *it = overlaid(it, wanted),
            None => all.push(wanted.clone()),
        }
    }
    all
}

/// The merge patch that changes `has` into `wanted`. `has` is null if the value is missing. `None` if nothing differs.
fn difference(has: &Value, wanted: &Value) -> Option<Value> {
    match (has, wanted) {
        (Value::Object(has), Value::Object(wanted)) => {
            let differing = wanted.iter().filter_map(|(field, wanted)| {
                Some((field.clone(), difference(has.get(field).unwrap_or(&Value::Null), wanted)?))
            });
            let differing: Map<_, _> = differing.collect();
            (!differing.is_empty()).then_some(Value::Object(differing))
        }
        _ if shows(has, wanted) => None,
        (Value::Null, _) => without_nulls(wanted),
        (Value::Array(has), Value::Array(wanted)) => {
            let old = has.iter().map(Some).chain(std::iter::repeat(None));
            let elements = old.zip(wanted).map(|(has, wanted)| match has {
                Some(has) if is_named_alike(has, wanted) => overlaid(has, wanted),
                _ => without_nulls(wanted).unwrap_or_default(),
            });
            Some(elements.collect())
        }
        // Nulls may stay in this value: a merge patch drops them when it replaces a value of another type.
        _ => Some(wanted.clone()),
    }
}

/// Whether `has`, null if missing, has all `wanted` fields. A missing value is enough for a wanted null, and for a
/// wanted object that contains only nulls. It is not enough for an empty object or list, such as `emptyDir: {}`.
fn shows(has: &Value, wanted: &Value) -> bool {
    match (has, wanted) {
        (Value::Null, Value::Object(wanted)) => !wanted.is_empty() && wanted.values().all(|wanted| shows(has, wanted)),
        (Value::Object(has), Value::Object(wanted)) => {
            wanted.iter().all(|(field, wanted)| shows(has.get(field).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(has), Value::Array(wanted)) => {
            has.len() == wanted.len() && has.iter().zip(wanted).all(|(has, wanted)| shows(has, wanted))
        }
        _ => are_equal(has, wanted),
    }
}

fn is_named_alike(has: &Value, wanted: &Value) -> bool {
    has["name"].is_string() && has["name"] == wanted["name"]
}

/// Returns `has` with the `wanted` fields, as a merge patch would leave it.
fn overlaid(has: &Value, wanted: &Value) -> Value {
    let (Value::Object(has), Value::Object(wanted)) = (has, wanted) else {
        return without_nulls(wanted).unwrap_or_default();
    };
    let mut all = has.clone();
    for (field, wanted) in wanted {
        let has = has.get(field).unwrap_or(&Value::Null);
        if wanted.is_null() {
            all.remove(field);
        } else if !shows(has, wanted) {
            all.insert(field.clone(), overlaid(has, wanted));
        }
    }
    Value::Object(all)
}

/// Returns `value` without the nulls in its objects. `None` if `value` itself is null.
fn without_nulls(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(fields) => {
            let kept = fields.iter().filter_map(|(field, value)| Some((field.clone(), without_nulls(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(elements) => Some(elements.iter().map(|it| without_nulls(it).unwrap_or_default()).collect()),
        value => Some(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ensure_sends_the_smallest_patch() {
        let cases: Vec<Value> = serde_json::from_str(include_str!("../../../cases/ensure.json")).unwrap();
        for case in &cases {
            let (cached, desired) = (&case["cached"], &case["desired"]);
            assert_eq!(other_controller(cached, desired).as_deref(), case["controlledBy"].as_str(), "{}", case["name"]);
            if case["controlledBy"].is_null() {
                let patch = patch(cached, desired);
                assert_eq!(patch.as_ref(), Some(&case["patch"]).filter(|it| !it.is_null()), "{}", case["name"]);
                let version = patch.and_then(|patch| version(cached, &patch));
                assert_eq!(version.as_deref(), case["version"].as_str(), "{}", case["name"]);
            }
        }
    }

    #[test]
    fn an_object_without_a_name_is_refused_before_any_read() {
        let error = ensure(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}})).unwrap_err();
        assert_eq!(error.to_string(), "an object to write: metadata.name is missing");
    }
}
