//! Converts the bytes of a message to the JSON that encoding/json would write for the Go type. An empty field is left
//! out if its tag says so; otherwise it is written as zero or null.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::ProtobufError;
use super::measure::PROTOBUF_DEPTH_MAX;
use super::messages::{Cardinality, FieldKind, FieldType, MessageType, Messages};
use super::shape::{self, Shape};
use super::wire::{self, Content, WireError};
use crate::object::is_go_zero;

/// The place of a message in its object. Errors show it, and it limits depth and memory.
#[derive(Clone, Copy)]
pub(super) struct MessagePlace<'a> {
    above: Option<&'a MessagePlace<'a>>,
    name: &'a str,
    depth: usize,
    /// True if this message, or one that contains it, came in several parts and is read from a merged copy.
    is_copy: bool,
}

impl<'a> MessagePlace<'a> {
    pub(super) fn root(kind: &'a str) -> MessagePlace<'a> {
        MessagePlace { above: None, name: kind, depth: 0, is_copy: false }
    }

    /// The place of the message that these parts form.
    fn copied(&self, parts: Occurrences) -> MessagePlace<'a> {
        MessagePlace { is_copy: self.is_copy || parts.len() > 1, ..*self }
    }

    fn field(&'a self, name: &'a str) -> Result<MessagePlace<'a>, WireError> {
        let depth = self.depth + 1;
        if depth > PROTOBUF_DEPTH_MAX {
            Err(WireError::TooDeep)
        } else {
            Ok(MessagePlace { above: Some(self), name, depth, is_copy: self.is_copy })
        }
    }
}

impl fmt::Display for MessagePlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.above {
            Some(above) => write!(f, "{above}.{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// The known fields of a message, ordered by their indexes. Several occurrences of one field keep their order.
fn known<'a>(of: &MessageType, bytes: &'a [u8]) -> Result<Vec<(usize, Content<'a>)>, WireError> {
    let mut found = Vec::new();
    for field in wire::fields(bytes) {
        let (number, content) = field?;
        found.extend(of.numbered(number).map(|place| (place, content)));
    }
    found.sort_by_key(|(place, _)| *place);
    Ok(found)
}

/// Converts a message to an object with its fields.
pub(super) fn object(
    messages: &Messages,
    of: &MessageType,
    bytes: &[u8],
    path: &MessagePlace,
) -> Result<Map<String, Value>, ProtobufError> {
    let found = known(of, bytes)?;
    let (mut rest, mut object) = (found.as_slice(), Map::new());
    for (place, field) in of.fields.iter().enumerate() {
        let (own, later) = rest.split_at(rest.partition_point(|(of, _)| *of <= place));
        rest = later;
        if let (true, FieldKind::Message(inner)) = (field.inline, field.kind) {
            let (content, path) = (merged(own, field, path)?, path.copied(own));
            object.extend(self::object(messages, messages.at(inner), &content, &path)?);
        } else if let Some(value) = field_value(messages, field, own, path)? {
            object.insert(field.json.to_string(), value);
        }
    }
    Ok(object)
}

type Occurrences<'a, 'b> = &'b [(usize, Content<'a>)];

/// The content of a message. If it came in several parts, the parts are merged into a copy. No usual client writes such
/// parts. They are allowed on only one level, because otherwise each level would need a copy of everything below it.
fn merged<'a>(parts: Occurrences<'a, '_>, field: &FieldType, path: &MessagePlace) -> Result<Cow<'a, [u8]>, WireError> {
    let content = |(_, content): &(usize, Content<'a>)| match content {
        Content::Delimited(content) => Ok(*content),
        _ => Err(WireError::Mistyped(field.number)),
    };
    match parts {
        [] => Ok(Cow::default()),
        [only] => content(only).map(Cow::Borrowed),
        _ if path.is_copy => Err(WireError::Split(field.number)),
        parts => Ok(Cow::Owned(parts.iter().map(content).collect::<Result<Vec<_>, _>>()?.concat())),
    }
}

fn any(messages: &Messages, of: &MessageType, bytes: &[u8], path: &MessagePlace) -> Result<Value, ProtobufError> {
    let found = |field: &FieldType| -> Result<Vec<(usize, Content<'_>)>, WireError> {
        let mut found = known(of, bytes)?;
        found.retain(|(place, _)| of.fields[*place].number == field.number);
        Ok(found)
    };
    let member = |name: &str| -> Result<Option<Value>, ProtobufError> {
        let Some(field) = of.named(name) else { return Ok(None) };
        let found = found(field)?;
        if found.is_empty() { Ok(None) } else { present(messages, field, &found, path).map(Some) }
    };
    let either = |one: &str, other: &str, none: Value| -> Result<Value, ProtobufError> {
        match member(one)? {
            Some(value) => Ok(value),
            None => Ok(member(other)?.unwrap_or(none)),
        }
    };
    Ok(match of.shape {
        Shape::Struct => Value::Object(object(messages, of, bytes, path)?),
        Shape::Items => match of.fields.first() {
            // An empty slice is different from a missing one, provided that Go writes empty slices here.
            Some(items) => present(messages, items, &found(items)?, path)?,
            None => Value::Null,
        },
        Shape::Time => shape::time(bytes, false)?,
        Shape::MicroTime => shape::time(bytes, true)?,
        Shape::Quantity => shape::quantity(bytes)?,
        Shape::IntOrString => shape::int_or_string(bytes)?,
        Shape::Raw => match wire::last_bytes(bytes, 1)?.unwrap_or_default() {
            [] => Value::Null,
            json => serde_json::from_slice(json)
                .map_err(|error| ProtobufError::Json { field: path.to_string(), error: error.to_string() })?,
        },
        Shape::SchemaOrList => either("jSONSchemas", "schema", Value::Null)?,
        Shape::SchemaOrBool => either("schema", "allows", json!(false))?,
        Shape::SchemaOrNames => either("property", "schema", Value::Null)?,
    })
}

/// The field's value. `None` if encoding/json would leave it out.
fn field_value(
    messages: &Messages,
    field: &FieldType,
    found: Occurrences,
    path: &MessagePlace,
) -> Result<Option<Value>, ProtobufError> {
    let is_present = !found.is_empty();
    let omitted = field.omitempty || field.omitzero;
    let is_collection = field.cardinality != Cardinality::One;
    if !is_present && (is_collection || field.pointer) {
        return Ok(if omitted { None } else { Some(Value::Null) });
    }
    let value = present(messages, field, found, &path.field(&field.json)?)?;
    if is_collection {
        return Ok(Some(value));
    }
    let is_struct = field.message().is_some_and(|inner| messages.at(inner).shape != Shape::Items);
    Ok(match &value {
        // A pointer that is set is written, even if its value is zero.
        _ if field.pointer => Some(value),
        // A struct never counts as empty. Only a zero time can be left out, by `omitzero`.
        _ if is_struct => (!field.omitzero || is_present && !value.is_null()).then_some(value),
        _ if is_go_zero(&value) && omitted => None,
        // A missing slice is null in Go.
        Value::Array(_) if !is_present => Some(Value::Null),
        Value::String(_) if !is_present && field.kind == FieldKind::Bytes => Some(Value::Null),
        _ => Some(value),
    })
}

fn present(
    messages: &Messages,
    field: &FieldType,
    found: Occurrences,
    path: &MessagePlace,
) -> Result<Value, ProtobufError> {
    match field.cardinality {
        Cardinality::One => one(messages, field, found, path),
        Cardinality::List => {
            let mut items = Vec::with_capacity(found.len());
            for occurrence in found {
                match (field.kind, occurrence.1) {
                    (FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64, Content::Delimited(mut numbers)) => {
                        while !numbers.is_empty() {
                            items.push(scalar(field, Content::Varint(wire::take_varint(&mut numbers)?))?);
                        }
                    }
                    _ => items.push(one(messages, field, std::slice::from_ref(occurrence), path)?),
                }
            }
            Ok(Value::Array(items))
        }
        Cardinality::Map => {
            let entry = |occurrence: &(usize, Content<'_>)| {
                let entry = merged(std::slice::from_ref(occurrence), field, path)?;
                let key = wire::last_text(&entry, wire::ENTRY_KEY)?.to_owned();
                let mut value = Vec::new();
                for part in wire::fields(&entry) {
                    value.extend(Some(part?).filter(|(number, _)| *number == wire::ENTRY_VALUE).map(|(_, it)| (0, it)));
                }
                Ok((key, one(messages, field, &value, path)?))
            };
            found.iter().map(entry).collect::<Result<_, _>>().map(Value::Object)
        }
    }
}

/// Converts a value other than a list or a map. A missing value becomes the zero value.
fn one(
    messages: &Messages,
    field: &FieldType,
    found: Occurrences,
    path: &MessagePlace,
) -> Result<Value, ProtobufError> {
    let mut value = match field.kind {
        FieldKind::Message(inner) => {
            return any(messages, messages.at(inner), &merged(found, field, path)?, &path.copied(found));
        }
        FieldKind::Bool => json!(false),
        FieldKind::Int32 | FieldKind::Int64 | FieldKind::Double => json!(0),
        FieldKind::String | FieldKind::Bytes => json!(""),
    };
    // The last occurrence counts, but all must have the right type.
    for (_, content) in found {
        value = scalar(field, *content)?;
    }
    Ok(value)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "as protobuf reads numbers")]
fn scalar(field: &FieldType, content: Content) -> Result<Value, WireError> {
    Ok(match (field.kind, content) {
        (FieldKind::Bool, Content::Varint(value)) => json!(value != 0),
        (FieldKind::Int32, Content::Varint(value)) => json!(value as i32),
        (FieldKind::Int64, Content::Varint(value)) => json!(value as i64),
        (FieldKind::Double, Content::Fixed64(bytes)) => float(f64::from_le_bytes(bytes)),
        (FieldKind::String, Content::Delimited(text)) => {
            json!(std::str::from_utf8(text).map_err(|_| WireError::Utf8(field.number))?)
        }
        (FieldKind::Bytes, Content::Delimited(bytes)) => json!(BASE64_STANDARD.encode(bytes)),
        _ => return Err(WireError::Mistyped(field.number)),
    })
}

/// Go writes a whole float without a fraction.
fn float(number: f64) -> Value {
    const WHOLE: f64 = 1e15;
    #[expect(clippy::cast_possible_truncation, reason = "whole and small enough")]
    if number.fract() == 0.0 && number.abs() < WHOLE { json!(number as i64) } else { json!(number) }
}
