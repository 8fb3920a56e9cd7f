//! The cells in rows of built-in kinds. Most cells show a field, unchanged or summarized.

use serde_json::{Value, json};

use super::texts::{all_labels, or_none};
use crate::clock::Moment;
use crate::object::{self, items, text};
use crate::verbs::scale::selector_text;

/// A cell. Most variants have JSON pointers to fields of the object.
pub(in crate::server) enum Cell {
    Name,
    Age,
    /// The creation timestamp itself.
    Created,
    /// The field as a text. If it is missing or empty, the second argument.
    Text(&'static str, &'static str),
    /// The field, or 0 if it is missing.
    Number(&'static str),
    /// The field, or the second argument if the field is missing.
    Flag(&'static str, bool),
    /// The field unchanged. If it is missing, the second argument as a text.
    Raw(&'static str, &'static str),
    /// The total number of entries in these lists and maps.
    Count(&'static [&'static str]),
    /// The list, and a field of its items: the field's values joined by commas. If the list is empty, the third
    /// argument.
    Each(&'static str, &'static str, &'static str),
    /// A map of strings as `key=value,key=value`.
    Labels(&'static str),
    /// A `metav1.LabelSelector`.
    Selector(&'static str),
    By(fn(&Value) -> String),
    At(fn(&Value, Moment) -> String),
    CountBy(fn(&Value) -> i64),
}

impl Cell {
    pub(super) fn of(&self, object: &Value, now: Moment) -> Value {
        let found = |pointer: &str| object.pointer(pointer).filter(|value| !value.is_null());
        match *self {
            Cell::Name => json!(object::name(object)),
            Cell::Age => json!(now.age(text(object, "/metadata/creationTimestamp"))),
            Cell::Created => json!(text(object, "/metadata/creationTimestamp")),
            Cell::Text(pointer, other) => match found(pointer) {
                None => json!(other),
                Some(Value::String(text)) if text.is_empty() => json!(other),
                Some(Value::String(text)) => json!(text),
                Some(value) => json!(value.to_string()),
            },
            Cell::Number(pointer) => json!(found(pointer).and_then(Value::as_i64).unwrap_or(0)),
            Cell::Flag(pointer, other) => json!(found(pointer).and_then(Value::as_bool).unwrap_or(other)),
            Cell::Raw(pointer, other) => found(pointer).cloned().unwrap_or_else(|| json!(other)),
            Cell::Count(pointers) => json!(pointers.iter().map(|pointer| entries(found(pointer))).sum::<usize>()),
            Cell::Each(pointer, field, other) => {
                let texts: Vec<&str> = items(object, pointer).iter().map(|item| text(item, field)).collect();
                json!(if texts.is_empty() { other.to_owned() } else { texts.join(",") })
            }
            Cell::Labels(pointer) => json!(all_labels(found(pointer))),
            Cell::Selector(pointer) => json!(or_none(found(pointer).map(selector_text).unwrap_or_default())),
            Cell::By(text) => json!(text(object)),
            Cell::At(text) => json!(text(object, now)),
            Cell::CountBy(count) => json!(count(object)),
        }
    }
}

fn entries(value: Option<&Value>) -> usize {
    match value {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        _ => 0,
    }
}
