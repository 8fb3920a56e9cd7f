//! Computes the set of a value's fields.
//!
//! Follows `structured-merge-diff/typed/tofieldset.go`.

use serde_json::{Map, Value};

use super::{Set, Step, value_step};
use crate::merge::lists::Place;
use crate::object::canonical;
use crate::schema::ListKind;

impl Set {
    /// The fields of a value: leaves, list items, empty maps, nulls, and undeclared fields with fields below them.
    pub(crate) fn of(value: &Value, place: Place<'_>) -> Self {
        match value {
            Value::Object(fields) => Self::of_map(fields, place),
            Value::Array(list) => Self::of_list(list, place),
            _ => Self::new(),
        }
    }

    fn of_map(fields: &Map<String, Value>, place: Place<'_>) -> Self {
        let mut set = Self::new();
        for (name, field) in fields {
            let below = Self::of_field(field, place.field(name));
            let is_empty_map = field.as_object().is_some_and(Map::is_empty);
            let is_member = below.is_none() || is_empty_map || field.is_null() || !place.declares(name);
            set.put(Step::Field(name.clone()), is_member, below.unwrap_or_default());
        }
        set
    }

    fn of_list(list: &[Value], place: Place<'_>) -> Self {
        let mut set = Self::new();
        for (index, item) in list.iter().enumerate() {
            let below = Self::of_field(item, place.item()).unwrap_or_default();
            set.put(step_of_item(item, index, place), true, below);
        }
        set
    }

    /// The fields below a value. `None` if the value is atomic.
    fn of_field(value: &Value, place: Place<'_>) -> Option<Self> {
        match value {
            Value::Object(fields) if !place.is_atomic_map() => Some(Self::of_map(fields, place)),
            Value::Array(list) if *place.list() != ListKind::Atomic => Some(Self::of_list(list, place)),
            _ => None,
        }
    }

    /// Adds a step with the set below it. Does nothing if the step is not a member and the set is empty.
    pub(crate) fn put(&mut self, step: Step, is_member: bool, below: Self) {
        if !is_member && below.is_empty() {
            return;
        }
        let entry = self.steps.entry(step).or_default();
        entry.is_member |= is_member;
        entry.below = if entry.below.is_empty() { below } else { entry.below.union(&below) };
    }
}

/// The path element that identifies an item of the list at `place`.
pub(crate) fn step_of_item(item: &Value, index: usize, place: Place<'_>) -> Step {
    match place.list() {
        ListKind::Atomic => Step::Index(i64::try_from(index).unwrap_or(i64::MAX)),
        ListKind::Set => value_step(item),
        ListKind::Map(keys) => {
            // An item that is not an object has no key fields. It is identified by its value.
            let Value::Object(fields) = item else { return value_step(item) };
            let named = keys.iter().filter_map(|key| {
                let value = match fields.get(key) {
                    Some(value) => canonical(value),
                    None => canonical(place.key_default(key)?.as_ref()),
                };
                Some((key.clone(), value))
            });
            Step::Key(named.collect())
        }
    }
}
