//! The differences between two end states, and the reasons that the description of a drop-in gives for them.

use std::fmt::{self, Display};

use anyhow::{Context, ensure};
use regex::Regex;
use serde_json::{Map, Value};
use windlass_tests::originals::Difference;
use windlass_tests::state::State;

/// A value that differs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// The object, as the state calls it.
    object: String,
    /// The JSON pointer of the value. Empty if only one state has the object.
    pointer: String,
    original: Value,
    dropin: Value,
}

impl Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, pointer, original, dropin } = self;
        write!(formatter, "{object} {pointer}\n  original {original}\n  drop-in  {dropin}")
    }
}

/// All values that differ.
pub(crate) fn differences(original: &State, dropin: &State) -> Vec<Found> {
    let mut found = Vec::new();
    let names = original.0.keys().chain(dropin.0.keys().filter(|name| !original.0.contains_key(*name)));
    for name in names {
        let of = |state: &State| state.0.get(name).cloned().unwrap_or_default();
        add(&mut found, name, String::new(), &of(original), &of(dropin));
    }
    found
}

/// Adds the values that differ within a value.
fn add(found: &mut Vec<Found>, object: &str, pointer: String, original: &Value, dropin: &Value) {
    match (original, dropin) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                add(found, object, pointer, &of(a), &of(b));
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                add(found, object, format!("{pointer}/{index}"), a, b);
            }
        }
        (a, b) if a == b || (is_empty(a) && is_empty(b)) => {}
        (original, dropin) => {
            let (original, dropin) = (original.clone(), dropin.clone());
            found.push(Found { object: object.to_owned(), pointer, original, dropin });
        }
    }
}

/// Whether the value means the same as no value: an empty map of annotations is none.
fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Finds the reason for each difference, and returns how many differences each reason explains.
///
/// # Errors
///
/// If a difference has no reason, or an entry of `expected` that always applies explains none.
pub(crate) fn explain(found: &[Found], expected: &[Difference], always: &[Difference]) -> anyhow::Result<Vec<usize>> {
    let (mut counts, mut unexplained) = (vec![0; expected.len()], Vec::new());
    for difference in found {
        if let Some(index) = position(expected, difference)? {
            counts[index] += 1;
        } else if position(always, difference)?.is_none() {
            unexplained.push(difference.to_string());
        }
    }
    ensure!(unexplained.is_empty(), "differences without a reason:\n{}", unexplained.join("\n"));
    let unused = counts.iter().zip(expected).find(|(count, entry)| **count == 0 && !entry.sometimes);
    ensure!(unused.is_none(), "a reason explains no difference: {unused:?}");
    Ok(counts)
}

/// The position of the entry that describes a difference.
fn position(entries: &[Difference], found: &Found) -> anyhow::Result<Option<usize>> {
    for (index, entry) in entries.iter().enumerate() {
        if matches(&entry.objects, &found.object)? && matches(&entry.at, &found.pointer)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Whether a text fits a pattern, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> anyhow::Result<bool> {
    let pattern = regex::escape(pattern).replace(r"\*", ".*");
    Ok(Regex::new(&format!("^{pattern}$")).context("a pattern")?.is_match(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(object: Value) -> State {
        State([("ConfigMap a/b".to_owned(), object)].into())
    }

    fn entry(objects: &str, at: &str) -> Difference {
        let (objects, at, reason) = (objects.to_owned(), at.to_owned(), "a reason".to_owned());
        Difference { objects, at, reason, sometimes: false, readme: None }
    }

    #[test]
    fn a_difference_has_the_pointer_of_the_innermost_value() {
        let original = state(json!({"metadata": {"annotations": {"x/y": "1"}}, "data": {"same": "1"}}));
        let dropin = state(json!({"metadata": {}, "data": {"same": "1"}}));
        let found = differences(&original, &dropin);
        let pointers: Vec<_> = found.iter().map(|it| it.pointer.as_str()).collect();
        assert_eq!(pointers, ["/metadata/annotations"]);
        let dropin = state(json!({"metadata": {"annotations": {"x/y": "2"}}, "data": {"same": "1"}}));
        assert_eq!(differences(&original, &dropin)[0].pointer, "/metadata/annotations/x~1y");
        let found = differences(&state(json!({"a": [1, {"b": 2}]})), &state(json!({"a": [1, {"b": 3}]})));
        assert_eq!(found[0].pointer, "/a/1/b");
    }

    #[test]
    fn an_object_that_one_state_lacks_is_a_difference() {
        let found = differences(&state(json!({"data": {}})), &State::default());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].pointer.as_str(), &found[0].dropin), ("", &Value::Null));
    }

    #[test]
    fn no_annotations_and_empty_annotations_are_equal() {
        let found = differences(&state(json!({"metadata": {"annotations": {}}})), &state(json!({"metadata": {}})));
        assert_eq!(found, []);
    }

    #[test]
    fn each_difference_needs_a_reason_and_each_reason_a_difference() -> anyhow::Result<()> {
        let found = differences(&state(json!({"data": {"a": "1"}})), &state(json!({"data": {"a": "2"}})));
        assert!(explain(&found, &[], &[]).is_err());
        assert_eq!(explain(&found, &[entry("ConfigMap */b", "/data/*")], &[])?, [1]);
        assert_eq!(explain(&found, &[], &[entry("*", "*")])?, [0; 0]);
        assert!(explain(&found, &[entry("*", "*"), entry("Secret *", "*")], &[]).is_err());
        assert_eq!(explain(&[], &[], &[entry("*", "*")])?, [0; 0]);
        assert_eq!(explain(&[], &[Difference { sometimes: true, ..entry("*", "*") }], &[])?, [0]);
        Ok(())
    }
}
