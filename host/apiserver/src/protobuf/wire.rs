//! The wire format of protobuf: fields with their keys.

/// How the value of a field is written.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Delimited = 2,
}

/// An integer or a bool. A negative one takes ten bytes, of either width.
#[expect(clippy::cast_sign_loss, reason = "the two's complement is what is written")]
pub(crate) fn integer(number: u32, value: i64, bytes: &mut Vec<u8>) {
    key(number, WireType::Varint, bytes);
    varint(value as u64, bytes);
}

pub(crate) fn double(number: u32, value: f64, bytes: &mut Vec<u8>) {
    key(number, WireType::Fixed64, bytes);
    bytes.extend(value.to_le_bytes());
}

pub(crate) fn text(number: u32, text: &str, bytes: &mut Vec<u8>) {
    self::bytes(number, text.as_bytes(), bytes);
}

pub(crate) fn bytes(number: u32, content: &[u8], bytes: &mut Vec<u8>) {
    key(number, WireType::Delimited, bytes);
    varint(content.len() as u64, bytes);
    bytes.extend_from_slice(content);
}

/// A field whose content is written in place: its length is put before it once it is known.
pub(crate) fn delimited<E>(
    number: u32,
    bytes: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    key(number, WireType::Delimited, bytes);
    let begin = bytes.len();
    // Most lengths take a byte.
    bytes.push(0);
    content(bytes)?;
    let mut length = Vec::with_capacity(2);
    varint((bytes.len() - begin - 1) as u64, &mut length);
    match length.as_slice() {
        [byte] => bytes[begin] = *byte,
        longer => drop(bytes.splice(begin..=begin, longer.iter().copied())),
    }
    Ok(())
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
