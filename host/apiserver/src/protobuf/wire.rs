//! A message as bytes: its fields in the order of their numbers, and the entries of a map in that of their keys, as Go's
//! generated code writes them. So the same object is always the same bytes.

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, MapKey, Value as Field};

/// How the value of a field is written.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Delimited = 2,
}

pub(super) fn bytes(message: &DynamicMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (field, value) in message.fields() {
        match value {
            Field::List(items) => items.iter().for_each(|item| one(field.number(), item, &mut bytes)),
            Field::Map(entries) => map(field.number(), entries, &mut bytes),
            value => one(field.number(), value, &mut bytes),
        }
    }
    bytes
}

fn map(number: u32, entries: &HashMap<MapKey, Field>, bytes: &mut Vec<u8>) {
    // All keys of Kubernetes' maps are strings.
    let mut sorted: Vec<(&str, &Field)> =
        entries.iter().filter_map(|(key, value)| Some((key.as_str()?, value))).collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    for (key, value) in sorted {
        let mut entry = Vec::new();
        delimited(1, key.as_bytes(), &mut entry);
        one(2, value, &mut entry);
        delimited(number, &entry, bytes);
    }
}

/// A field with a value that is no list and no map. An integer that is negative takes ten bytes, of either width.
#[expect(clippy::cast_sign_loss, reason = "the two's complement is what is written")]
fn one(number: u32, value: &Field, bytes: &mut Vec<u8>) {
    match value {
        Field::Bool(value) => boolean(number, *value, bytes),
        Field::I32(value) => integer(number, i64::from(*value) as u64, bytes),
        Field::I64(value) => integer(number, *value as u64, bytes),
        Field::F64(value) => double(number, *value, bytes),
        Field::String(text) => delimited(number, text.as_bytes(), bytes),
        Field::Bytes(value) => delimited(number, value, bytes),
        Field::Message(message) => delimited(number, &self::bytes(message), bytes),
        // No message of Kubernetes has another.
        _ => {}
    }
}

pub(crate) fn boolean(number: u32, value: bool, bytes: &mut Vec<u8>) {
    integer(number, u64::from(value), bytes);
}

pub(crate) fn double(number: u32, value: f64, bytes: &mut Vec<u8>) {
    key(number, WireType::Fixed64, bytes);
    bytes.extend(value.to_le_bytes());
}

pub(crate) fn integer(number: u32, value: u64, bytes: &mut Vec<u8>) {
    key(number, WireType::Varint, bytes);
    varint(value, bytes);
}

pub(crate) fn delimited(number: u32, content: &[u8], bytes: &mut Vec<u8>) {
    key(number, WireType::Delimited, bytes);
    varint(content.len() as u64, bytes);
    bytes.extend_from_slice(content);
}

fn key(number: u32, wire_type: WireType, bytes: &mut Vec<u8>) {
    varint(u64::from((number << 3) | wire_type as u32), bytes);
}

fn varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value > 0x7f {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}
