//! Finds the differences between two versions of an object.
//!
//! Follows `structured-merge-diff/typed/compare.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::field;
use crate::merge::{
    fields::{Set, Step, step_of_item},
    lists::Place,
};
use crate::object::canonical;
use crate::schema::ListKind;

/// The fields that are in only one of two objects, or have different values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) added: Set,
    pub(super) modified: Set,
    pub(super) removed: Set,
}

impl Comparison {
    /// The fields that the newer object sets: the added and the modified fields.
    pub(super) fn set(&self) -> Set {
        self.added.union(&self.modified)
    }

    /// All fields that differ.
    pub(super) fn touched(&self) -> Set {
        self.set().union(&self.removed)
    }
}

/// Compares two objects.
pub(super) fn compare(old: &Value, new: &Value, place: Place<'_>) -> Comparison {
    let mut walk = Walk::default();
    walk.visit(Some(old), Some(new), place, false);
    walk.found
}

/// The zero value of a value's type.
fn zero_like(value: &Value) -> Value {
    match value {
        Value::Array(_) => json!([]),
        Value::Object(_) => json!({}),
        Value::String(_) => json!(""),
        Value::Number(_) => json!(0),
        Value::Bool(_) => json!(false),
        Value::Null => Value::Null,
    }
}

#[derive(Default)]
struct Walk {
    path: Vec<Step>,
    found: Comparison,
}

impl Walk {
    /// Compares the values at one place. `in_both` is true if both objects have the struct that contains the field.
    fn visit(&mut self, old: Option<&Value>, new: Option<&Value>, place: Place<'_>, in_both: bool) {
        // Go writes some fields even if they are empty. Such a field is never added or removed if both objects have its
        // struct.
        let is_there = in_both && place.is_always_there();
        let something = |value: &&Value| !(is_there && value.is_null());
        let (old, new) = (old.filter(something), new.filter(something));
        let nothing = if is_there { old.or(new).map(zero_like) } else { None };
        let (old, new) = (old.or(nothing.as_ref()), new.or(nothing.as_ref()));
        match (old, new) {
            (None, None) => {}
            // Both values have fields or items of the same kind: compare these.
            (Some(Value::Object(old)), Some(Value::Object(new))) if !place.is_atomic_map() => {
                self.visit_maps(Some(old), Some(new), place);
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) if *place.list() != ListKind::Atomic => {
                self.visit_lists(old, new, place);
            }
            (Some(old), Some(new)) if canonical(old) == canonical(new) => {}
            (old, new) => {
                self.note(old.is_some(), new.is_some());
                self.visit_inside(old, true, place);
                self.visit_inside(new, false, place);
            }
        }
    }

    /// Records everything inside a value as added or removed, because the other object has nothing comparable.
    fn visit_inside(&mut self, value: Option<&Value>, is_old: bool, place: Place<'_>) {
        match value {
            Some(Value::Object(fields)) if !place.is_atomic_map() => {
                let (old, new) = if is_old { (Some(fields), None) } else { (None, Some(fields)) };
                self.visit_maps(old, new, place);
            }
            Some(Value::Array(list)) if *place.list() != ListKind::Atomic => {
                let (old, new): (&[Value], &[Value]) = if is_old { (list, &[]) } else { (&[], list) };
                self.visit_lists(old, new, place);
            }
            _ => {}
        }
    }

    fn visit_maps(&mut self, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>, place: Place<'_>) {
        let in_both = old.is_some() && new.is_some();
        for (name, value) in old.into_iter().flatten() {
            let other = new.and_then(|new| new.get(name));
            self.below(field(name), |walk| walk.visit(Some(value), other, place.field(name), in_both));
        }
        for (name, value) in new.into_iter().flatten() {
            if old.is_none_or(|old| !old.contains_key(name)) {
                self.below(field(name), |walk| walk.visit(None, Some(value), place.field(name), in_both));
            }
        }
    }

    fn visit_lists(&mut self, old: &[Value], new: &[Value], place: Place<'_>) {
        let mut items: BTreeMap<Step, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (index, item) in old.iter().enumerate() {
            items.entry(step_of_item(item, index, place)).or_default().0.push(item);
        }
        for (index, item) in new.iter().enumerate() {
            items.entry(step_of_item(item, index, place)).or_default().1.push(item);
        }
        for (step, (old, new)) in items {
            self.below(step, |walk| match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => walk.visit(old.first().copied(), new.first().copied(), place.item(), false),
                // Several items with the same identity are compared and owned together.
                (old, new) if old != new => walk.note(!old.is_empty(), !new.is_empty()),
                _ => {}
            });
        }
    }

    fn note(&mut self, was: bool, is: bool) {
        let set = match (was, is) {
            (false, _) => &mut self.found.added,
            (true, true) => &mut self.found.modified,
            (true, false) => &mut self.found.removed,
        };
        set.insert(&self.path);
    }

    fn below(&mut self, step: Step, visit: impl FnOnce(&mut Self)) {
        self.path.push(step);
        visit(self);
        self.path.pop();
    }
}
