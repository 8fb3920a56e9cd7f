//! The reasons for which an object is invalid, in the words of the Kubernetes API server.

use serde_json::Value;

/// One reason for which an object is invalid. It becomes an entry of `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[error("{field}: {message}")]
pub(crate) struct Cause {
    /// A reason such as `FieldValueRequired`.
    pub(crate) reason: &'static str,
    /// The error without the field's path: `Required value: name or generateName is required`.
    pub(crate) message: String,
    /// The dotted path of the field.
    pub(crate) field: String,
}

impl Cause {
    /// A required field that is missing.
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Cause {
        let message = if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Cause { reason: "FieldValueRequired", message, field: field.into() }
    }

    /// A field with an invalid value; `value` is shown as JSON.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Cause {
        Cause::invalid_shown(field, &value.to_string(), detail)
    }

    /// A field with an invalid value; `shown` is the text that stands for the value.
    pub(crate) fn invalid_shown(field: impl Into<String>, shown: &str, detail: &str) -> Cause {
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        Cause { reason: "FieldValueInvalid", message: format!("Invalid value: {shown}{detail}"), field: field.into() }
    }

    /// A value that occurs twice; `shown` is the text that stands for the value.
    pub(crate) fn duplicate(field: impl Into<String>, shown: &str) -> Cause {
        Cause { reason: "FieldValueDuplicate", message: format!("Duplicate value: {shown}"), field: field.into() }
    }

    /// A list of more items than are allowed.
    pub(crate) fn too_many(field: impl Into<String>, found: usize, most: usize) -> Cause {
        let message = format!("Too many: {found}: must have at most {most} items");
        Cause { reason: "FieldValueTooMany", message, field: field.into() }
    }

    /// A text of more bytes than are allowed.
    pub(crate) fn too_long(field: impl Into<String>, most: usize) -> Cause {
        let message = format!("Too long: may not be more than {most} bytes");
        Cause { reason: "FieldValueTooLong", message, field: field.into() }
    }

    /// A field that must not be set, or must not be changed like this.
    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Cause {
        Cause { reason: "FieldValueForbidden", message: format!("Forbidden: {detail}"), field: field.into() }
    }

    /// A value outside the set of those allowed.
    pub(crate) fn not_supported(field: impl Into<String>, value: &Value, allowed: &[&str]) -> Cause {
        let allowed: Vec<String> = allowed.iter().map(|value| format!("{value:?}")).collect();
        Cause {
            reason: "FieldValueNotSupported",
            message: format!("Unsupported value: {value}: supported values: {}", allowed.join(", ")),
            field: field.into(),
        }
    }
}
