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

/// The fields of a struct.
pub(super) fn object(messages: &Messages, of: &MessageType, message: &DynamicMessage) -> Map<String, Value> {
    let mut object = Map::new();
    for field in &of.fields {
        if let (true, Some(inner)) = (field.inline, field.message) {
            let inner = messages.at(inner);
            let empty = DynamicMessage::new(inner.descriptor.clone());
            let found = message.get_field(&field.descriptor);
            object.extend(self::object(messages, inner, found.as_message().unwrap_or(&empty)));
        } else if let Some(value) = field_value(messages, field, message) {
            object.insert(field.json.clone(), value);
        }
    }
    object
}

fn any(messages: &Messages, of: &MessageType, message: &DynamicMessage) -> Value {
    let member = |name: &str| {
        let field = of.fields.iter().find(|field| field.descriptor.name() == name)?;
        message.has_field(&field.descriptor).then(|| present(messages, field, &message.get_field(&field.descriptor)))
    };
    match of.shape {
        Shape::Struct => Value::Object(object(messages, of, message)),
        Shape::Items => of.fields.first().map_or(Value::Null, |items| {
            // An empty slice and none are different messages, if the first is written at all.
            present(messages, items, &message.get_field(&items.descriptor))
        }),
        Shape::Time => shape::time(message, false),
        Shape::MicroTime => shape::time(message, true),
        Shape::Quantity => match shape::string(message, "string").as_str() {
            "" => json!("0"),
            text => json!(text),
        },
        Shape::IntOrString => shape::int_or_string(message),
        Shape::Raw => shape::raw(message),
        Shape::SchemaOrList => member("jSONSchemas").or_else(|| member("schema")).unwrap_or_default(),
        Shape::SchemaOrBool => member("schema").or_else(|| member("allows")).unwrap_or(json!(false)),
        Shape::SchemaOrNames => member("property").or_else(|| member("schema")).unwrap_or_default(),
    }
}

/// The field's value, or none if encoding/json leaves it out.
fn field_value(messages: &Messages, field: &FieldType, message: &DynamicMessage) -> Option<Value> {
    let descriptor = &field.descriptor;
    let is_present = message.has_field(descriptor);
    let omitted = field.omitempty || field.omitzero;
    let or_null = || if omitted { None } else { Some(Value::Null) };
    if descriptor.is_list() || descriptor.is_map() {
        return if is_present { Some(present(messages, field, &message.get_field(descriptor))) } else { or_null() };
    }
    if field.pointer && !is_present {
        return or_null();
    }
    let value = present(messages, field, &message.get_field(descriptor));
    let is_struct = field.message.is_some_and(|inner| messages.at(inner).shape != Shape::Items);
    match &value {
        // A pointer that is there is written whatever it points to.
        _ if field.pointer => Some(value),
        // A struct is never empty; only a zero time can be left out.
        _ if is_struct => (!field.omitzero || is_present && !value.is_null()).then_some(value),
        _ if is_go_zero(&value) && omitted => None,
        // A slice that is not there.
        Value::Array(_) if !is_present => Some(Value::Null),
        Value::String(_) if !is_present && descriptor.kind() == Kind::Bytes => Some(Value::Null),
        _ => Some(value),
    }
}

fn present(messages: &Messages, field: &FieldType, value: &Field) -> Value {
    let one = |value: &Field| match (value, field.message) {
        (Field::Message(message), Some(inner)) => any(messages, messages.at(inner), message),
        (other, _) => scalar(other),
    };
    match value {
        Field::List(items) => Value::Array(items.iter().map(one).collect()),
        Field::Map(entries) => {
            let key = |key: &MapKey| key.as_str().unwrap_or_default().to_owned();
            Value::Object(entries.iter().map(|(name, value)| (key(name), one(value))).collect())
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
