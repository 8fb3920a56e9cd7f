//! Compares expected with actual JSON, and reports all differences.

use std::fmt::{self, Write as _};

use serde_json::{Map, Number, Value};

use crate::languages::Language;

/// How many bytes of a value are shown.
const SHOWN_VALUE_BYTES: usize = 600;
/// How many findings of one language are shown. One mistake often causes many findings.
const SHOWN_FINDINGS_MAX: usize = 25;

/// The findings about all languages, reported at the end.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<(String, String)>);

impl Findings {
    /// Adds a finding about a language in a case.
    pub(crate) fn add(&mut self, language: &Language, case: &str, found: Result<(), String>) {
        self.add_of(&language.to_string(), case, found);
    }

    /// As [`Self::add`], about any plugin.
    pub(crate) fn add_of(&mut self, plugin: &str, case: &str, found: Result<(), String>) {
        if let Err(found) = found {
            self.0.push((plugin.to_owned(), format!("{plugin}: {case}\n      {found}")));
        }
    }

    /// # Panics
    /// If there are findings.
    pub(crate) fn end(self) {
        let mut text = String::new();
        let mut plugins: Vec<_> = self.0.iter().map(|(plugin, _)| plugin).collect();
        plugins.dedup();
        for plugin in plugins {
            let of_it = || self.0.iter().filter(|(of, _)| of == plugin);
            for (_, finding) in of_it().take(SHOWN_FINDINGS_MAX) {
                let _ = write!(text, "\n  {finding}");
            }
            if of_it().count() > SHOWN_FINDINGS_MAX {
                let _ = write!(text, "\n  {plugin}: and {} more", of_it().count() - SHOWN_FINDINGS_MAX);
            }
        }
        assert!(self.0.is_empty(), "{} findings:{text}\n", self.0.len());
    }
}

/// An unexpected value and its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pointer: String,
    expected: String,
    got: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointer, expected, got } = self;
        let place = if pointer.is_empty() { String::new() } else { format!("at {pointer}: ") };
        write!(f, "{place}expected {expected}\n      {:>1$}got      {got}", "", place.chars().count())
    }
}

/// Compares JSON. Numbers are compared by value, so 1.0 equals 1. Null fields may be left out.
///
/// The expected value may also be an object with one key: `$oneOf` of values, `$text` (any text that is not empty),
/// `$contains` a text, `$any`, `$exactly` (nulls are not left out), `$between` two numbers, `$numbers` (how many, from,
/// to), `$distinct` (this many different texts), `$truths` (an object whose values are all true), `$printed` and
/// `$refused` (results of steps that a language need not have).
pub(crate) fn same(expected: &Value, got: &Value) -> Result<(), String> {
    difference(expected, got, "").map_or(Ok(()), |difference| Err(difference.to_string()))
}

fn difference(expected: &Value, got: &Value, pointer: &str) -> Option<Difference> {
    let differs = || Some(Difference { pointer: pointer.to_owned(), expected: shown(expected), got: shown(got) });
    match (expected, got) {
        (Value::Object(pattern), _) if is_pattern(pattern) => {
            if fits(pattern, got) {
                None
            } else {
                differs()
            }
        }
        (Value::Number(expected), Value::Number(got)) => {
            if equal(expected, got) {
                None
            } else {
                differs()
            }
        }
        (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
            let mut pairs = expected.iter().zip(got).enumerate();
            pairs.find_map(|(index, (expected, got))| difference(expected, got, &format!("{pointer}/{index}")))
        }
        (Value::Object(expected), Value::Object(got)) => {
            let keys = expected.keys().chain(got.keys().filter(|key| !expected.contains_key(*key)));
            let part = |of: &Map<String, Value>, key: &str| of.get(key).cloned().unwrap_or_default();
            keys.into_iter()
                .find_map(|key| difference(&part(expected, key), &part(got, key), &format!("{pointer}/{key}")))
        }
        _ => {
            if expected == got {
                None
            } else {
                differs()
            }
        }
    }
}

fn is_pattern(object: &Map<String, Value>) -> bool {
    object.len() == 1 && object.keys().all(|key| key.starts_with('$'))
}

fn fits(pattern: &Map<String, Value>, got: &Value) -> bool {
    pattern.iter().all(|(key, argument)| match key.as_str() {
        "$any" => true,
        "$text" => got.as_str().is_some_and(|text| !text.is_empty()),
        "$contains" => got.as_str().zip(argument.as_str()).is_some_and(|(text, part)| text.contains(part)),
        "$truths" => got.as_object().is_some_and(|truths| !truths.is_empty() && truths.values().all(|it| *it == true)),
        "$exactly" => argument == got,
        "$between" => got.as_f64().is_some_and(|number| (low(argument, 0)..=low(argument, 1)).contains(&number)),
        "$numbers" => got.as_array().is_some_and(|all| {
            let is_one =
                |number: &Value| number.as_f64().is_some_and(|it| low(argument, 1) <= it && it <= low(argument, 2));
            Some(all.len()) == length(&argument[0]) && all.iter().all(is_one)
        }),
        "$distinct" => got.as_array().is_some_and(|all| {
            let texts: std::collections::HashSet<_> = all.iter().filter_map(Value::as_str).collect();
            Some(texts.len()) == length(argument) && Some(all.len()) == length(argument)
        }),
        "$printed" => got["ok"].is_null() && got["error"].is_null() || is_unsupported(got),
        // A probe that does not know the step also reports an error.
        "$refused" => {
            let message = got["error"]["message"].as_str();
            message.is_some_and(|text| !text.is_empty() && !text.contains("no step")) || is_unsupported(got)
        }
        "$oneOf" => argument.as_array().is_some_and(|all| all.iter().any(|one| same(one, got).is_ok())),
        _ => false,
    })
}

/// Whether a step's result says that the language does not support the step.
pub(crate) fn is_unsupported(result: &Value) -> bool {
    result["unsupported"] == true || result["ok"]["unsupported"] == true
}

fn low(argument: &Value, index: usize) -> f64 {
    argument[index].as_f64().unwrap_or(f64::NAN)
}

fn length(argument: &Value) -> Option<usize> {
    argument.as_u64().and_then(|length| length.try_into().ok())
}

/// Compares numbers by value, also integers with floats: 2^53 + 1 does not equal the float to which it would be
/// rounded.
fn equal(one: &Number, other: &Number) -> bool {
    let whole = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.as_f64() == other.as_f64(),
        (Some(whole), None) => is_whole(other, whole),
        (None, Some(whole)) => is_whole(one, whole),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::float_cmp, reason = "what is compared is whole, and far smaller")]
fn is_whole(number: &Number, whole: i128) -> bool {
    number.as_f64().is_some_and(|float| float.trunc() == float && float.abs() < 1e30 && float as i128 == whole)
}

/// A value as messages show it.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= SHOWN_VALUE_BYTES {
        return text;
    }
    format!("{}… ({} bytes)", &text[..text.floor_char_boundary(SHOWN_VALUE_BYTES)], text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::same;

    #[test]
    fn numbers_are_equal_by_value_and_nulls_may_be_left_out() {
        assert_eq!(same(&json!({"a": 1, "b": null}), &json!({"a": 1.0, "c": null})), Ok(()));
        assert!(same(&json!(9_007_199_254_740_993_i64), &json!(9_007_199_254_740_992.0)).is_err());
        assert!(same(&json!([1]), &json!([1, null])).is_err());
        assert_eq!(same(&json!(u64::MAX), &json!(u64::MAX)), Ok(()));
        assert!(same(&json!(u64::MAX), &json!(18_446_744_073_709_551_616.0)).is_err());
    }

    #[test]
    fn a_difference_is_reported_with_its_place() {
        let found = same(&json!({"a": [1, {"b": 2}]}), &json!({"a": [1, {"b": 3}]})).unwrap_err();
        assert!(found.starts_with("at /a/1/b: expected 2"), "{found}");
        assert!(same(&json!({"$oneOf": [1, {"$text": true}]}), &json!("x")).is_ok());
        assert!(same(&json!({"$truths": true}), &json!({"a": true, "b": false})).is_err());
    }
}
