//! Decides whether a write would provably leave an object unchanged, from texts alone (ADR 5). In doubt, the answer is
//! no: an unneeded write costs a request, but a missing write is a bug that is hard to find.
//!
//! For an apply, the fields in the body must be exactly those that the manager owns from its last apply, with equal
//! values. `managedFields` lists the owned fields, but that is not enough: a map or list that is owned as a leaf may be
//! atomic, or it may be granular and have been empty when it was applied. Only the schema decides which, so the answers
//! to applies teach it ([`Atomic::learn`]).

mod view;

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::object::Object;

pub use self::view::SkipView;

/// The maximum number of remembered places, because a plugin may invent any number of fields.
const KNOWN_PLACES_MAX: usize = 1_000;
/// The longest remembered place, in bytes. A plugin chooses the names of its fields.
const KNOWN_PLACE_BYTES_MAX: usize = 512;
/// The longest list whose items are matched with each other. For a list as long as an object can hold, this would take
/// minutes.
const COMPARED_ITEMS_MAX: usize = 256;
/// Separates the names of a place.
const SEPARATOR: char = '\u{1f}';

/// The owner of the fields that an apply sets.
#[derive(Clone, Copy, Debug)]
pub struct Manager<'a> {
    pub name: &'a str,
    /// The subresource that is applied. Empty for the object itself.
    pub subresource: &'a str,
}

/// The places of one kind that are known to hold an atomic map or list, which is owned and replaced as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Atomic(HashSet<String>);

impl Atomic {
    /// Learns from `left`, the object as the apply of `body` left it.
    pub fn learn(&mut self, body: &str, manager: Manager<'_>, left: &Object) {
        let parsed = parts(body).and_then(|body| Some((body, owned(left, manager)?)));
        if let Some((body, owned)) = parsed {
            self.walk(&body.fields, &owned, &mut String::new());
        }
    }

    /// Adds what `other` has learnt.
    pub fn merge(&mut self, other: Self) {
        for place in other.0 {
            if self.0.len() < KNOWN_PLACES_MAX {
                self.0.insert(place);
            }
        }
    }

    /// Marks as atomic every non-empty map and list of `body` that is owned as a leaf.
    fn walk(&mut self, body: &Value, owned: &Map<String, Value>, place: &mut String) {
        if owned.is_empty() {
            if !is_plain(body) && self.0.len() < KNOWN_PLACES_MAX && place.len() <= KNOWN_PLACE_BYTES_MAX {
                self.0.insert(place.clone());
            }
            return;
        }
        for (name, below) in owned {
            let Some(below) = below.as_object() else { continue };
            match body {
                Value::Object(fields) => {
                    let Some((name, value)) = name.strip_prefix("f:").and_then(|name| Some((name, fields.get(name)?)))
                    else {
                        continue;
                    };
                    within(place, name, |place| self.walk(value, below, place));
                }
                Value::Array(items) if items.len() <= COMPARED_ITEMS_MAX => {
                    let item = item_of(name).and_then(|item| items.iter().find(|value| item.may_be(value)));
                    if let (Some(value), Some(below)) = (item, of_item(below)) {
                        within(place, "", |place| self.walk(value, &below, place));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether the apply of `body` by `manager` would leave `object` unchanged.
#[must_use]
pub fn apply_changes_nothing(body: &str, manager: Manager<'_>, object: &Object, atomic: &Atomic) -> bool {
    let (Some(body), Some(owned), Some(now)) = (parts(body), owned(object, manager), parts(&object.text())) else {
        return false;
    };
    let is_meant = body.uid.as_deref().is_none_or(|uid| object.header.uid.is(uid))
        && body.version.is_none_or(|version| object.header.version.to_string() == version)
        && (&body.api_version, &body.kind) == (&now.api_version, &now.kind);
    is_meant && Same { atomic }.is(&body.fields, &owned, &now.fields, &mut String::new())
}

/// Whether the merge patch `patch` would leave `object` unchanged.
#[must_use]
pub fn merge_changes_nothing(patch: &str, object: &Object) -> bool {
    let (Some(patch), Some(now)) = (json(patch), json(&object.text())) else { return false };
    !names_managers(&patch) && is_merged(&patch, &now)
}

/// Whether an update to `body` would leave `object` unchanged.
#[must_use]
pub fn update_changes_nothing(body: &str, object: &Object) -> bool {
    let (Some(body), Some(mut now)) = (json(body), json(&object.text())) else { return false };
    if let Some(metadata) = now["metadata"].as_object_mut() {
        // A watch may keep `managedFields`, and a body without them leaves them unchanged.
        metadata.remove("managedFields");
        if body["metadata"].get("resourceVersion").is_none() {
            metadata.remove("resourceVersion");
        }
    }
    !names_managers(&body) && body == now
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// Few caches keep `managedFields`, so a body that sets them is not compared.
fn names_managers(body: &Value) -> bool {
    body["metadata"].get("managedFields").is_some()
}

/// Whether a merge patch (RFC 7386) changes nothing. A null means that the field must be absent.
fn is_merged(patch: &Value, now: &Value) -> bool {
    match (patch, now) {
        (Value::Object(patch), Value::Object(now)) => patch.iter().all(|(name, patch)| match (patch, now.get(name)) {
            (Value::Null, now) => now.is_none(),
            (_, None) => false,
            (patch, Some(now)) => is_merged(patch, now),
        }),
        (Value::Object(_), _) => false,
        (patch, now) => patch == now,
    }
}

/// An object without the fields that no manager can own.
struct ObjectParts {
    api_version: Value,
    kind: Value,
    uid: Option<String>,
    version: Option<String>,
    fields: Value,
}

fn parts(text: &str) -> Option<ObjectParts> {
    let Value::Object(mut fields) = json(text)? else { return None };
    let api_version = fields.remove("apiVersion")?;
    let kind = fields.remove("kind")?;
    let metadata = fields.get_mut("metadata")?.as_object_mut()?;
    metadata.remove("name");
    metadata.remove("namespace");
    let mut text = |name| match metadata.remove(name) {
        None => Some(None),
        Some(Value::String(text)) => Some(Some(text)),
        Some(_) => None,
    };
    let (uid, version) = (text("uid")?, text("resourceVersion")?);
    if metadata.is_empty() {
        fields.remove("metadata");
    }
    Some(ObjectParts { api_version, kind, uid, version, fields: Value::Object(fields) })
}

/// The fields that `manager` owns from its last apply, in the object's API version.
fn owned(object: &Object, manager: Manager<'_>) -> Option<Map<String, Value>> {
    let entries: Vec<Value> = serde_json::from_str(object.header.own_fields.as_deref()?).ok()?;
    let is_its = |entry: &&Value| {
        entry["manager"] == manager.name
            && entry["operation"] == "Apply"
            && entry["subresource"].as_str().unwrap_or_default() == manager.subresource
    };
    let mut its = entries.iter().filter(is_its);
    let (Some(entry), None) = (its.next(), its.next()) else { return None };
    let is_of_version = entry["apiVersion"] == *api_version(&object.text())? && entry["fieldsType"] == "FieldsV1";
    is_of_version.then(|| entry["fieldsV1"].as_object().cloned()).flatten()
}

/// The `apiVersion` of an object, without parsing other fields into memory.
fn api_version(text: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Versioned<'a> {
        #[serde(borrow)]
        api_version: Cow<'a, str>,
    }
    Some(serde_json::from_str::<Versioned<'_>>(text).ok()?.api_version)
}

/// Whether the value is owned as a leaf, whatever the schema says.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    }
}

/// How `managedFields` identify an item of a list.
enum FieldItem {
    /// The item is identified by the values of some of its fields.
    Keyed(Map<String, Value>),
    Valued(Value),
}

fn item_of(name: &str) -> Option<FieldItem> {
    if let Some(key) = name.strip_prefix("k:") {
        return serde_json::from_str(key).ok().map(FieldItem::Keyed);
    }
    name.strip_prefix("v:").and_then(|value| serde_json::from_str(value).ok()).map(FieldItem::Valued)
}

impl FieldItem {
    /// Whether this description of an item fits `value`.
    fn is(&self, value: &Value) -> bool {
        match self {
            Self::Keyed(key) => key.iter().all(|(name, of)| value.get(name) == Some(of)),
            Self::Valued(own) => own == value,
        }
    }

    /// As [`Self::is`], but the schema may add a key that `value` lacks.
    fn may_be(&self, value: &Value) -> bool {
        match self {
            Self::Keyed(key) => {
                value.is_object() && key.iter().all(|(name, of)| value.get(name).is_none_or(|own| own == of))
            }
            Self::Valued(own) => own == value,
        }
    }
}

/// The owned part of an item: the whole item as a leaf, or some of its fields and its presence. `None` for anything
/// else.
fn of_item(owned: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut fields = owned.clone();
    let is_there = fields.remove(".").is_some();
    (is_there != fields.is_empty()).then_some(fields)
}

fn within<T>(place: &mut String, name: &str, visit: impl FnOnce(&mut String) -> T) -> T {
    let length = place.len();
    place.push(SEPARATOR);
    place.push_str(name);
    let result = visit(place);
    place.truncate(length);
    result
}

/// Compares the fields that a body sets with the owned fields and with the current values.
struct Same<'a> {
    atomic: &'a Atomic,
}

impl Same<'_> {
    fn is(&self, body: &Value, owned: &Map<String, Value>, now: &Value, place: &mut String) -> bool {
        if body.is_null() {
            return false;
        }
        if owned.is_empty() {
            return (is_plain(body) || self.atomic.0.contains(place)) && body == now;
        }
        match (body, now) {
            (Value::Object(body), Value::Object(now)) => {
                body.len() == owned.len()
                    && owned.iter().all(|(name, below)| {
                        let Some(name) = name.strip_prefix("f:") else { return false };
                        let (Some(below), Some(value), Some(now)) = (below.as_object(), body.get(name), now.get(name))
                        else {
                            return false;
                        };
                        within(place, name, |place| self.is(value, below, now, place))
                    })
            }
            (Value::Array(body), Value::Array(now)) => self.are(body, owned, now, place),
            _ => false,
        }
    }

    /// Compares all items at their positions. If other managers have items too, a merge may move them.
    fn are(&self, body: &[Value], owned: &Map<String, Value>, now: &[Value], place: &mut String) -> bool {
        body.len() <= COMPARED_ITEMS_MAX
            && body.len() == owned.len()
            && body.len() == now.len()
            && owned.iter().all(|(name, below)| {
                let (Some(item), Some(below)) = (item_of(name), below.as_object()) else { return false };
                let mut at = (0..body.len()).filter(|at| item.may_be(&body[*at]));
                let (Some(at), None) = (at.next(), at.next()) else { return false };
                let Some(below) = of_item(below) else { return false };
                item.is(&now[at]) && within(place, "", |place| self.is(&body[at], &below, &now[at], place))
            })
    }
}

#[cfg(test)]
mod tests;
