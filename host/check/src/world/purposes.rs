//! For each object that the plugin has created without an owner, finds the user's object that it was created for.

use std::collections::BTreeMap;

use windlass_core::object::ObjectKind;

use crate::scenario::{ObjectName, Step};

/// The purposes of the plugin's objects without an owner.
#[derive(Default)]
pub(super) struct Purposes {
    /// The kinds of the plugin's primaries, with their API versions.
    primaries: Vec<(String, String)>,
    /// The primaries that the user has applied or changed, the most recent one at the end.
    changed: Vec<ObjectName>,
    /// The plugin's objects by UID, because the places of objects with generated names may be equal.
    made: BTreeMap<String, Made>,
}

/// An object of the plugin.
struct Made {
    /// Its resource and name, for people.
    place: String,
    /// The user's object for which this object was created. If the step before its first appearance is about an object,
    /// it is that object. If the step only let time pass, it is the primary whose call created this object, or `None`
    /// if the user has not applied or changed that primary.
    purpose: Option<ObjectName>,
}

impl Purposes {
    /// Starts without objects, for a plugin with primaries of these kinds.
    pub(super) fn new(kinds: impl Iterator<Item = ObjectKind>) -> Purposes {
        let primaries = kinds.map(|kind| (kind.api_version.to_string(), kind.kind.to_string())).collect();
        Purposes { primaries, ..Purposes::default() }
    }

    /// Notes the plugin's objects that exist after a step. `there` has their places by UID, and `created_by` the keys
    /// of the calls that created them.
    pub(super) fn note(
        &mut self,
        step: &Step,
        there: &BTreeMap<String, String>,
        created_by: &BTreeMap<String, Option<String>>,
    ) {
        self.made.retain(|uid, _| there.contains_key(uid));
        let of_step = step.object();
        for (uid, place) in there.iter().filter(|(uid, _)| !self.made.contains_key(*uid)).collect::<Vec<_>>() {
            let of_call = || self.primary(created_by.get(uid)?.as_deref()?);
            let purpose = of_step.clone().or_else(of_call);
            self.made.insert(uid.clone(), Made { place: place.clone(), purpose });
        }
        self.changed.extend(of_step.filter(|_| !matches!(step, Step::Delete(_))));
    }

    /// The primary with this key. If there are several, the one that the user applied or changed last.
    fn primary(&self, key: &str) -> Option<ObjectName> {
        let is_this = |it: &&ObjectName| {
            let is_primary =
                self.primaries.iter().any(|(version, kind)| (version, kind) == (&it.api_version, &it.kind));
            is_primary
                && key.split_once('/').map_or(it.name == key, |(space, name)| it.namespace == space && it.name == name)
        };
        self.changed.iter().rev().find(is_this).cloned()
    }

    /// The objects that were created for the object `name`.
    pub(super) fn of<'a>(&'a self, name: &'a ObjectName) -> impl Iterator<Item = &'a str> {
        let made = self.made.values().filter(move |made| made.purpose.as_ref() == Some(name));
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
        purposes.note(&apply_a, &there(&[("1", "one"), ("2", "two")]), &BTreeMap::new());
        purposes.note(&apply_b, &there(&[("1", "one"), ("2", "two"), ("3", "three")]), &BTreeMap::new());
        purposes.note(
            &Step::Advance(Duration::ZERO),
            &there(&[("1", "one"), ("3", "three"), ("4", "four")]),
            &BTreeMap::new(),
        );
        let last = there(&[("1", "one"), ("3", "three"), ("4", "four"), ("5", "two")]);
        purposes.note(&Step::Delete(of_b.clone()), &last, &BTreeMap::new());
        assert_eq!(purposes.of(&of_a).collect::<Vec<_>>(), ["one"]);
        assert_eq!(purposes.of(&of_b).collect::<Vec<_>>(), ["three", "two"], "two had gone, and was made again");
    }

    #[test]
    fn objects_with_names_generated_alike_have_purposes_of_their_own() {
        let [(apply_a, of_a), (apply_b, of_b)] = ["a", "b"].map(shop);
        let mut purposes = Purposes::default();
        purposes.note(&apply_a, &there(&[("1", "pods default/web-*")]), &BTreeMap::new());
        purposes.note(&apply_b, &there(&[("1", "pods default/web-*"), ("2", "pods default/web-*")]), &BTreeMap::new());
        purposes.note(&Step::Delete(of_a.clone()), &there(&[("2", "pods default/web-*")]), &BTreeMap::new());
        assert_eq!(purposes.of(&of_a).count(), 0, "its own has gone");
        assert_eq!(purposes.of(&of_b).collect::<Vec<_>>(), ["pods default/web-*"]);
    }

    #[test]
    fn with_time_an_object_belongs_to_the_primary_whose_call_created_it() {
        let [(apply_a, of_a), (apply_b, of_b)] = ["a", "b"].map(shop);
        let of_kind =
            |kind: &str| Purposes { primaries: vec![("v1".to_owned(), kind.to_owned())], ..Purposes::default() };
        let key = |name: &str| Some(format!("default/{name}"));
        let created_by =
            BTreeMap::from([("1".to_owned(), key("a")), ("2".to_owned(), key("b")), ("3".to_owned(), None)]);
        let purposes = |mut purposes: Purposes| {
            purposes.note(&apply_a, &BTreeMap::new(), &created_by);
            purposes.note(&apply_b, &BTreeMap::new(), &created_by);
            let there = there(&[("1", "one"), ("2", "two"), ("3", "three")]);
            purposes.note(&Step::Advance(Duration::ZERO), &there, &created_by);
            [&of_a, &of_b].map(|name| purposes.of(name).map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(purposes(of_kind("Shop")), [["one"], ["two"]]);
        assert_eq!(purposes(of_kind("Other")), [[""; 0], [""; 0]], "an object of another kind has that name");
    }
}
