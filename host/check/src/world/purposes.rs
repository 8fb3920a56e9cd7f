//! For which object of the user the plugin has made each object that has no owner.

use std::collections::BTreeMap;

use crate::scenario::{ObjectName, Step};

/// The plugin's objects without an owner, by UID: several may have the same name but for its generated part.
#[derive(Default)]
pub(super) struct Purposes(BTreeMap<String, Made>);

/// An object of the plugin.
struct Made {
    /// Its resource and name, for people.
    place: String,
    /// The object of the step after which it was there first. `None` if that step let time pass.
    purpose: Option<ObjectName>,
}

impl Purposes {
    /// Notes the plugin's objects that are there after a step: their places by UID.
    pub(super) fn note(&mut self, step: &Step, there: &BTreeMap<String, String>) {
        self.0.retain(|uid, _| there.contains_key(uid));
        let purpose = match step {
            Step::Apply(object) => Some(ObjectName::of(object)),
            Step::Patch(patch) => Some(patch.object.clone()),
            Step::Delete(name) => Some(name.clone()),
            Step::Advance(_) | Step::Wait(_) => None,
        };
        for (uid, place) in there {
            let made = || Made { place: place.clone(), purpose: purpose.clone() };
            self.0.entry(uid.clone()).or_insert_with(made);
        }
    }

    /// The objects that were made for this one.
    pub(super) fn of<'a>(&'a self, name: &'a ObjectName) -> impl Iterator<Item = &'a str> {
        let made = self.0.values().filter(move |made| made.purpose.as_ref() == Some(name));
        made.map(|made| made.place.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn shop(name: &str) -> (Step, ObjectName) {
        let object = json!({"apiVersion": "v1", "kind": "Shop", "metadata": {"name": name}});
        let name = ObjectName::of(&object);
        (Step::Apply(object), name)
    }

    fn there(objects: &[(&str, &str)]) -> BTreeMap<String, String> {
        objects.iter().map(|(uid, place)| ((*uid).to_owned(), (*place).to_owned())).collect()
    }

    #[test]
    fn an_object_belongs_to_the_step_after_which_it_was_first_there() {
        let [(apply_a, of_a), (apply_b, of_b)] = ["a", "b"].map(shop);
        let mut purposes = Purposes::default();
        purposes.note(&apply_a, &there(&[("1", "one"), ("2", "two")]));
        purposes.note(&apply_b, &there(&[("1", "one"), ("2", "two"), ("3", "three")]));
        purposes.note(&Step::Advance(Duration::ZERO), &there(&[("1", "one"), ("3", "three"), ("4", "four")]));
        purposes
            .note(&Step::Delete(of_b.clone()), &there(&[("1", "one"), ("3", "three"), ("4", "four"), ("5", "two")]));
        assert_eq!(purposes.of(&of_a).collect::<Vec<_>>(), ["one"]);
        assert_eq!(purposes.of(&of_b).collect::<Vec<_>>(), ["three", "two"], "two had gone, and was made again");
    }

    #[test]
    fn objects_with_names_generated_alike_have_purposes_of_their_own() {
        let [(apply_a, of_a), (apply_b, of_b)] = ["a", "b"].map(shop);
        let mut purposes = Purposes::default();
        purposes.note(&apply_a, &there(&[("1", "pods default/web-*")]));
        purposes.note(&apply_b, &there(&[("1", "pods default/web-*"), ("2", "pods default/web-*")]));
        purposes.note(&Step::Delete(of_a.clone()), &there(&[("2", "pods default/web-*")]));
        assert_eq!(purposes.of(&of_a).count(), 0, "its own has gone");
        assert_eq!(purposes.of(&of_b).collect::<Vec<_>>(), ["pods default/web-*"]);
    }
}
