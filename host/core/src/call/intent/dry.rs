//! Computes the result of a write from texts alone: no defaults, no admission, no field ownership. Lists of named
//! items are merged by name and other lists replaced, which is what nearly all schemas say.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::error::ApiReason;
use crate::object::ObjectRef;
use crate::object::owner::controller_reference;
use crate::object::pointer::unescaped;
use crate::write::{Operation, PatchType, WriteOptions};

/// The state of an object, as far as it is known without the server.
#[derive(Clone, Debug, PartialEq)]
pub enum DryState {
    /// No watch covers the object.
    Unknown,
    /// The object does not exist.
    Absent,
    Is(Value),
}

impl DryState {
    /// The state in a cache. `Err` if no cache covers the object.
    #[must_use]
    pub fn of<E>(read: &Result<Option<std::sync::Arc<str>>, E>) -> Self {
        match read {
            Err(_) => Self::Unknown,
            Ok(None) => Self::Absent,
            Ok(Some(text)) => serde_json::from_str(text).map_or(Self::Unknown, Self::Is),
        }
    }

    fn value(&self) -> Value {
        match self {
            Self::Is(value) => value.clone(),
            Self::Unknown | Self::Absent => json!({}),
        }
    }
}

/// The subresource that `operation` writes; empty for the object itself.
pub(super) fn subresource(operation: &Operation) -> &str {
    match operation {
        Operation::Create { options, .. }
        | Operation::Update { options, .. }
        | Operation::Patch { options, .. }
        | Operation::Apply { options, .. } => options.subresource.as_ref().map_or("", |it| &it.name),
        Operation::Delete { .. } => "",
    }
}

/// `operation` as JSON, for comparison with another operation.
pub(super) fn literal(operation: &Operation) -> Value {
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| text.into());
    let body = match operation {
        Operation::Create { object, .. } | Operation::Update { object, .. } | Operation::Apply { object, .. } => {
            json(object)
        }
        Operation::Patch { patch, .. } => json(patch),
        Operation::Delete { .. } => Value::Null,
    };
    json!([operation.verb(), subresource(operation), body])
}

/// The body of an apply, with the owner reference that the host adds.
pub(super) fn body(text: &str, options: &WriteOptions, primary: &ObjectRef) -> Option<Value> {
    let mut body: Value = serde_json::from_str(text).ok().filter(Value::is_object)?;
    if options.owned
        && let Ok(reference) = controller_reference(primary, &primary.key)
    {
        let owners = &mut body["metadata"]["ownerReferences"];
        let mut others = owners.as_array().cloned().unwrap_or_default();
        others.retain(|owner| owner["uid"] != reference["uid"]);
        others.push(reference);
        *owners = others.into();
    }
    Some(body)
}

/// The state of an object after `operation`, which a call about `primary` carries out on the state `before`. `Err` is
/// the reason why the server would refuse the operation, as far as that can be known here. Subresources other than
/// `status` are not computed.
pub fn carried_out(operation: &Operation, before: &DryState, primary: &ObjectRef) -> Result<DryState, ApiReason> {
    let exists = || if *before == DryState::Absent { Err(ApiReason::NotFound) } else { Ok(()) };
    let after = match operation {
        Operation::Delete { .. } => return exists().map(|()| DryState::Absent),
        _ if !matches!(subresource(operation), "" | "status") => return Ok(before.clone()),
        Operation::Create { object, options } => match before {
            DryState::Is(_) => return Err(ApiReason::AlreadyExists),
            DryState::Unknown | DryState::Absent => body(object, options, primary).ok_or(ApiReason::Invalid)?,
        },
        Operation::Update { object, options } => {
            exists()?;
            let mut body = body(object, options, primary).ok_or(ApiReason::Invalid)?;
            let mut now = before.value();
            if options.subresource.is_some() {
                now["status"] = body["status"].take();
                now
            } else {
                if body.get("status").is_none() && now.get("status").is_some() {
                    body["status"] = now["status"].take();
                }
                body
            }
        }
        Operation::Apply { object, options } => {
            let mut now = before.value();
            merge_named(&mut now, &body(object, options, primary).ok_or(ApiReason::Invalid)?);
            now
        }
        Operation::Patch { patch_type, patch, .. } => {
            exists()?;
            let patch = serde_json::from_str(patch).map_err(|_| ApiReason::Invalid)?;
            let mut now = before.value();
            match patch_type {
                PatchType::Merge => merge(&mut now, &patch),
                PatchType::Strategic => merge_named(&mut now, &patch),
                PatchType::Json => operate(&mut now, &patch).ok_or(ApiReason::Invalid)?,
            }
            now
        }
    };
    Ok(DryState::Is(after))
}

/// A JSON merge patch (RFC 7386).
fn merge(now: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *now = patch.clone();
        return;
    };
    let now = as_object(now);
    for (name, patch) in patch {
        if patch.is_null() {
            now.remove(name);
        } else {
            merge(now.entry(name.clone()).or_insert(Value::Null), patch);
        }
    }
}

/// As `merge`, but lists of named items are merged by name.
fn merge_named(now: &mut Value, body: &Value) {
    match (&mut *now, body) {
        (Value::Array(items), Value::Array(wanted)) => {
            let keyed = ["uid", "name", "type"].into_iter().find(|key| is_keyed(items, key) && is_keyed(wanted, key));
            let Some(key) = keyed else {
                wanted.clone_into(items);
                return;
            };
            let places: BTreeMap<_, _> =
                items.iter().enumerate().map(|(place, item)| (item[key].to_string(), place)).collect();
            for item in wanted {
                match places.get(&item[key].to_string()) {
                    Some(place) => merge_named(&mut items[*place], item),
                    None => items.push(item.clone()),
                }
            }
        }
        (_, Value::Object(body)) => {
            let now = as_object(now);
            for (name, body) in body {
                if body.is_null() {
                    now.remove(name);
                } else {
                    merge_named(now.entry(name.clone()).or_insert(Value::Null), body);
                }
            }
        }
        (now, body) => *now = body.clone(),
    }
}

fn is_keyed(items: &[Value], key: &str) -> bool {
    !items.is_empty() && items.iter().all(|item| item[key].is_string())
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it is one now")
}

/// RFC 6902 without `move` and `copy`. `None` if the patch does not fit or has other operations.
fn operate(now: &mut Value, patch: &Value) -> Option<()> {
    for operation in patch.as_array()? {
        let pointer = operation["path"].as_str()?;
        match operation["op"].as_str()? {
            "test" => {
                if now.pointer(pointer)? != operation.get("value")? {
                    return None;
                }
            }
            "replace" => *now.pointer_mut(pointer)? = operation.get("value")?.clone(),
            "add" => add(now, pointer, operation.get("value")?.clone())?,
            "remove" => remove(now, pointer)?,
            _ => return None,
        }
    }
    Some(())
}

fn add(now: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *now = value;
        return Some(());
    }
    let (parent, name) = path.rsplit_once('/')?;
    match now.pointer_mut(parent)? {
        Value::Object(fields) => {
            fields.insert(unescaped(name).into_owned(), value);
        }
        Value::Array(items) if name == "-" => items.push(value),
        Value::Array(items) => {
            let place: usize = name.parse().ok()?;
            if place > items.len() {
                return None;
            }
            items.insert(place, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(now: &mut Value, path: &str) -> Option<()> {
    let (parent, name) = path.rsplit_once('/')?;
    match now.pointer_mut(parent)? {
        Value::Object(fields) => fields.remove(&*unescaped(name)).map(drop),
        Value::Array(items) => {
            let place: usize = name.parse().ok()?;
            (place < items.len()).then(|| drop(items.remove(place)))
        }
        _ => None,
    }
}
