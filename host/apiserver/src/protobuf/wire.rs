//! Protobuf's wire format: reads and writes fields with their keys.

/// How a field's value is encoded.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Delimited = 2,
}

/// Writes an integer or a bool. A negative number takes ten bytes, even in 32 bits.
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

/// Writes the beginning of a field of this length. The content must follow.
pub(crate) fn length(number: u32, length: usize, bytes: &mut Vec<u8>) {
    key(number, WireType::Delimited, bytes);
    varint(length as u64, bytes);
}

/// Writes a field with the content that `write` appends. The length is inserted before the content afterwards.
pub(crate) fn delimited<E>(
    number: u32,
    bytes: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    key(number, WireType::Delimited, bytes);
    let begin = bytes.len();
    // Reserves one byte for the length, which is enough for most.
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

/// A varint, and its length in bytes.
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

/// The field numbers of key and value in a map's entry.
pub(super) const ENTRY_KEY: u32 = 1;
pub(super) const ENTRY_VALUE: u32 = 2;

/// The undecoded value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32,
    Delimited(&'a [u8]),
    /// A group. Kubernetes' messages have none, but a client may send one as an unknown field.
    Group,
}

/// Why bytes cannot be read as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("it ends in the middle of a field")]
    CutOff,
    #[error("a number has more than ten bytes")]
    TooLong,
    #[error("there is no field {0}")]
    Number(u64),
    #[error("there is no wire type {0}")]
    WireType(u64),
    #[error("field {0} does not have the type that its message defines")]
    Mistyped(u32),
    #[error("field {0} is not UTF-8")]
    Utf8(u32),
    #[error("it is nested too deeply")]
    TooDeep,
    #[error("field {0} is split into several parts, and so is a message that contains it")]
    Split(u32),
}

/// Iterates over the fields of a message, with their numbers.
pub(super) fn fields(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u32, Content<'_>), WireError>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let field = take_field(&mut bytes);
        if field.is_err() {
            bytes = &[];
        }
        Some(field)
    })
}

fn take_field<'a>(bytes: &mut &'a [u8]) -> Result<(u32, Content<'a>), WireError> {
    let key = take_varint(bytes)?;
    let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0).ok_or(WireError::Number(key >> 3))?;
    let content = match key & 7 {
        0 => Content::Varint(take_varint(bytes)?),
        1 => Content::Fixed64(*take(bytes, 8)?.first_chunk().ok_or(WireError::CutOff)?),
        2 => Content::Delimited(take_delimited(bytes)?),
        3 => skip_group(bytes).map(|()| Content::Group)?,
        5 => take(bytes, 4).map(|_| Content::Fixed32)?,
        other => return Err(WireError::WireType(other)),
    };
    Ok((number, content))
}

/// Skips to the end of a group, including nested groups.
fn skip_group(bytes: &mut &[u8]) -> Result<(), WireError> {
    let mut depth = 1;
    while depth > 0 {
        match take_varint(bytes)? & 7 {
            0 => drop(take_varint(bytes)?),
            1 => drop(take(bytes, 8)?),
            2 => drop(take_delimited(bytes)?),
            3 => depth += 1,
            4 => depth -= 1,
            5 => drop(take(bytes, 4)?),
            other => return Err(WireError::WireType(other)),
        }
    }
    Ok(())
}

fn take_delimited<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], WireError> {
    let length = usize::try_from(take_varint(bytes)?).map_err(|_| WireError::CutOff)?;
    take(bytes, length)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], WireError> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or(WireError::CutOff)?;
    *bytes = rest;
    Ok(taken)
}

/// Reads a varint from the front of `bytes`, and removes it.
pub(super) fn take_varint(bytes: &mut &[u8]) -> Result<u64, WireError> {
    let mut value = 0;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first().ok_or(WireError::CutOff)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if *byte < 0x80 {
            return Ok(value);
        }
    }
    Err(WireError::TooLong)
}

/// The last occurrence of a field, decoded by `read`.
fn last<'a, T>(bytes: &'a [u8], number: u32, read: impl Fn(Content<'a>) -> Option<T>) -> Result<Option<T>, WireError> {
    let mut found = None;
    for field in fields(bytes) {
        let (known, content) = field?;
        if known == number {
            found = Some(read(content).ok_or(WireError::Mistyped(number))?);
        }
    }
    Ok(found)
}

/// The last content of a length-delimited field.
pub(super) fn last_bytes(bytes: &[u8], number: u32) -> Result<Option<&[u8]>, WireError> {
    last(bytes, number, |content| match content {
        Content::Delimited(content) => Some(content),
        _ => None,
    })
}

/// The last content of a text field. Empty if the field is missing.
pub(super) fn last_text(bytes: &[u8], number: u32) -> Result<&str, WireError> {
    let text = last_bytes(bytes, number)?.unwrap_or_default();
    std::str::from_utf8(text).map_err(|_| WireError::Utf8(number))
}

/// The last value of an integer field.
#[expect(clippy::cast_possible_wrap, reason = "the two's complement is what is written")]
pub(super) fn last_integer(bytes: &[u8], number: u32) -> Result<Option<i64>, WireError> {
    last(bytes, number, |content| match content {
        Content::Varint(value) => Some(value as i64),
        _ => None,
    })
}
