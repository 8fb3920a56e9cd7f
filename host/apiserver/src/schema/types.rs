//! Checks that a value has the type in its schema. Follows `kube-openapi/pkg/validation/validate/type.go`.

use serde_json::Value;

use super::numbers::{self, go_float};
use super::{Kind, Mark, Node, error};
use crate::cause::Cause;

/// The types that a value may have, like `ConvertJSONSchemaPropsWithPostProcess` of `apiextensions-apiserver`.
pub(super) fn expected(node: &Node) -> Vec<&'static str> {
    if node.is(Mark::IntOrString) {
        return vec![Kind::Integer.name(), Kind::String.name()];
    }
    node.kind.map(Kind::name).into_iter().collect()
}

/// Reports a value of the wrong type. Returns how many checks have passed.
///
/// The format takes precedence over the type. If a number, boolean or object has neither the type nor the format, the
/// error is about the format. If there is a format and no number is expected, a list is accepted.
pub(super) fn check(node: &Node, value: &Value, path: &str, found: &mut Vec<Cause>) -> usize {
    let expected = expected(node);
    let format = node.checks.format.as_ref().map(|format| format.name.as_str());
    if expected.is_empty() && format.is_none() {
        return 0;
    }
    let may_be_number = expected.iter().any(|name| ["integer", "number"].contains(name));
    let (actual, actual_format) = type_of(value);
    let fits = expected.contains(&actual) || is_other_number(&expected, value);
    let is_text_or_list = matches!(value, Value::String(_) | Value::Array(_));
    match format {
        Some(format) if !is_text_or_list && !fits && actual_format != format => {
            found.push(error::type_invalid(path, format, actual_format));
            1
        }
        Some(_) if is_text_or_list && !may_be_number => 2,
        _ if !fits => {
            found.push(error::type_invalid(path, &expected.join(","), actual));
            1
        }
        _ => 2,
    }
}

/// Whether a number is allowed as the other kind of number: an integer as a `number`, or a float as an `integer` if it
/// has no fraction and can be represented exactly.
fn is_other_number(expected: &[&str], value: &Value) -> bool {
    match value.as_number().map(|number| (number, go_float(number))) {
        Some((_, Some(float))) => expected.contains(&"integer") && numbers::is_json_integer(float),
        Some((_, None)) => expected.contains(&"number"),
        None => false,
    }
}

/// The type and the format that a real server's decoder assigns to a value.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if go_float(number).is_some() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Null | Value::Object(_) => ("object", ""),
    }
}
