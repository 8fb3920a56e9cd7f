//! Sets of fields. Each entry of `metadata.managedFields` has such a set.
//!
//! A [`Set`] is a tree of [`Step`]s. Each node is a member of the set or only leads to members below it, because owning
//! `.spec` is different from owning `.spec.replicas`. This module implements the operations on sets, their `FieldsV1`
//! text ([`text`]), and computing the set of a value's fields ([`Set::of`]). Its only caller, [`crate::merge::apply`],
//! defines what owning a field means.
//!
//! Follows `structured-merge-diff/fieldpath`.

mod mistakes;
mod of;
#[cfg(test)]
mod tests;
mod text;

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

pub(crate) use mistakes::{Doubles, go_text};
pub(crate) use of::step_of_item;
pub(crate) use text::FieldsError;

use crate::merge::lists::Place;
use crate::object::canonical;

/// One step down into an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Into a field of a struct, or a key of a map.
    Field(String),
    /// To the list item whose key fields have these values, each in canonical JSON.
    Key(BTreeMap<String, String>),
    /// To the item of a set with this value, in canonical JSON.
    Value(String),
    /// To the item at this position.
    Index(i64),
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(out, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(out, "[={value}]"),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

/// A set of fields.
///
/// Every node is a member or has members below it. So two sets with the same fields are always equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    steps: BTreeMap<Step, Entry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    is_member: bool,
    below: Set,
}

impl Entry {
    fn is_nothing(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }
}

impl Set {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Adds a field. The empty path is the object itself, which is never owned.
    pub(crate) fn insert(&mut self, path: &[Step]) {
        let Some((step, rest)) = path.split_first() else { return };
        let entry = self.steps.entry(step.clone()).or_default();
        if rest.is_empty() {
            entry.is_member = true;
        } else {
            entry.below.insert(rest);
        }
    }

    /// The set of the fields with these dotted paths. Used for constants.
    pub(crate) fn of_paths(paths: &[&str]) -> Self {
        let mut set = Self::new();
        for path in paths {
            let steps: Vec<Step> = path.split('.').map(|name| Step::Field(name.to_owned())).collect();
            set.insert(&steps);
        }
        set
    }

    /// Whether the field that `step` leads to is in the set.
    pub(crate) fn has(&self, step: &Step) -> bool {
        self.steps.get(step).is_some_and(|entry| entry.is_member)
    }

    /// The part of the set below a step, if there is any.
    pub(crate) fn below(&self, step: &Step) -> Option<&Self> {
        self.steps.get(step).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    /// Fields in either set.
    pub(crate) fn union(&self, other: &Self) -> Self {
        self.combine(other, |here, there| here || there)
    }

    /// Fields in both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |here, there| here && there)
    }

    /// The fields in this set but not in the other. If the other set has a field, the fields below it are not removed.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.combine(other, |here, there| here && !there)
    }

    /// Combines two sets field by field: `keep` decides about a field, given whether each set has it.
    fn combine(&self, other: &Self, keep: fn(bool, bool) -> bool) -> Self {
        let nothing = Entry::default();
        let names = self.steps.keys().chain(other.steps.keys().filter(|step| !self.steps.contains_key(*step)));
        let steps = names.filter_map(|step| {
            let here = self.steps.get(step).unwrap_or(&nothing);
            let there = other.steps.get(step).unwrap_or(&nothing);
            let entry = Entry {
                is_member: keep(here.is_member, there.is_member),
                below: here.below.combine(&there.below, keep),
            };
            (!entry.is_nothing()).then(|| (step.clone(), entry))
        });
        Self { steps: steps.collect() }
    }

    /// This set, and every declared field that contains a field of this set.
    ///
    /// With this, removing the last owned field of a struct also removes the struct, although no manager owns the
    /// struct itself.
    pub(crate) fn with_structs(&self, place: Place<'_>) -> Self {
        let steps = self.steps.iter().map(|(step, entry)| {
            let (declared, place) = match step {
                Step::Field(name) => (place.declares(name), place.field(name)),
                Step::Key(_) | Step::Value(_) | Step::Index(_) => (false, place.item()),
            };
            (step.clone(), Entry { is_member: entry.is_member || declared, below: entry.below.with_structs(place) })
        });
        Self { steps: steps.collect() }
    }

    /// The path of every field, as messages show them: `.spec.containers[name="web"].image`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.collect_paths("", &mut found);
        found
    }

    fn collect_paths(&self, above: &str, found: &mut Vec<String>) {
        // A real server lists all fields of a level before the fields below them.
        let members = self.steps.iter().filter(|(_, entry)| entry.is_member);
        found.extend(members.map(|(step, _)| format!("{above}{step}")));
        for (step, entry) in &self.steps {
            entry.below.collect_paths(&format!("{above}{step}"), found);
        }
    }
}

/// The canonical JSON of a value as a [`Step`] of a set.
pub(crate) fn value_step(value: &Value) -> Step {
    Step::Value(canonical(value))
}
