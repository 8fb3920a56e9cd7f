//! Converts JSON to the values that expressions see.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::super::format::Format;
use super::super::{Additional, Kind, ListKind, Mark, Node};
use super::declared::escaped;
use crate::cel::{self, Key, KeyedList, Mistyped};

/// Converts the value of a node. `None` if expressions cannot see it.
pub(super) fn value_of(node: &Node, value: &Value, is_resource: bool) -> Option<cel::Value> {
    if node.is(Mark::IntOrString) {
        return Some(scalar(node, value));
    }
    node.kind?;
    Some(match value {
        Value::Array(list) => {
            let items = node.items.as_deref()?;
            let list = Arc::new(list.iter().filter_map(|item| value_of(items, item, false)).collect());
            match &node.list {
                ListKind::Atomic => cel::Value::List(list),
                ListKind::Set => keyed(list, Vec::new()),
                ListKind::Map(keys) => keyed(list, keys.iter().filter_map(|key| escaped(key)).collect()),
            }
        }
        Value::Object(fields) => object(node, fields, is_resource || node.is(Mark::EmbeddedResource)),
        other => scalar(node, other),
    })
}

fn keyed(items: Arc<Vec<cel::Value>>, keys: Vec<String>) -> cel::Value {
    cel::Value::Opaque(Arc::new(KeyedList { items, keys }))
}

fn object(node: &Node, fields: &Map<String, Value>, is_resource: bool) -> cel::Value {
    let mut found = HashMap::with_capacity(fields.len());
    for (name, field) in fields {
        if is_resource && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            found.insert(key(name), resource_field(field));
            continue;
        }
        let pair = match (node.properties.get(name), &node.additional) {
            // A null field counts as missing.
            (Some(_), _) if field.is_null() => None,
            (Some(property), _) => escaped(name).zip(value_of(property, field, false)),
            (None, Additional::Like(below)) => value_of(below, field, false).map(|value| (name.clone(), value)),
            (None, _) => None,
        };
        found.extend(pair.map(|(name, value)| (key(&name), value)));
    }
    cel::Value::Map(cel::Map { map: Arc::new(found) })
}

fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}

/// Converts `apiVersion`, `kind`, or `metadata` with its names.
fn resource_field(field: &Value) -> cel::Value {
    match field {
        Value::Object(metadata) => {
            let names = ["name", "generateName"].into_iter();
            let found = names.filter_map(|name| Some((key(name), text(metadata.get(name)?.as_str()?))));
            cel::Value::Map(cel::Map { map: Arc::new(found.collect()) })
        }
        other => text(other.as_str().unwrap_or_default()),
    }
}

fn text(value: &str) -> cel::Value {
    cel::Value::String(Arc::new(value.to_owned()))
}

fn scalar(node: &Node, value: &Value) -> cel::Value {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => cel::Value::Null,
        Value::Bool(flag) => cel::Value::Bool(*flag),
        Value::Number(found) => number(node, found),
        Value::String(found) => formatted(node, found),
    }
}

/// Converts a number, like `UnstructuredToVal` of `apiserver/pkg/cel/common`: a float never becomes an integer, even
/// without a fraction.
fn number(node: &Node, number: &Number) -> cel::Value {
    match (number.as_i64(), number.as_f64()) {
        (_, Some(float)) if node.kind == Some(Kind::Number) => cel::Value::Float(float),
        (Some(whole), _) => cel::Value::Int(whole),
        (None, _) if node.is(Mark::IntOrString) => {
            mistyped("invalid data, expected XIntOrString value to be either a string or integer")
        }
        (None, _) => mistyped("invalid data, expected int, got float64"),
    }
}

fn mistyped(why: &'static str) -> cel::Value {
    cel::Value::Opaque(Arc::new(Mistyped(why)))
}

/// Converts a text with a format to the CEL type of the format. A malformed text stays a text, because validation has
/// already refused it.
fn formatted(node: &Node, found: &str) -> cel::Value {
    let read = |function: &str, found: String| cel::library_call(function, None, vec![text(&found)]).ok();
    let value = match node.checks.format.as_ref().map(|format| format.name.as_str()) {
        Some("date-time") => read("timestamp", found.to_owned()),
        Some("date") => read("timestamp", format!("{found}T00:00:00Z")),
        Some("duration") => {
            Format::duration(found).and_then(|nanoseconds| read("duration", format!("{nanoseconds}ns")))
        }
        Some("byte") => read("base64.decode", found.to_owned()),
        _ => None,
    };
    value.unwrap_or_else(|| text(found))
}
