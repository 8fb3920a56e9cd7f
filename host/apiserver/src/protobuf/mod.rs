//! Kubernetes' protobuf: between the encoding that typed Go clients speak and an object's JSON. Pure functions.
//!
//! The messages come from the API modules' own `.proto` files (`messages`), so every built-in kind is read and written.
//! An object is wrapped in four bytes of magic and a `runtime.Unknown` with its type. An event of a watch is a
//! `WatchEvent` behind its length, and the object in it is wrapped again.

mod from_json;
mod measure;
mod messages;
mod shape;
mod to_json;
pub(crate) mod wire;

#[cfg(test)]
mod tests;

use prost_reflect::prost::bytes::Bytes;
use prost_reflect::{DynamicMessage, Value as Field};
use serde_json::Value;

use crate::object::text;
use messages::{MessageType, Messages};

/// The first bytes of every object in this encoding.
const MAGIC: &[u8] = b"k8s\0";

const ENVELOPE: &str = "k8s.io.apimachinery.pkg.runtime.Unknown";
const EVENT: &str = "k8s.io.apimachinery.pkg.apis.meta.v1.WatchEvent";

/// Why something could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtobufError {
    /// Not the envelope, or its content is cut off.
    #[error("the protobuf body is malformed: {0}")]
    Malformed(String),
    /// A small body that would be a large object.
    #[error("the protobuf body has more than {} values", measure::MOST_VALUES)]
    TooMany,
    /// A text that should be JSON.
    #[error("{field} is no JSON: {error}")]
    Json { field: String, error: String },
    /// No built-in kind, such as a custom resource.
    #[error("kind {kind:?} of {api_version:?} has no protobuf message")]
    UnknownKind { api_version: String, kind: String },
    /// A value that the field cannot hold.
    #[error("{field} cannot be written as protobuf: {expected} expected")]
    Mistyped { field: String, expected: &'static str },
    /// The embedded descriptions are broken: a mistake of the build.
    #[error("the descriptions of the messages are broken: {0}")]
    Descriptions(String),
}

/// The object in a body.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let messages = Messages::get()?;
    let wrapped = body.strip_prefix(MAGIC).ok_or_else(|| ProtobufError::Malformed("it has no magic".to_owned()))?;
    let envelope = to_json::read(messages.named(ENVELOPE)?, wrapped)?;
    let type_meta = envelope.get_field_by_name("typeMeta");
    let type_meta = type_meta.as_deref().and_then(Field::as_message);
    let of = |name: &str| type_meta.map(|meta| shape::string(meta, name)).unwrap_or_default();
    let (api_version, kind) = (of("apiVersion"), of("kind"));
    let raw = envelope.get_field_by_name("raw").and_then(|raw| raw.as_bytes().cloned()).unwrap_or_default();
    let message = messages.of_kind(&api_version, &kind)?;
    if !measure::is_bearable(&message.descriptor, &raw) {
        return Err(ProtobufError::TooMany);
    }
    let mut object = to_json::object(messages, message, &to_json::read(message, &raw)?, &kind)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// The object, which names its type, as the body of an answer.
pub(crate) fn encode(object: &Value) -> Result<Vec<u8>, ProtobufError> {
    let messages = Messages::get()?;
    let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let content = from_json::message(messages, messages.of_kind(api_version, kind)?, object, kind)?;
    let envelope = messages.named(ENVELOPE)?;
    let mut type_meta = envelope.sub_message("typeMeta")?;
    set(&mut type_meta, "apiVersion", Field::String(api_version.to_owned()))?;
    set(&mut type_meta, "kind", Field::String(kind.to_owned()))?;
    let mut wrapped = DynamicMessage::new(envelope.descriptor.clone());
    set(&mut wrapped, "typeMeta", Field::Message(type_meta))?;
    set(&mut wrapped, "raw", Field::Bytes(wire::bytes(&content).into()))?;
    // Go writes these though they are empty.
    set(&mut wrapped, "contentEncoding", Field::String(String::new()))?;
    set(&mut wrapped, "contentType", Field::String(String::new()))?;
    Ok([MAGIC, &wire::bytes(&wrapped)].concat())
}

/// An event of a watch, behind its length.
pub(crate) fn frame(kind: &str, object: &Value) -> Result<Vec<u8>, ProtobufError> {
    let event = Messages::get()?.named(EVENT)?;
    let mut raw = event.sub_message("object")?;
    set(&mut raw, "raw", Field::Bytes(Bytes::from(encode(object)?)))?;
    let mut message = DynamicMessage::new(event.descriptor.clone());
    set(&mut message, "type", Field::String(kind.to_owned()))?;
    set(&mut message, "object", Field::Message(raw))?;
    let content = wire::bytes(&message);
    let length = u32::try_from(content.len()).map_err(|_| ProtobufError::Malformed("an event of 4 GiB".to_owned()))?;
    Ok([&length.to_be_bytes(), content.as_slice()].concat())
}

fn set(message: &mut DynamicMessage, name: &str, value: Field) -> Result<(), ProtobufError> {
    message.try_set_field_by_name(name, value).map_err(|error| ProtobufError::Descriptions(error.to_string()))
}

impl MessageType {
    /// An empty message for the field.
    fn sub_message(&self, field: &str) -> Result<DynamicMessage, ProtobufError> {
        let field = self.descriptor.get_field_by_name(field);
        let message = field.and_then(|field| field.kind().as_message().cloned());
        message
            .map(DynamicMessage::new)
            .ok_or_else(|| ProtobufError::Descriptions(self.descriptor.full_name().to_owned()))
    }
}
