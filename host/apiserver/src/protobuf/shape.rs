//! The messages whose Go types have a JSON of their own, both ways: times, quantities, raw JSON and the like.

use jiff::Timestamp;
use prost_reflect::{DynamicMessage, Value as Field};
use serde_json::{Value, json};

/// How a message looks as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// An object with the message's fields.
    Struct,
    /// A slice or a map: the only field stands for it.
    Items,
    /// `metav1.Time`, to the second.
    Time,
    /// `metav1.MicroTime`, to the microsecond.
    MicroTime,
    /// A string in the only field.
    Quantity,
    IntOrString,
    /// JSON in the only field.
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

/// A time as JSON; the zero time is null.
pub(super) fn time(message: &DynamicMessage, with_micros: bool) -> Value {
    let seconds = number(message, "seconds");
    let nanos = number(message, "nanos");
    let is_zero = !message.has_field_by_name("seconds") && nanos == 0;
    let nanos = i32::try_from(nanos).unwrap_or_default();
    match Timestamp::new(seconds, nanos) {
        Ok(time) if !is_zero && with_micros => json!(format!("{time:.6}")),
        Ok(time) if !is_zero => json!(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        _ => Value::Null,
    }
}

/// The fields of a time's message.
pub(super) struct Instant {
    pub(super) seconds: i64,
    pub(super) nanos: i64,
}

/// Reads a time; none if `text` is no time.
pub(super) fn read_time(text: &str, with_micros: bool) -> Option<Instant> {
    let time: Timestamp = text.parse().ok()?;
    // Fractions count up from the whole second, also before 1970.
    let (micros, in_second) = (time.as_microsecond(), 1_000_000);
    let nanos = if with_micros { micros.rem_euclid(in_second) * 1000 } else { 0 };
    Some(Instant { seconds: micros.div_euclid(in_second), nanos })
}

pub(super) fn int_or_string(message: &DynamicMessage) -> Value {
    match number(message, "type") {
        0 => json!(number(message, "intVal")),
        _ => json!(string(message, "strVal")),
    }
}

/// The JSON in the first field of the message; none is null.
pub(super) fn raw(message: &DynamicMessage) -> Result<Value, serde_json::Error> {
    let found = message.get_field_by_number(1);
    match found.as_ref().and_then(|bytes| bytes.as_bytes()) {
        Some(bytes) if !bytes.is_empty() => serde_json::from_slice(bytes),
        _ => Ok(Value::Null),
    }
}

/// A number of any width, or 0.
pub(super) fn number(message: &DynamicMessage, name: &str) -> i64 {
    let found = message.get_field_by_name(name);
    let found = found.as_deref();
    found.and_then(Field::as_i64).or_else(|| found.and_then(Field::as_i32).map(i64::from)).unwrap_or_default()
}

pub(super) fn string(message: &DynamicMessage, name: &str) -> String {
    let found = message.get_field_by_name(name);
    found.as_deref().and_then(Field::as_str).unwrap_or_default().to_owned()
}
