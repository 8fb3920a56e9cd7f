//! Converts an object's JSON directly to the bytes of its message. Fields are in the order of their numbers and map
//! entries in the order of their keys, as in Go's generated code. So the same object always gives the same bytes.
//! Unknown fields and nulls are left out.

use std::fmt;

use serde_json::Value;

use super::ProtobufError;
use super::messages::{Cardinality, FieldKind, FieldType, MessageType, Messages};
use super::shape::{self, Shape};
use super::wire;
use crate::object::decode_base64;

/// The place of a value in its object. It is formatted only if there is an error.
#[derive(Clone, Copy)]
pub(super) enum FieldPlace<'a> {
    Root(&'a str),
    Field(&'a FieldPlace<'a>, &'a str),
    Item(&'a FieldPlace<'a>, usize),
}

impl fmt::Display for FieldPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPlace::Root(kind) => f.write_str(kind),
            FieldPlace::Field(inside, name) => write!(f, "{inside}.{name}"),
            FieldPlace::Item(list, index) => write!(f, "{list}[{index}]"),
        }
    }
}

fn mistyped(path: FieldPlace, expected: &'static str) -> ProtobufError {
    ProtobufError::Mistyped { field: path.to_string(), expected }
}

/// Writes the message of a value.
pub(super) fn message(
    messages: &Messages,
    of: &MessageType,
    value: &Value,
    path: FieldPlace,
    bytes: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let set = |name: &str, value: &Value, bytes: &mut Vec<u8>| {
        of.named(name).map_or(Ok(()), |named| field(messages, named, value, path, bytes))
    };
    match (of.shape, value) {
        (Shape::Struct, Value::Object(_)) => fields(messages, of, value, path, bytes),
        (Shape::Items, _) => match of.fields.first() {
            Some(items) => field(messages, items, value, path, bytes),
            None => Err(mistyped(path, "nothing")),
        },
        (Shape::Time | Shape::MicroTime, Value::String(text)) => {
            let time = shape::read_time(text, of.shape == Shape::MicroTime).ok_or_else(|| mistyped(path, "a time"))?;
            wire::integer(1, time.seconds, bytes);
            wire::integer(2, time.nanos, bytes);
            Ok(())
        }
        (Shape::Quantity, Value::String(text)) => {
            wire::text(1, text, bytes);
            Ok(())
        }
        // In JSON, a quantity may also be a number.
        (Shape::Quantity, Value::Number(number)) => {
            wire::text(1, &number.to_string(), bytes);
            Ok(())
        }
        (Shape::IntOrString, value) => int_or_string(value, path, bytes),
        (Shape::Raw, value) => {
            wire::delimited(1, bytes, |bytes| serde_json::to_writer(bytes, value).map_err(|_| mistyped(path, "JSON")))
        }
        (Shape::SchemaOrList, Value::Array(_)) => set("jSONSchemas", value, bytes),
        (Shape::SchemaOrBool, Value::Bool(_)) => set("allows", value, bytes),
        (Shape::SchemaOrBool, Value::Object(_)) => {
            set("allows", &Value::Bool(true), bytes)?;
            set("schema", value, bytes)
        }
        (Shape::SchemaOrNames, Value::Array(_)) => set("property", value, bytes),
        (Shape::SchemaOrList | Shape::SchemaOrNames, Value::Object(_)) => set("schema", value, bytes),
        (shape, _) => Err(mistyped(path, expected(shape))),
    }
}

fn expected(shape: Shape) -> &'static str {
    match shape {
        Shape::Time | Shape::MicroTime => "a time",
        Shape::Quantity => "a quantity",
        Shape::IntOrString => "a number of 32 bits or a text",
        Shape::Items => "a list or a map",
        Shape::SchemaOrBool | Shape::SchemaOrList | Shape::SchemaOrNames => "a schema",
        Shape::Struct | Shape::Raw => "an object",
    }
}

/// `intstr.IntOrString`. Go writes all its fields.
fn int_or_string(value: &Value, path: FieldPlace, bytes: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let as_int = value.as_i64().and_then(|number| i32::try_from(number).ok());
    let (is_text, number, text) = match (as_int, value.as_str()) {
        (Some(number), _) => (0, number, ""),
        (None, Some(text)) => (1, 0, text),
        (None, None) => return Err(mistyped(path, expected(Shape::IntOrString))),
    };
    wire::integer(1, is_text, bytes);
    wire::integer(2, number.into(), bytes);
    wire::text(3, text, bytes);
    Ok(())
}

/// Writes the fields of an object. Iterates over its own few entries, not over all fields that the message could have.
fn fields(
    messages: &Messages,
    of: &MessageType,
    object: &Value,
    path: FieldPlace,
    bytes: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let Some(entries) = object.as_object() else { return Ok(()) };
    let mut present: Vec<(usize, &Value)> = Vec::with_capacity(entries.len() + of.inlined.len());
    of.places(entries, |place, value| present.push((place, value)));
    present.extend(of.inlined.iter().map(|place| (*place, object)));
    present.sort_unstable_by_key(|(place, _)| *place);
    for (place, value) in present {
        let known = &of.fields[place];
        if known.inline {
            field(messages, known, value, path, bytes)?;
        } else if !value.is_null() {
            field(messages, known, value, FieldPlace::Field(&path, &known.json), bytes)?;
        }
    }
    Ok(())
}

/// Writes a field. A list or map is written as one field for each item or entry.
pub(super) fn field(
    messages: &Messages,
    of: &FieldType,
    value: &Value,
    path: FieldPlace,
    bytes: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    match of.cardinality {
        Cardinality::One => one(messages, of, of.number, value, path, bytes),
        Cardinality::List => {
            let items = value.as_array().ok_or_else(|| mistyped(path, "a list"))?;
            let mut numbered = items.iter().enumerate();
            numbered
                .try_for_each(|(index, item)| one(messages, of, of.number, item, FieldPlace::Item(&path, index), bytes))
        }
        Cardinality::Map => {
            let entries = value.as_object().ok_or_else(|| mistyped(path, "a map"))?;
            // The entries are already sorted by key.
            entries.iter().try_for_each(|(key, value)| {
                wire::delimited(of.number, bytes, |bytes| {
                    wire::text(1, key, bytes);
                    one(messages, of, 2, value, path, bytes)
                })
            })
        }
    }
}

/// Writes a value other than a list or a map. Null is written as the zero value, as in Go.
fn one(
    messages: &Messages,
    of: &FieldType,
    number: u32,
    value: &Value,
    path: FieldPlace,
    bytes: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let given = |expected| move || mistyped(path, expected);
    match (of.kind, value) {
        (FieldKind::Message(inner), value) => {
            return wire::delimited(number, bytes, |bytes| match value {
                Value::Null => Ok(()),
                value => message(messages, messages.at(inner), value, path, bytes),
            });
        }
        (FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64, Value::Null) => wire::integer(number, 0, bytes),
        (FieldKind::Double, Value::Null) => wire::double(number, 0.0, bytes),
        (FieldKind::String | FieldKind::Bytes, Value::Null) => wire::text(number, "", bytes),
        (FieldKind::Bool, value) => wire::integer(number, value.as_bool().ok_or_else(given("a bool"))?.into(), bytes),
        (FieldKind::String, value) => wire::text(number, value.as_str().ok_or_else(given("a text"))?, bytes),
        (FieldKind::Bytes, value) => {
            let content = value.as_str().and_then(decode_base64).ok_or_else(given("base64"))?;
            wire::bytes(number, &content, bytes);
        }
        (FieldKind::Double, value) => wire::double(number, value.as_f64().ok_or_else(given("a number"))?, bytes),
        (FieldKind::Int32, value) => {
            let whole = integer(value).and_then(|number| i32::try_from(number).ok());
            wire::integer(number, whole.ok_or_else(given("a number of 32 bits"))?.into(), bytes);
        }
        (FieldKind::Int64, value) => {
            wire::integer(number, integer(value).ok_or_else(given("a number of 64 bits"))?, bytes);
        }
    }
    Ok(())
}

/// The value as an integer. A number such as `1.0` counts as one.
fn integer(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "whole, and the cast saturates")]
    let whole = || value.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64);
    value.as_i64().or_else(whole)
}
