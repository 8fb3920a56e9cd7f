//! Counts the values in a message before it is decoded, because two bytes on the wire can become a struct with all its
//! fields in memory.

use super::messages::{Cardinality, FieldKind, FieldType, MessageType, Messages};
use super::wire::{self, Content};

/// The most values in a message: more than any body that a person or a controller writes.
pub(super) const PROTOBUF_VALUES_MAX: usize = 100_000;

/// The deepest allowed nesting of a message.
pub(super) const PROTOBUF_DEPTH_MAX: usize = 100;

/// Whether the message has at most [`PROTOBUF_VALUES_MAX`] values. Malformed content is not an error here; decoding
/// reports it.
pub(super) fn is_bearable(messages: &Messages, message: &MessageType, bytes: &[u8]) -> bool {
    let mut left = PROTOBUF_VALUES_MAX;
    // One level of an object may be two levels on the wire, because some messages have no level of their own in JSON.
    count(messages, message, bytes, &mut left, 2 * PROTOBUF_DEPTH_MAX).is_some()
}

/// Subtracts the number of values from `left`. `None` if there are more, or if the nesting is too deep.
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
        // A map entry is a message with a key and a value.
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
        // Packed numbers. Each takes at least one byte.
        FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64 | FieldKind::Double => {
            *left = left.checked_sub(content.len())?;
        }
        FieldKind::String | FieldKind::Bytes => {}
    }
    Some(())
}
