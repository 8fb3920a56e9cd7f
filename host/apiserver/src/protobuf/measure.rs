//! How many values a message holds, before it is read: two bytes on the wire can be a struct with all its fields in memory.

use prost_reflect::{Kind, MessageDescriptor};

/// More than a body needs that a person or a controller writes.
pub(super) const PROTOBUF_VALUES_MAX: usize = 100_000;

/// As deep as a message is read.
const PROTOBUF_DEPTH_MAX: usize = 100;

/// Whether the message has at most [`PROTOBUF_VALUES_MAX`] values. What is malformed ends the count: reading it says
/// so.
pub(super) fn is_bearable(message: &MessageDescriptor, bytes: &[u8]) -> bool {
    let mut left = PROTOBUF_VALUES_MAX;
    count(message, bytes, &mut left, PROTOBUF_DEPTH_MAX).is_some()
}

/// None if there are more values than are left.
fn count(message: &MessageDescriptor, mut bytes: &[u8], left: &mut usize, depth: usize) -> Option<()> {
    while !bytes.is_empty() {
        *left = left.checked_sub(1)?;
        let Some((number, content)) = take_field(&mut bytes) else { return Some(()) };
        let field = message.get_field(number).map(|field| field.kind());
        match (field, content) {
            (Some(Kind::Message(inner)), Some(content)) if depth > 0 => count(&inner, content, left, depth - 1)?,
            // Numbers in one piece, each of at least a byte.
            (Some(Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double), Some(content)) => {
                *left = left.checked_sub(content.len())?;
            }
            _ => {}
        }
    }
    Some(())
}

/// The next field's number, and its content if it has a length.
fn take_field<'a>(bytes: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    let key = take_varint(bytes)?;
    let number = u32::try_from(key >> 3).ok()?;
    match key & 7 {
        0 => take_varint(bytes).map(|_| (number, None)),
        1 => take(bytes, 8).map(|_| (number, None)),
        2 => {
            let length = usize::try_from(take_varint(bytes)?).ok()?;
            take(bytes, length).map(|content| (number, Some(content)))
        }
        5 => take(bytes, 4).map(|_| (number, None)),
        _ => None,
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}
