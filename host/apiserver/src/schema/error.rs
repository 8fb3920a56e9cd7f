//! Errors in an object or a schema, in the words of the Kubernetes API server.
//!
//! The texts are exactly those of `k8s.io/apimachinery/pkg/util/validation/field/errors.go`, because people search for
//! them and tools parse them.

use serde_json::{Number, Value};

use crate::cause::Cause;

/// The error for a schema that is not structural, or not a schema at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub(crate) struct SchemaError {
    /// The path below `openAPIV3Schema`, such as `properties[spec].type`. Empty for the root.
    pub(crate) path: String,
    /// The error in Kubernetes' words, such as `Required value: must not be empty for specified object fields`.
    pub(crate) reason: String,
    /// The `reason` of the cause. `None` if it follows from the text.
    pub(crate) kind: Option<&'static str>,
}

impl SchemaError {
    /// The `reason` of the cause that reports this error.
    pub(crate) fn cause(&self) -> &'static str {
        if let Some(kind) = self.kind {
            return kind;
        }
        let words = self.reason.split(':').next().unwrap_or_default();
        match words {
            "Required value" => "FieldValueRequired",
            "Forbidden" => "FieldValueForbidden",
            "Unsupported value" => "FieldValueNotSupported",
            "Duplicate value" => "FieldValueDuplicate",
            "Internal error" => "InternalError",
            _ => "FieldValueInvalid",
        }
    }
}

/// The error for a missing required field.
pub(super) fn required(field: &str) -> Cause {
    cause(field, "FieldValueRequired", "Required value", None, String::new())
}

/// The error for a value that breaks a rule. `detail` states the rule.
pub(super) fn invalid(field: &str, value: &Value, detail: String) -> Cause {
    cause(field, "FieldValueInvalid", "Invalid value", Some(shown(value)), detail)
}

/// The error for a value of the wrong type or format. `found` is the name of the value's type, or the text that does
/// not have the format.
pub(super) fn type_invalid(field: &str, expected: &str, found: &str) -> Cause {
    let quoted = quote(found);
    let detail = format!("{field} in body must be of type {expected}: {quoted}");
    cause(field, "FieldValueTypeInvalid", "Invalid value", Some(quoted), detail)
}

/// The error for a value that is not in the enumeration.
pub(super) fn not_supported(field: &str, value: &Value, supported: &[Value]) -> Cause {
    let plain = |value: &Value| match value {
        Value::String(text) => quote(text),
        other => quote(&other.to_string()),
    };
    let names: Vec<String> = supported.iter().map(plain).collect();
    let detail = format!("supported values: {}", names.join(", "));
    cause(field, "FieldValueNotSupported", "Unsupported value", Some(shown(value)), detail)
}

/// The error for a second item with the same identity in a list of the type `set` or `map`.
pub(super) fn duplicate(field: &str, value: &Value) -> Cause {
    cause(field, "FieldValueDuplicate", "Duplicate value", Some(shown(value)), String::new())
}

/// The error for a text that is too long.
pub(super) fn too_long(field: &str, most: u64) -> Cause {
    let unit = if most == 1 { "byte" } else { "bytes" };
    cause(field, "FieldValueTooLong", "Too long", None, format!("may not be more than {most} {unit}"))
}

/// The error for too many items or properties.
pub(super) fn too_many(field: &str, found: usize, most: u64) -> Cause {
    let unit = if most == 1 { "item" } else { "items" };
    cause(field, "FieldValueTooMany", "Too many", Some(found.to_string()), format!("must have at most {most} {unit}"))
}

/// The error for a value that breaks a logical operator or the range of a number format. In Kubernetes, these errors
/// have no field.
pub(super) fn unplaced(detail: String) -> Cause {
    cause("", "FieldValueInvalid", "Invalid value", Some(quote("")), detail)
}

/// Makes a cause. If `field` is empty, the cause is about the whole object, and Kubernetes prints `<nil>`.
fn cause(field: &str, reason: &'static str, words: &str, value: Option<String>, detail: String) -> Cause {
    let field = if field.is_empty() { "<nil>" } else { field };
    let detail = Some(detail).filter(|detail| !detail.is_empty());
    let parts: Vec<String> = std::iter::once(words.to_owned()).chain(value).chain(detail).collect();
    Cause { reason, message: parts.join(": "), field: field.to_owned() }
}

/// A value as an error message shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => number_text(number),
        Value::Null => quote(""),
        other => other.to_string(),
    }
}

fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// A number as Go's `%v` prints it.
pub(crate) fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float_text(float),
        _ => number.to_string(),
    }
}

/// A float as Go's `%v` prints it: with an exponent from 1e+06 and below 1e-04.
pub(super) fn float_text(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if exponent < -4 => format!("{digits}e-{:02}", exponent.unsigned_abs()),
        Ok(exponent) if exponent >= 6 => format!("{digits}e+{exponent:02}"),
        _ => float.to_string(),
    }
}
