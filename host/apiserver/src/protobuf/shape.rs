//! Messages whose Go types have a special JSON form, in both directions: times, quantities, raw JSON and so on.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::wire::{self, WireError};

/// The JSON form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// An object with the message's fields.
    Struct,
    /// A slice or a map: the value of the message's only field.
    Items,
    /// `metav1.Time`, with a precision of seconds.
    Time,
    /// `metav1.MicroTime`, with a precision of microseconds.
    MicroTime,
    /// The string in the message's only field.
    Quantity,
    IntOrString,
    /// The JSON in the message's only field.
    Raw,
    /// An object or a list of them (`JSONSchemaPropsOrArray`).
    SchemaOrList,
    /// An object or a bool (`JSONSchemaPropsOrBool`).
    SchemaOrBool,
    /// An object or a list of strings (`JSONSchemaPropsOrStringArray`).
    SchemaOrNames,
}

impl Shape {
    pub(super) fn of(message: &str, is_collection: bool) -> Shape {
        let Some((package, name)) = message.rsplit_once('.') else { return Shape::Struct };
        let in_extensions = package.contains(".apiextensions.");
        match (package, name) {
            _ if is_collection => Shape::Items,
            ("k8s.io.apimachinery.pkg.apis.meta.v1", "Time") => Shape::Time,
            ("k8s.io.apimachinery.pkg.apis.meta.v1", "MicroTime") => Shape::MicroTime,
            ("k8s.io.apimachinery.pkg.apis.meta.v1", "FieldsV1")
            | ("k8s.io.apimachinery.pkg.runtime", "RawExtension") => Shape::Raw,
            ("k8s.io.apimachinery.pkg.api.resource", "Quantity") => Shape::Quantity,
            ("k8s.io.apimachinery.pkg.util.intstr", "IntOrString") => Shape::IntOrString,
            (_, "JSON") if in_extensions => Shape::Raw,
            (_, "JSONSchemaPropsOrArray") if in_extensions => Shape::SchemaOrList,
            (_, "JSONSchemaPropsOrBool") if in_extensions => Shape::SchemaOrBool,
            (_, "JSONSchemaPropsOrStringArray") if in_extensions => Shape::SchemaOrNames,
            _ => Shape::Struct,
        }
    }
}

/// Decodes a time to JSON. The zero time becomes null.
pub(super) fn time(message: &[u8], with_micros: bool) -> Result<Value, WireError> {
    let (seconds, nanos) = (wire::last_integer(message, 1)?, wire::last_integer(message, 2)?.unwrap_or_default());
    if seconds.is_none() && nanos == 0 {
        return Ok(Value::Null);
    }
    let time = Timestamp::new(seconds.unwrap_or_default(), i32::try_from(nanos).unwrap_or_default());
    Ok(match time {
        Ok(time) if with_micros => json!(format!("{time:.6}")),
        Ok(time) => json!(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        Err(_) => Value::Null,
    })
}

/// The fields of a time's message.
pub(super) struct Instant {
    pub(super) seconds: i64,
    pub(super) nanos: i64,
}

/// Parses a time. `None` if `text` is not a time.
pub(super) fn read_time(text: &str, with_micros: bool) -> Option<Instant> {
    let time: Timestamp = text.parse().ok()?;
    // The fraction is always positive and counts from the second before it, even for times before 1970.
    let (micros, in_second) = (time.as_microsecond(), 1_000_000);
    let nanos = if with_micros { micros.rem_euclid(in_second) * 1000 } else { 0 };
    Some(Instant { seconds: micros.div_euclid(in_second), nanos })
}

pub(super) fn int_or_string(message: &[u8]) -> Result<Value, WireError> {
    match wire::last_integer(message, 1)?.unwrap_or_default() {
        0 => Ok(json!(wire::last_integer(message, 2)?.unwrap_or_default())),
        _ => Ok(json!(wire::last_text(message, 3)?)),
    }
}

/// Decodes a quantity to JSON. An empty quantity becomes zero.
pub(super) fn quantity(message: &[u8]) -> Result<Value, WireError> {
    Ok(match wire::last_text(message, 1)? {
        "" => json!("0"),
        text => json!(text),
    })
}
