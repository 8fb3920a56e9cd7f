//! JSON values as Go's `encoding/json` treats them, and numbers as `strconv` parses them.

use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde_json::Value;

/// The name of a value's kind in Go's errors.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether a value is the zero of its Go type, or empty, so that `omitempty` drops it.
pub(crate) fn is_go_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Joins several errors as Go's `Aggregate` does.
pub(crate) fn aggregate(errors: &[String]) -> String {
    match errors {
        [only] => only.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Decodes base64: line breaks are skipped, and extra bits after the last byte are ignored.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const GO: GeneralPurpose =
        GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    GO.decode(digits).ok()
}

/// The error for a text that Go cannot parse as a number, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.{function}: parsing {text:?}: {why}")]
pub(crate) struct NumberError {
    function: &'static str,
    text: String,
    why: &'static str,
}

pub(crate) fn parse_int(text: &str) -> Result<i64, NumberError> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    text.parse().map_err(|_| no_number("ParseInt", text, digits))
}

pub(crate) fn parse_uint(text: &str) -> Result<u64, NumberError> {
    let number = if text.starts_with('+') { None } else { text.parse().ok() };
    number.ok_or_else(|| no_number("ParseUint", text, text))
}

fn no_number(function: &'static str, text: &str, digits: &str) -> NumberError {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let why = if is_number { "value out of range" } else { "invalid syntax" };
    NumberError { function, text: text.to_owned(), why }
}
