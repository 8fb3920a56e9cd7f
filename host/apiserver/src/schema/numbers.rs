//! Treats numbers like a real server: they are 64-bit integers or floats. A number such as `1.0` is a float.
//!
//! The checks follow `numberValidator` of `kube-openapi/pkg/validation/validate/validator.go` and `values.go`.

use serde_json::{Number, Value};

use super::error::{self, number_text};
use super::{Bound, Kind, Node};
use crate::cause::Cause;

/// The value of a number, if Go's decoder reads it as a float, because it has a fraction or an exponent or does not fit
/// in 64 bits.
pub(super) fn go_float(number: &Number) -> Option<f64> {
    if number.as_i64().is_some() { None } else { number.as_f64() }
}

/// Whether a float is an integer that JavaScript can represent exactly, like `swag.IsFloat64AJSONInteger`.
pub(super) fn is_json_integer(float: f64) -> bool {
    const JSON_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;
    const EPSILON: f64 = 1e-9;
    let difference = (float - float.trunc()).abs();
    float.abs() <= JSON_INTEGER_MAX
        && (difference == 0.0 || (float.trunc() != 0.0 && difference / (float.abs() + float.trunc().abs()) < EPSILON))
}

/// Turns floats without a fraction into integers. In a real server, this happens when an object is stored and read
/// again, because Go writes `1.0` and `1e3` as `1` and `1000`.
pub(crate) fn settle(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = go_float(number).filter(|float| float.fract() == 0.0) {
                let digits = format!("{float}");
                let whole =
                    digits.parse::<i64>().map(Number::from).or_else(|_| digits.parse::<u64>().map(Number::from));
                *number = whole.ok().or_else(|| Number::from_f64(float)).unwrap_or_else(|| number.clone());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::Object(fields) => fields.values_mut().for_each(settle),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Whether a number equals an allowed one after Go has converted it to the same type, as in `basicCommonValidator`.
pub(super) fn is_alike(allowed: &Value, value: &Value) -> bool {
    let (Value::Number(allowed), Value::Number(value)) = (allowed, value) else { return false };
    match (go_float(allowed), go_float(value)) {
        (None, Some(value)) => allowed.as_f64() == Some(value.trunc()),
        (Some(allowed), _) => value.as_f64() == Some(allowed),
        (None, None) => allowed == value,
    }
}

/// Appends the errors in a number. Returns how many checks have passed.
pub(super) fn check(node: &Node, number: &Number, path: &str, found: &mut Vec<Cause>) -> usize {
    let kind = NumericType::of(node);
    let checks = &node.checks;
    found.extend(kind.refusal(number, "Checked", path));
    if let Some(factor) = &checks.multiple_of {
        let refusal = kind.refusal(&as_float(factor), "MultipleOf", path);
        let is_native = refusal.is_none();
        found.extend(refusal);
        found.extend(check_multiple(number, factor, is_native, path));
    }
    if let Some(bound) = &checks.minimum {
        found.extend(check_bound(&kind, number, bound, Side::Minimum, path));
    }
    if let Some(bound) = &checks.maximum {
        found.extend(check_bound(&kind, number, bound, Side::Maximum, path));
    }
    2
}

/// Converts a number to a float, because limits are floats in Go.
fn as_float(number: &Number) -> Number {
    number.as_f64().and_then(Number::from_f64).unwrap_or_else(|| number.clone())
}

/// The type and format of a schema, which limit the range of its numbers.
struct NumericType<'a> {
    kind: Option<Kind>,
    format: &'a str,
}

impl<'a> NumericType<'a> {
    fn of(node: &'a Node) -> Self {
        let kind = node.kind.filter(|kind| matches!(kind, Kind::Integer | Kind::Number));
        let format = node.checks.format.as_ref().filter(|_| kind.is_some());
        Self { kind, format: format.map_or("", |format| format.name.as_str()) }
    }

    /// The error for a number that the type or format cannot represent.
    fn refusal(&self, number: &Number, whose: &str, path: &str) -> Option<Cause> {
        if self.holds(number) {
            return None;
        }
        let format =
            if self.format.is_empty() { "(default format)".to_owned() } else { format!("with format {}", self.format) };
        let kind = self.kind.map_or("", Kind::name);
        Some(error::unplaced(format!("{whose} value must be of type {kind} {format} in {path}")))
    }

    /// Whether the type and format can represent the number. Decides by its text, like Go's `strconv`.
    fn holds(&self, number: &Number) -> bool {
        let digits = go_float(number).map_or_else(|| number.to_string(), |float| float.to_string());
        match (self.kind, self.format) {
            (Some(Kind::Integer), "int32") => digits.parse::<i32>().is_ok(),
            (Some(Kind::Integer), _) => digits.parse::<i64>().is_ok(),
            (Some(Kind::Number), "float") => digits.parse::<f32>().is_ok_and(f32::is_finite),
            _ => true,
        }
    }
}

/// The error if a number is not a multiple of `factor`. If the number is an integer, the fraction of the factor is cut
/// off.
fn check_multiple(number: &Number, factor: &Number, is_native: bool, path: &str) -> Option<Cause> {
    let integers = number.as_i64().filter(|_| is_native).zip(factor.as_f64().map(cut_off));
    let (is_multiple, factor, shown) = if let Some((value, factor)) = integers {
        if factor <= 0 {
            let detail = format!("factor MultipleOf declared for {path} must be positive: {factor}");
            return Some(error::invalid(path, &Value::from(factor), detail));
        }
        (value % factor == 0, factor.to_string(), Value::Number(number.clone()))
    } else {
        let (value, by) = (number.as_f64()?, factor.as_f64()?);
        if by <= 0.0 {
            let by = as_float(factor);
            let detail = format!("factor MultipleOf declared for {path} must be positive: {}", number_text(&by));
            return Some(error::invalid(path, &Value::Number(by), detail));
        }
        let quotient = if by < 1.0 { 1.0 / by * value } else { value / by };
        (is_json_integer(quotient), number_text(&as_float(factor)), Value::Number(as_float(number)))
    };
    (!is_multiple).then(|| error::invalid(path, &shown, format!("{path} in body should be a multiple of {factor}")))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Minimum,
    Maximum,
}

fn check_bound(kind: &NumericType<'_>, number: &Number, bound: &Bound, side: Side, path: &str) -> Vec<Cause> {
    let whose = if side == Side::Minimum { "Minimum boundary" } else { "Maximum boundary" };
    let refusal = kind.refusal(&as_float(&bound.at), whose, path);
    let integers = number.as_i64().filter(|_| refusal.is_none()).zip(bound.at.as_f64().map(cut_off));
    let (ordering, at, shown) = if let Some((value, at)) = integers {
        (Some(value.cmp(&at)), at.to_string(), Value::Number(number.clone()))
    } else {
        let ordering = number.as_f64().zip(bound.at.as_f64()).and_then(|(value, at)| value.partial_cmp(&at));
        (ordering, number_text(&as_float(&bound.at)), Value::Number(as_float(number)))
    };
    let is_beyond = ordering.is_some_and(|ordering| match side {
        _ if bound.exclusive && ordering.is_eq() => true,
        Side::Minimum => ordering.is_lt(),
        Side::Maximum => ordering.is_gt(),
    });
    let words = match (side, bound.exclusive) {
        (Side::Minimum, false) => "greater than or equal to",
        (Side::Minimum, true) => "greater than",
        (Side::Maximum, false) => "less than or equal to",
        (Side::Maximum, true) => "less than",
    };
    let cause = is_beyond.then(|| error::invalid(path, &shown, format!("{path} in body should be {words} {at}")));
    refusal.into_iter().chain(cause).collect()
}

/// Converts a float to an integer like Go.
#[expect(clippy::cast_possible_truncation, reason = "Go cuts off, too")]
fn cut_off(float: f64) -> i64 {
    float as i64
}
