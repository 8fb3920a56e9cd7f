//! For which object of the user the plugin has made each object that has no owner.

use std::collections::{BTreeMap, BTreeSet};

use crate::scenario::{ObjectName, Step};

/// The plugin's objects without an owner, each with the object of the step after which it was there first. `None`: it
/// was another kind of step.
#[derive(Default)]
pub(super) struct Purposes(BTreeMap<String, Option<ObjectName>>);

impl Purposes {
    /// Notes the plugin's objects that are there after a step.
    pub(super) fn note(&mut self, step: &Step, there: &BTreeSet<String>) {
        self.0.retain(|place, _| there.contains(place));
        let purpose = match step {
            Step::Apply(object) => Some(ObjectName::of(object)),
            Step::Patch(patch) => Some(patch.object.clone()),
            Step::Delete(name) => Some(name.clone()),
            Step::Advance(_) | Step::Wait(_) => None,
        };
        for place in there {
            self.0.entry(place.clone()).or_insert_with(|| purpose.clone());
        }
    }

    /// The objects that were made for this one.
    pub(super) fn of<'a>(&'a self, name: &'a ObjectName) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(_, purpose)| purpose.as_ref() == Some(name)).map(|(place, _)| place.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_belongs_to_the_step_after_which_it_was_first_there() {
        let there = |places: &[&str]| places.iter().map(|place| (*place).to_owned()).collect::<BTreeSet<_>>();
        let [a, b] = ["a", "b"].map(|name| json!({"apiVersion": "v1", "kind": "Shop", "metadata": {"name": name}}));
        let [of_a, of_b] = [&a, &b].map(ObjectName::of);
        let mut purposes = Purposes::default();
        purposes.note(&Step::Apply(a.clone()), &there(&["1", "2"]));
        purposes.note(&Step::Apply(b), &there(&["1", "2", "3"]));
        purposes.note(&Step::Advance(Duration::ZERO), &there(&["1", "3", "4"]));
        purposes.note(&Step::Delete(of_b.clone()), &there(&["1", "2", "3", "4"]));
        assert_eq!(purposes.of(&of_a).collect::<Vec<_>>(), ["1"]);
        assert_eq!(purposes.of(&of_b).collect::<Vec<_>>(), ["2", "3"], "2 had gone, and was made again");
    }
}
