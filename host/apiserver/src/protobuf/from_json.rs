//! From an object's JSON to its message. What the message does not know is left out, and so is what is null.

use prost_reflect::{DynamicMessage, Kind, MapKey, Value as Field};
use serde_json::Value;

use super::ProtobufError;
use super::messages::{FieldType, MessageType, Messages};
use super::shape::{self, Shape};
use crate::object::decode_base64;

/// The message of a value; `path` names it in errors.
pub(super) fn message(
    messages: &Messages,
    of: &MessageType,
    value: &Value,
    path: &str,
) -> Result<DynamicMessage, ProtobufError> {
    let mut message = DynamicMessage::new(of.descriptor.clone());
    let mistyped = |expected| ProtobufError::Mistyped { field: path.to_owned(), expected };
    let mut set = |name: &str, value: &Value| set_named(messages, of, &mut message, name, value, path);
    let understood = match (of.shape, value) {
        (Shape::Struct, Value::Object(_)) => {
            fill(messages, of, value, path, &mut message)?;
            true
        }
        (Shape::Items, _) => {
            let items = of.fields.first().ok_or_else(|| mistyped("nothing"))?;
            set_field(messages, items, &mut message, value, path)?;
            true
        }
        (Shape::Time, Value::String(text)) => shape::set_time(&mut message, text, false),
        (Shape::MicroTime, Value::String(text)) => shape::set_time(&mut message, text, true),
        (Shape::Quantity, Value::String(_)) => set("string", value)?,
        // People may write a quantity as a number.
        (Shape::Quantity, Value::Number(number)) => set("string", &Value::String(number.to_string()))?,
        (Shape::IntOrString, value) => shape::set_int_or_string(&mut message, value),
        (Shape::Raw, value) => message.try_set_field_by_number(1, Field::Bytes(value.to_string().into())).is_ok(),
        (Shape::SchemaOrList, Value::Array(_)) => set("jSONSchemas", value)?,
        (Shape::SchemaOrBool, Value::Bool(_)) => set("allows", value)?,
        (Shape::SchemaOrBool, Value::Object(_)) => set("allows", &Value::Bool(true))? && set("schema", value)?,
        (Shape::SchemaOrNames, Value::Array(_)) => set("property", value)?,
        (Shape::SchemaOrList | Shape::SchemaOrNames, Value::Object(_)) => set("schema", value)?,
        _ => false,
    };
    if understood { Ok(message) } else { Err(mistyped(expected(of.shape))) }
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

fn set_named(
    messages: &Messages,
    of: &MessageType,
    message: &mut DynamicMessage,
    name: &str,
    value: &Value,
    path: &str,
) -> Result<bool, ProtobufError> {
    let Some(field) = of.fields.iter().find(|field| field.descriptor.name() == name) else { return Ok(false) };
    set_field(messages, field, message, value, path)?;
    Ok(true)
}

fn fill(
    messages: &Messages,
    of: &MessageType,
    object: &Value,
    path: &str,
    message: &mut DynamicMessage,
) -> Result<(), ProtobufError> {
    for field in &of.fields {
        if field.inline {
            set_field(messages, field, message, object, path)?;
            continue;
        }
        match object.get(&field.json) {
            None | Some(Value::Null) => {}
            Some(value) => set_field(messages, field, message, value, &format!("{path}.{}", field.json))?,
        }
    }
    Ok(())
}

fn set_field(
    messages: &Messages,
    field: &FieldType,
    message: &mut DynamicMessage,
    value: &Value,
    path: &str,
) -> Result<(), ProtobufError> {
    let mistyped = |expected| ProtobufError::Mistyped { field: path.to_owned(), expected };
    let descriptor = &field.descriptor;
    let value = if descriptor.is_list() {
        let items = value.as_array().ok_or_else(|| mistyped("a list"))?;
        let kind = descriptor.kind();
        let item = |(index, item)| one(messages, field, &kind, item, &format!("{path}[{index}]"));
        Field::List(items.iter().enumerate().map(item).collect::<Result<_, _>>()?)
    } else if descriptor.is_map() {
        let entries = value.as_object().ok_or_else(|| mistyped("a map"))?;
        let kind = match descriptor.kind() {
            Kind::Message(entry) => entry.map_entry_value_field().kind(),
            other => other,
        };
        let entry = |(key, value): (&String, &Value)| {
            Ok((MapKey::String(key.clone()), one(messages, field, &kind, value, path)?))
        };
        Field::Map(entries.iter().map(entry).collect::<Result<_, ProtobufError>>()?)
    } else {
        one(messages, field, &descriptor.kind(), value, path)?
    };
    message.try_set_field(descriptor, value).map_err(|error| ProtobufError::Descriptions(error.to_string()))
}

/// A value that is no list and no map. Null is the zero value, as for Go.
fn one(messages: &Messages, field: &FieldType, kind: &Kind, value: &Value, path: &str) -> Result<Field, ProtobufError> {
    let mistyped = |expected| ProtobufError::Mistyped { field: path.to_owned(), expected };
    if value.is_null() {
        return Ok(Field::default_value(kind));
    }
    if let Some(inner) = field.message {
        return message(messages, messages.at(inner), value, path).map(Field::Message);
    }
    match kind {
        Kind::Bool => value.as_bool().map(Field::Bool).ok_or_else(|| mistyped("a bool")),
        Kind::String => value.as_str().map(|text| Field::String(text.to_owned())).ok_or_else(|| mistyped("a text")),
        Kind::Bytes => {
            let bytes = value.as_str().and_then(decode_base64);
            bytes.map(|bytes| Field::Bytes(bytes.into())).ok_or_else(|| mistyped("base64"))
        }
        Kind::Double => value.as_f64().map(Field::F64).ok_or_else(|| mistyped("a number")),
        Kind::Int32 => {
            let number = integer(value).and_then(|number| i32::try_from(number).ok());
            number.map(Field::I32).ok_or_else(|| mistyped("a number of 32 bits"))
        }
        Kind::Int64 => integer(value).map(Field::I64).ok_or_else(|| mistyped("a number of 64 bits")),
        // No message of Kubernetes has such a field.
        _ => Err(mistyped("another type")),
    }
}

/// A whole number, also if it is written with a fraction of zeros.
fn integer(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "whole, and the cast saturates")]
    let whole = || value.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64);
    value.as_i64().or_else(whole)
}
