//! Errors of an object, or of a schema, in the words of the Kubernetes API server.
//!
//! The texts follow `k8s.io/apimachinery/pkg/util/validation/field/errors.go`: people grep for them, and tools parse
//! them, so they are reproduced exactly.

use std::fmt;

use serde_json::{Number, Value};

/// A schema that is not structural, or not a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub(crate) struct SchemaError {
    /// Where, beneath `openAPIV3Schema`: `properties[spec].type`. Empty for the root.
    pub(crate) path: String,
    /// The error as Kubernetes says it: `Required value: must not be empty for specified object fields`.
    pub(crate) reason: String,
}

/// Why a field is refused; the `reason` of a cause in a `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Required,
    Duplicate,
    Invalid,
    TypeInvalid,
    NotSupported,
    TooLong,
    TooMany,
}

impl Reason {
    fn cause(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    field: String,
    reason: Reason,
    value: Option<String>,
    detail: String,
}

impl FieldError {
    /// A field that must be there and is not.
    pub(crate) fn required(field: &str) -> Self {
        Self::new(field, Reason::Required, None, String::new())
    }

    /// A value that breaks a rule, which `detail` states.
    pub(crate) fn invalid(field: &str, value: &Value, detail: String) -> Self {
        Self::new(field, Reason::Invalid, Some(shown(value)), detail)
    }

    /// A value of another type than the schema's; `found` names the type, or is the text that has not the right format.
    pub(crate) fn type_invalid(field: &str, expected: &str, found: &str) -> Self {
        let quoted = quote(found);
        let detail = format!("{field} in body must be of type {expected}: {quoted}");
        Self::new(field, Reason::TypeInvalid, Some(quoted), detail)
    }

    /// A value that is not one of the enumerated ones.
    pub(crate) fn not_supported(field: &str, value: &Value, supported: &[Value]) -> Self {
        let plain = |value: &Value| match value {
            Value::String(text) => quote(text),
            other => quote(&other.to_string()),
        };
        let names: Vec<String> = supported.iter().map(plain).collect();
        let detail = format!("supported values: {}", names.join(", "));
        Self::new(field, Reason::NotSupported, Some(shown(value)), detail)
    }

    /// A second item with the same identity in a set or a map.
    pub(crate) fn duplicate(field: &str, value: &Value) -> Self {
        Self::new(field, Reason::Duplicate, Some(shown(value)), String::new())
    }

    /// A text longer than allowed.
    pub(crate) fn too_long(field: &str, most: u64) -> Self {
        let unit = if most == 1 { "byte" } else { "bytes" };
        Self::new(field, Reason::TooLong, None, format!("may not be more than {most} {unit}"))
    }

    /// More items or properties than allowed.
    pub(crate) fn too_many(field: &str, found: usize, most: u64) -> Self {
        let unit = if most == 1 { "item" } else { "items" };
        Self::new(field, Reason::TooMany, Some(found.to_string()), format!("must have at most {most} {unit}"))
    }

    /// A rule whose failure Kubernetes does not pin to a field: logical operators and ranges of number formats.
    pub(crate) fn unplaced(detail: String) -> Self {
        Self::new("", Reason::Invalid, Some(quote("")), detail)
    }

    fn new(field: &str, reason: Reason, value: Option<String>, detail: String) -> Self {
        let field = if field.is_empty() { "<nil>" } else { field };
        Self { field: field.to_owned(), reason, value, detail }
    }

    /// The dotted path of the field; `<nil>` for the object itself, as Kubernetes prints it.
    pub(crate) fn field(&self) -> &str {
        &self.field
    }

    /// The reason of the cause: `FieldValueInvalid` and the like.
    pub(crate) fn reason(&self) -> &'static str {
        self.reason.cause()
    }

    /// The message of the cause, without the field.
    pub(crate) fn message(&self) -> String {
        let mut message = self.reason.words().to_owned();
        for part in self.value.iter().chain(Some(&self.detail).filter(|detail| !detail.is_empty())) {
            message.push_str(": ");
            message.push_str(part);
        }
        message
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.field, self.message())
    }
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
pub(super) fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float_text(float),
        _ => number.to_string(),
    }
}

/// A float as Go's `%v` prints it: with an exponent from 1e+06 upwards and below 1e-04.
pub(super) fn float_text(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if exponent < -4 => format!("{digits}e-{:02}", exponent.unsigned_abs()),
        Ok(exponent) if exponent >= 6 => format!("{digits}e+{exponent:02}"),
        _ => float.to_string(),
    }
}
