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
    length(number, content.len(), bytes);
    bytes.extend_from_slice(content);
}

/// The begin of a field whose content comes after it.
pub(crate) fn length(number: u32, length: usize, bytes: &mut Vec<u8>) {
    key(number, WireType::Delimited, bytes);
    varint(length as u64, bytes);
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
    match varint_of((bytes.len() - begin - 1) as u64) {
        (length, 1) => bytes[begin] = length[0],
        (length, longer) => drop(bytes.splice(begin..=begin, length.into_iter().take(longer))),
    }
    Ok(())
}

fn key(number: u32, wire_type: WireType, bytes: &mut Vec<u8>) {
    varint(u64::from((number << 3) | wire_type as u32), bytes);
}

fn varint(value: u64, bytes: &mut Vec<u8>) {
    let (digits, count) = varint_of(value);
    bytes.extend_from_slice(&digits[..count]);
}

/// A varint, and how many bytes it takes.
fn varint_of(mut value: u64) -> ([u8; 10], usize) {
    let (mut digits, mut last) = ([0; 10], 0);
    while value > 0x7f {
        digits[last] = value.to_le_bytes()[0] | 0x80;
        value >>= 7;
        last += 1;
    }
    digits[last] = value.to_le_bytes()[0];
    (digits, last + 1)
}
