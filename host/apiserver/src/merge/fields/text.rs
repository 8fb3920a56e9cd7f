//! The `FieldsV1` text of a set.
//!
//! Follows `structured-merge-diff/fieldpath/serialize.go`. `f:` means a field; `k:`, `v:` and `i:` mean a list item by
//! its keys, its value or its position. `.` marks a member that has members below it, `{}` a member without them.

use serde_json::{Map, Value};

use super::{Entry, Set, Step};
use crate::object::{braces, canonical};

/// A text that is not `FieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldsError {
    /// A level that is not a JSON object.
    #[error("fieldsV1: expected an object, found {0}")]
    NotAnObject(String),
    /// A key with an unknown prefix, or with malformed text after it.
    #[error("fieldsV1: {0:?} does not name a field")]
    NotAStep(String),
}

impl Set {
    /// Reads the `fieldsV1` of an entry.
    pub(crate) fn parse(fields: &Value) -> Result<Self, FieldsError> {
        let Value::Object(fields) = fields else { return Err(FieldsError::NotAnObject(fields.to_string())) };
        let mut set = Self::new();
        for (key, below) in fields.iter().filter(|(key, _)| *key != ".") {
            let step = parse_step(key).ok_or_else(|| FieldsError::NotAStep(key.clone()))?;
            // `{}` marks a member. A level without `.` is not a member, and only leads to the members below it.
            let is_member = below.as_object().is_some_and(|below| below.is_empty() || below.contains_key("."));
            let parsed = Entry { is_member, below: Self::parse(below)? };
            // Two spellings of one step (`1` and `1.0`) are the same field.
            let entry = set.steps.entry(step).or_default();
            entry.is_member |= parsed.is_member;
            entry.below = entry.below.union(&parsed.below);
        }
        set.steps.retain(|_, entry| !entry.is_nothing());
        Ok(set)
    }

    /// Writes the `fieldsV1` of an entry.
    pub(crate) fn print(&self) -> Value {
        Value::Object(self.print_level())
    }

    fn print_level(&self) -> Map<String, Value> {
        let fields = self.steps.iter().map(|(step, entry)| {
            let mut below = entry.below.print_level();
            if entry.is_member && !below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (print_step(step), Value::Object(below))
        });
        fields.collect()
    }
}

fn parse_step(key: &str) -> Option<Step> {
    let (kind, rest) = key.split_once(':')?;
    match kind {
        "f" => Some(Step::Field(rest.to_owned())),
        "k" => match serde_json::from_str(rest).ok()? {
            Value::Object(keys) => Some(Step::Key(keys.iter().map(|(name, v)| (name.clone(), canonical(v))).collect())),
            _ => None,
        },
        "v" => serde_json::from_str(rest).ok().map(|value: Value| Step::Value(canonical(&value))),
        "i" => rest.parse().ok().map(Step::Index),
        _ => None,
    }
}

fn print_step(step: &Step) -> String {
    match step {
        Step::Field(name) => format!("f:{name}"),
        Step::Key(keys) => format!("k:{}", braces(keys)),
        Step::Value(value) => format!("v:{value}"),
        Step::Index(index) => format!("i:{index}"),
    }
}
