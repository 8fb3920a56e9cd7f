//! Kubernetes' protobuf: converts between the encoding that typed Go clients use and an object's JSON.
//!
//! The messages come from the API modules' own `.proto` files (`messages`), so every built-in kind is supported. A body
//! has four magic bytes, and then a `runtime.Unknown` with the object and its type. A watch event is a `WatchEvent`
//! with its length before it; the object in it has the same form as a body.

mod descriptors;
mod measure;
mod messages;
mod shape;
mod to_json;
pub(crate) mod wire;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

use crate::object::{read_ahead, text};
use crate::pieces::{self, Pieces};
use messages::Messages;
use to_json::MessagePlace;
use wire::WireError;
use write::FieldPlace;

/// The first bytes of every object in this encoding.
const MAGIC: &[u8] = b"k8s\0";

/// The fields of the envelope, a `runtime.Unknown`, and of the `TypeMeta` in it.
const TYPE_META: u32 = 1;
const CONTENT: u32 = 2;
const API_VERSION: u32 = 1;
const KIND: u32 = 2;

/// Why something could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtobufError {
    /// There is no envelope, or its content is truncated.
    #[error("the protobuf body is malformed: {0}")]
    Malformed(String),
    #[error("the protobuf body is malformed: {0}")]
    Wire(#[from] WireError),
    /// The body is small, but would become too large an object.
    #[error("the protobuf body has more than {} values", measure::PROTOBUF_VALUES_MAX)]
    TooMany,
    /// A text that should be JSON is not valid JSON.
    #[error("{field} is not valid JSON: {error}")]
    Json { field: String, error: String },
    /// The kind is not built in, for example a custom resource.
    #[error("kind {kind:?} of {api_version:?} has no protobuf message")]
    UnknownKind { api_version: String, kind: String },
    /// A value that the field cannot hold.
    #[error("{field} cannot be written as protobuf: {expected} expected")]
    Mistyped { field: String, expected: &'static str },
    /// The embedded table of messages is damaged, which is a mistake in the build.
    #[error("the descriptions of the messages are broken: {0}")]
    Descriptions(String),
}

/// Decodes the object in a body.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let messages = Messages::get()?;
    let wrapped = body.strip_prefix(MAGIC).ok_or_else(|| ProtobufError::Malformed("it has no magic".to_owned()))?;
    let type_meta = wire::last_bytes(wrapped, TYPE_META)?.unwrap_or_default();
    let (api_version, kind) = (wire::last_text(type_meta, API_VERSION)?, wire::last_text(type_meta, KIND)?);
    let raw = wire::last_bytes(wrapped, CONTENT)?.unwrap_or_default();
    let message = messages.of_kind(api_version, kind)?;
    if !measure::is_bearable(messages, message, raw) {
        return Err(ProtobufError::TooMany);
    }
    let mut object = to_json::object(messages, message, raw, &MessagePlace::root(kind))?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// Encodes an object as the body of an answer. The object must have its `apiVersion` and `kind`.
pub(crate) fn encode(object: &Value) -> Result<Vec<u8>, ProtobufError> {
    let mut bytes = Vec::new();
    write_object(object, &mut bytes)?;
    Ok(bytes)
}

/// Encodes a list as the body of an answer, without building a document of all items. Only fields of the list's item
/// type are written: for a `PartialObjectMetadataList` only the metadata, otherwise the whole object.
pub(crate) fn encode_list(
    api_version: &str,
    kind: &str,
    metadata: &Value,
    items: &[Arc<Value>],
) -> Result<Pieces, ProtobufError> {
    let messages = Messages::get()?;
    let list = messages.of_kind(api_version, kind)?;
    let (of_metadata, of_items) = (list.field("metadata")?, list.field("items")?);
    let item = of_items
        .message()
        .ok_or_else(|| ProtobufError::Descriptions(format!("the items of {kind} are not messages")))?;
    let root = FieldPlace::Root(kind);
    let place = FieldPlace::Field(&root, "items");
    let items = pieces::write(items, |index, object, bytes| {
        read_ahead(object);
        wire::delimited(of_items.number, bytes, |bytes| {
            write::message(messages, messages.at(item), object, FieldPlace::Item(&place, index), bytes)
        })
    })?;
    let mut before = Vec::new();
    write::field(messages, of_metadata, metadata, FieldPlace::Field(&root, "metadata"), &mut before)?;
    let (mut begin, mut end) = (Vec::new(), Vec::new());
    begin_envelope(api_version, kind, &mut begin)?;
    wire::length(CONTENT, before.len() + pieces::length(&items), &mut begin);
    begin.extend(before);
    end_envelope(&mut end);
    Ok([begin].into_iter().chain(items).chain([end]).collect())
}

/// Encodes a watch event, with its length before it.
pub(crate) fn frame(kind: &str, object: &Value) -> Result<Vec<u8>, ProtobufError> {
    let mut bytes = vec![0; 4];
    // This is a `metav1.WatchEvent` with a `runtime.RawExtension` in it.
    wire::text(1, kind, &mut bytes);
    wire::delimited(2, &mut bytes, |bytes| wire::delimited(1, bytes, |bytes| write_object(object, bytes)))?;
    let length =
        u32::try_from(bytes.len() - 4).map_err(|_| ProtobufError::Malformed("an event of 4 GiB".to_owned()))?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}

fn write_object(object: &Value, bytes: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let messages = Messages::get()?;
    let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let of = messages.of_kind(api_version, kind)?;
    wrapped(api_version, kind, bytes, |bytes| write::message(messages, of, object, FieldPlace::Root(kind), bytes))
}

/// Writes content into an envelope, a `runtime.Unknown`.
fn wrapped(
    api_version: &str,
    kind: &str,
    bytes: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), ProtobufError>,
) -> Result<(), ProtobufError> {
    begin_envelope(api_version, kind, bytes)?;
    wire::delimited(CONTENT, bytes, content)?;
    end_envelope(bytes);
    Ok(())
}

/// Writes the part of the envelope before its content.
fn begin_envelope(api_version: &str, kind: &str, bytes: &mut Vec<u8>) -> Result<(), ProtobufError> {
    bytes.extend_from_slice(MAGIC);
    wire::delimited(TYPE_META, bytes, |bytes| {
        wire::text(API_VERSION, api_version, bytes);
        wire::text(KIND, kind, bytes);
        Ok(())
    })
}

/// Writes the end of the envelope: the content's encoding and type. Go writes these even if they are empty.
fn end_envelope(bytes: &mut Vec<u8>) {
    wire::text(3, "", bytes);
    wire::text(4, "", bytes);
}
