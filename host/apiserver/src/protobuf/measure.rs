//! How many values a message holds, before it is read: two bytes on the wire can be a struct with all its fields in
//! memory.

use super::messages::{Cardinality, FieldKind, FieldType, MessageType, Messages};
use super::wire::{self, Content};

/// More than a body needs that a person or a controller writes.
pub(super) const PROTOBUF_VALUES_MAX: usize = 100_000;

/// As deep as a message is read.
pub(super) const PROTOBUF_DEPTH_MAX: usize = 100;

/// Whether the message has at most [`PROTOBUF_VALUES_MAX`] values. What is malformed ends the count: reading it says
/// so.
pub(super) fn is_bearable(messages: &Messages, message: &MessageType, bytes: &[u8]) -> bool {
    let mut left = PROTOBUF_VALUES_MAX;
    // Each level that is counted there may be two on the wire: a message that Go writes without its own name is none.
    count(messages, message, bytes, &mut left, 2 * PROTOBUF_DEPTH_MAX).is_some()
}

/// None if there are more values than are left, or deeper ones.
fn count(messages: &Messages, message: &MessageType, bytes: &[u8], left: &mut usize, depth: usize) -> Option<()> {
    for field in wire::fields(bytes) {
        *left = left.checked_sub(1)?;
        let Ok((number, Content::Delimited(content))) = field else { continue };
        let Some(place) = message.numbered(number) else { continue };
        let field = &message.fields[place];
        if field.cardinality != Cardinality::Map {
            count_value(messages, field, content, left, depth)?;
            continue;
        }
        // An entry is a message of a key and a value.
        for part in wire::fields(content) {
            *left = left.checked_sub(1)?;
            if let Ok((wire::ENTRY_VALUE, Content::Delimited(value))) = part {
                count_value(messages, field, value, left, depth)?;
            }
        }
    }
    Some(())
}

fn count_value(messages: &Messages, field: &FieldType, content: &[u8], left: &mut usize, depth: usize) -> Option<()> {
    match field.kind {
        FieldKind::Message(inner) => count(messages, messages.at(inner), content, left, depth.checked_sub(1)?)?,
        // Numbers in one piece, each of at least a byte.
        FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64 | FieldKind::Double => {
            *left = left.checked_sub(content.len())?;
        }
        FieldKind::String | FieldKind::Bytes => {}
    }
    Some(())
}
