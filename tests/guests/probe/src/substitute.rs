//! Placeholders in a step for values that are known only when the step runs.
//!
//! - `{"$from": "1", "pointer": "/metadata/uid"}`: this part of the result, or of the error, of the step `1`. The step
//!   `request` is the request, and `primary` is its object.
//! - `{"$repeat": "x", "times": 1000}`: a text that would be too long for an object.
//! - `{"$json": …}`: the JSON text of a value.
//! - `{"$concat": ["a", …]}`: a concatenation of texts.

use std::collections::BTreeMap;

use serde_json::Value;

/// The results of the steps so far, by their ids.
pub(crate) type Known = BTreeMap<String, Value>;

/// Replaces all placeholders in `value`.
///
/// # Panics
/// If a step has not run yet, or its result has no value at the pointer.
pub(crate) fn substitute(value: &Value, known: &Known) -> Value {
    match value {
        Value::Array(values) => values.iter().map(|value| substitute(value, known)).collect(),
        Value::Object(fields) => {
            if let Some(id) = fields.get("$from") {
                return from(text(id), fields.get("pointer").map_or("", text), known);
            }
            if let Some(repeated) = fields.get("$repeat") {
                let times = fields.get("times").and_then(Value::as_u64).unwrap_or_default();
                return text(repeated).repeat(usize::try_from(times).unwrap_or_default()).into();
            }
            if let Some(inner) = fields.get("$json") {
                return substitute(inner, known).to_string().into();
            }
            if let Some(parts) = fields.get("$concat") {
                let parts = substitute(parts, known);
                return parts.as_array().into_iter().flatten().map(text).collect::<String>().into();
            }
            fields.iter().map(|(name, value)| (name.clone(), substitute(value, known))).collect()
        }
        other => other.clone(),
    }
}

fn from(id: &str, pointer: &str, known: &Known) -> Value {
    let result = known.get(id).unwrap_or_else(|| panic!("probe: no step {id} has run"));
    let found = result.pointer(pointer);
    found.unwrap_or_else(|| panic!("probe: there is nothing at {pointer:?} of step {id}: {result}")).clone()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("probe: {value} is no text"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_placeholder_is_replaced_at_any_depth() {
        let known = Known::from([("1".to_owned(), json!({"metadata": {"uid": "u"}}))]);
        let step = json!({
            "target": {"uid": {"$from": "1", "pointer": "/metadata/uid"}},
            "list": [{"$repeat": "ab", "times": 2}, 7],
            "text": {"$json": {"whole": {"$from": "1"}}},
            "joined": {"$concat": ["a", {"$from": "1", "pointer": "/metadata/uid"}]},
        });
        let expected = json!({
            "target": {"uid": "u"}, "list": ["abab", 7],
            "text": r#"{"whole":{"metadata":{"uid":"u"}}}"#, "joined": "au",
        });
        assert_eq!(substitute(&step, &known), expected);
    }

    #[test]
    #[should_panic(expected = "no step 2 has run")]
    fn a_reference_to_a_step_that_has_not_run_panics() {
        substitute(&json!({"$from": "2"}), &Known::new());
    }
}
