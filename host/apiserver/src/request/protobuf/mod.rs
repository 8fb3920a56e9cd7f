//! Kubernetes' protobuf, read only: some of kubectl's commands (`create namespace`, `auth can-i`) send nothing else.
//!
//! Covers the kinds that kubectl creates by such commands (`messages`); a body of any other kind is unsupported media,
//! as it is for custom resources on a real server. Answers are always JSON, which every such client accepts.

mod messages;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use messages::{FieldType, MessageField};

/// The first bytes of every body in this encoding.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    /// Not the envelope, or its content is cut off.
    #[error("the protobuf body is malformed")]
    Malformed,
    /// A kind that is not in the table.
    #[error("protobuf bodies of kind {0} are not understood")]
    UnknownKind(String),
}

/// The object in a body.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::Malformed)?;
    let unknown = message("Unknown", envelope)?;
    let type_of =
        |key: &str| unknown.get("typeMeta").and_then(|meta| meta.get(key)).and_then(Value::as_str).unwrap_or("");
    let (api_version, kind) = (type_of("apiVersion"), type_of("kind"));
    if messages::fields(kind).is_none() {
        return Err(ProtobufError::UnknownKind(kind.to_owned()));
    }
    let raw = field_bytes(envelope, 2)?.unwrap_or_default();
    let mut object = message(kind, raw)?;
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(object))
}

/// One field as it stands on the wire.
enum WireValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Skipped,
}

/// Reads the fields of a message, one after the other.
struct WireReader<'a>(&'a [u8]);

impl<'a> WireReader<'a> {
    fn next(&mut self) -> Result<Option<(u64, WireValue<'a>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => WireValue::Number(self.varint()?),
            1 => self.take(8).map(|_| WireValue::Skipped)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Malformed)?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| WireValue::Skipped)?,
            _ => return Err(ProtobufError::Malformed),
        };
        Ok(Some((tag >> 3, wire)))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte, rest @ ..] = self.0 else { return Err(ProtobufError::Malformed) };
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Malformed)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ProtobufError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }
}

fn field_bytes(bytes: &[u8], wanted: u64) -> Result<Option<&[u8]>, ProtobufError> {
    let mut reader = WireReader(bytes);
    while let Some((number, wire)) = reader.next()? {
        if let (true, WireValue::Bytes(found)) = (number == wanted, wire) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn message(name: &str, bytes: &[u8]) -> Result<Map<String, Value>, ProtobufError> {
    let fields = messages::fields(name).ok_or_else(|| ProtobufError::UnknownKind(name.to_owned()))?;
    let mut result = Map::new();
    let mut reader = WireReader(bytes);
    while let Some((number, wire)) = reader.next()? {
        if let Some(field) = fields.iter().find(|field| field.number == number) {
            add(&mut result, field, &wire)?;
        }
    }
    Ok(result)
}

fn add(result: &mut Map<String, Value>, field: &MessageField, wire: &WireValue) -> Result<(), ProtobufError> {
    if let (FieldType::Map | FieldType::BytesMap, WireValue::Bytes(entry)) = (&field.kind, wire) {
        let key = field_bytes(entry, 1)?.unwrap_or_default();
        let value = field_bytes(entry, 2)?.unwrap_or_default();
        let value = if field.kind == FieldType::Map { text(value)? } else { json!(BASE64_STANDARD.encode(value)) };
        let map = result.entry(field.name).or_insert_with(|| json!({}));
        crate::object::as_map_mut(map).insert(String::from_utf8_lossy(key).into_owned(), value);
        return Ok(());
    }
    let value = value(&field.kind, wire)?;
    // Go writes fields that are not pointers even when they are empty; JSON leaves them out.
    let empty = matches!(&value, Value::String(text) if text.is_empty())
        || value == json!(0)
        || value == json!(false)
        || value == json!({});
    if field.repeated {
        let list = result.entry(field.name).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.push(value);
        }
    } else if field.pointer || !empty {
        result.insert(field.name.to_owned(), value);
    }
    Ok(())
}

fn value(kind: &FieldType, wire: &WireValue) -> Result<Value, ProtobufError> {
    match (kind, wire) {
        (FieldType::Bool, WireValue::Number(number)) => Ok(json!(*number != 0)),
        (FieldType::Int, WireValue::Number(number)) => Ok(json!(number.cast_signed())),
        (FieldType::Text, WireValue::Bytes(bytes)) => text(bytes),
        (FieldType::IntOrString, WireValue::Bytes(bytes)) => {
            let parts = message("IntOrString", bytes)?;
            let is_text = parts.get("type") == Some(&json!(1));
            let part = if is_text { parts.get("text") } else { parts.get("number") };
            Ok(part.cloned().unwrap_or_else(|| json!(0)))
        }
        (FieldType::Message(name), WireValue::Bytes(bytes)) => message(name, bytes).map(Value::Object),
        _ => Err(ProtobufError::Malformed),
    }
}

fn text(bytes: &[u8]) -> Result<Value, ProtobufError> {
    std::str::from_utf8(bytes).map(|text| json!(text)).map_err(|_| ProtobufError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).expect("a short test message");
        [&[number << 3 | 2, length], content].concat()
    }

    #[test]
    fn a_namespace_is_read_from_its_envelope() {
        let type_meta = [field(1, b"v1"), field(2, b"Namespace")].concat();
        let metadata =
            [field(1, b"shop"), field(11, &[field(1, b"a"), field(2, b"b")].concat()), field(8, b"")].concat();
        let body = [MAGIC.to_vec(), field(1, &type_meta), field(2, &field(1, &metadata))].concat();
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": "shop", "labels": { "a": "b" } },
        });
        assert_eq!(decode(&body), Ok(expected));
    }

    #[test]
    fn a_body_that_is_cut_off_is_refused() {
        assert_eq!(decode(b"k8s\0\x0a\x7f"), Err(ProtobufError::Malformed));
        assert_eq!(decode(b"{}"), Err(ProtobufError::Malformed));
    }
}
