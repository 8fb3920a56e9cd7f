//! From a message to the JSON that encoding/json makes of the Go type: empty fields are left out where their tags say so,
//! and written as zero or null where not.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use prost_reflect::{DynamicMessage, Kind, MapKey, Value as Field};
use serde_json::{Map, Value, json};

use super::ProtobufError;
use super::messages::{FieldType, MessageType, Messages};
use super::shape::{self, Shape};
use crate::object::is_go_zero;

/// Reads a message from its bytes.
pub(super) fn read(message: &MessageType, bytes: &[u8]) -> Result<DynamicMessage, ProtobufError> {
    DynamicMessage::decode(message.descriptor.clone(), bytes)
        .map_err(|error| ProtobufError::Malformed(error.to_string()))
}

/// The fields of a struct; `path` names it in errors.
pub(super) fn object(
    messages: &Messages,
    of: &MessageType,
    message: &DynamicMessage,
    path: &str,
) -> Result<Map<String, Value>, ProtobufError> {
    let mut object = Map::new();
    for field in &of.fields {
        if let (true, Some(inner)) = (field.inline, field.message) {
            let inner = messages.at(inner);
            let empty = DynamicMessage::new(inner.descriptor.clone());
            let found = message.get_field(&field.descriptor);
            object.extend(self::object(messages, inner, found.as_message().unwrap_or(&empty), path)?);
        } else if let Some(value) = field_value(messages, field, message, path)? {
            object.insert(field.json.clone(), value);
        }
    }
    Ok(object)
}

fn any(messages: &Messages, of: &MessageType, message: &DynamicMessage, path: &str) -> Result<Value, ProtobufError> {
    let member = |name: &str| {
        let field = of.fields.iter().find(|field| field.descriptor.name() == name)?;
        let is_there = message.has_field(&field.descriptor);
        is_there.then(|| present(messages, field, &message.get_field(&field.descriptor), path))
    };
    let or_absent = |value: Option<Result<Value, ProtobufError>>| value.unwrap_or(Ok(Value::Null));
    Ok(match of.shape {
        Shape::Struct => Value::Object(object(messages, of, message, path)?),
        Shape::Items => match of.fields.first() {
            // An empty slice and none are different messages, if the first is written at all.
            Some(items) => present(messages, items, &message.get_field(&items.descriptor), path)?,
            None => Value::Null,
        },
        Shape::Time => shape::time(message, false),
        Shape::MicroTime => shape::time(message, true),
        Shape::Quantity => match shape::string(message, "string").as_str() {
            "" => json!("0"),
            text => json!(text),
        },
        Shape::IntOrString => shape::int_or_string(message),
        Shape::Raw => {
            let error =
                |error: serde_json::Error| ProtobufError::Json { field: path.to_owned(), error: error.to_string() };
            shape::raw(message).map_err(error)?
        }
        Shape::SchemaOrList => or_absent(member("jSONSchemas").or_else(|| member("schema")))?,
        Shape::SchemaOrBool => member("schema").or_else(|| member("allows")).unwrap_or(Ok(json!(false)))?,
        Shape::SchemaOrNames => or_absent(member("property").or_else(|| member("schema")))?,
    })
}

/// The field's value, or none if encoding/json leaves it out.
fn field_value(
    messages: &Messages,
    field: &FieldType,
    message: &DynamicMessage,
    path: &str,
) -> Result<Option<Value>, ProtobufError> {
    let descriptor = &field.descriptor;
    let is_present = message.has_field(descriptor);
    let omitted = field.omitempty || field.omitzero;
    let or_null = || if omitted { None } else { Some(Value::Null) };
    let is_collection = descriptor.is_list() || descriptor.is_map();
    if !is_present && (is_collection || field.pointer) {
        return Ok(or_null());
    }
    let value = present(messages, field, &message.get_field(descriptor), &format!("{path}.{}", field.json))?;
    if is_collection {
        return Ok(Some(value));
    }
    let is_struct = field.message.is_some_and(|inner| messages.at(inner).shape != Shape::Items);
    Ok(match &value {
        // A pointer that is there is written whatever it points to.
        _ if field.pointer => Some(value),
        // A struct is never empty; only a zero time can be left out.
        _ if is_struct => (!field.omitzero || is_present && !value.is_null()).then_some(value),
        _ if is_go_zero(&value) && omitted => None,
        // A slice that is not there.
        Value::Array(_) if !is_present => Some(Value::Null),
        Value::String(_) if !is_present && descriptor.kind() == Kind::Bytes => Some(Value::Null),
        _ => Some(value),
    })
}

fn present(messages: &Messages, field: &FieldType, value: &Field, path: &str) -> Result<Value, ProtobufError> {
    let one = |value: &Field| match (value, field.message) {
        (Field::Message(message), Some(inner)) => any(messages, messages.at(inner), message, path),
        (other, _) => Ok(scalar(other)),
    };
    match value {
        Field::List(items) => items.iter().map(one).collect::<Result<_, _>>().map(Value::Array),
        Field::Map(entries) => {
            let entry = |(key, value): (&MapKey, &Field)| {
                one(value).map(|value| (key.as_str().unwrap_or_default().to_owned(), value))
            };
            entries.iter().map(entry).collect::<Result<_, _>>().map(Value::Object)
        }
        other => one(other),
    }
}

fn scalar(value: &Field) -> Value {
    match value {
        Field::Bool(value) => json!(value),
        Field::I32(number) => json!(number),
        Field::I64(number) => json!(number),
        Field::F64(number) => float(*number),
        Field::String(text) => json!(text),
        Field::Bytes(bytes) => json!(BASE64_STANDARD.encode(bytes)),
        // No message of Kubernetes has another.
        _ => Value::Null,
    }
}

/// Go writes a whole float without a fraction.
fn float(number: f64) -> Value {
    const WHOLE: f64 = 1e15;
    #[expect(clippy::cast_possible_truncation, reason = "whole and small enough")]
    if number.fract() == 0.0 && number.abs() < WHOLE { json!(number as i64) } else { json!(number) }
}
