//! The objects that a composer declares as related to its parents (ADR 23).
//!
//! The host asks the composer for them before it composes, and keeps the answer: a change of a related object
//! composes the parent again. (Metacontroller: the customize hook and its related resource rules.)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::mapping::is_near;
use crate::object::selector::Selector;
use crate::object::{Object, ObjectKey};

/// A rule that selects objects of one watch. All its conditions must hold. As `customize.related-rule` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedRule {
    /// The name of the watch in the manifest.
    pub watch: Arc<str>,
    /// The namespace of the objects. `None` means the parent's namespace and cluster-scoped objects; for a
    /// cluster-scoped parent, every namespace.
    pub namespace: Option<Arc<str>>,
    /// The names of the objects. Empty means any name.
    pub names: BTreeSet<Arc<str>>,
    /// A selector for the labels of the objects.
    pub labels: Selector,
}

impl RelatedRule {
    /// Whether `object`, from the rule's watch, is related to the parent with this key.
    #[must_use]
    pub fn matches(&self, parent: &ObjectKey, object: &Object) -> bool {
        let key = &object.header.key;
        let is_there = match &self.namespace {
            Some(_) => key.namespace == self.namespace,
            None => is_near(key, parent),
        };
        is_there
            && (self.names.is_empty() || self.names.contains(&key.name))
            && self.labels.matches(&object.header.labels)
    }

    /// The places where the rule can find objects for `parent`.
    fn places(&self, parent: &ObjectKey) -> Vec<Place> {
        match (&self.namespace, &parent.namespace) {
            (Some(namespace), _) => vec![Place::Namespace(namespace.clone())],
            (None, Some(namespace)) => vec![Place::Namespace(namespace.clone()), Place::Cluster],
            (None, None) => vec![Place::Anywhere],
        }
    }
}

/// The rules of all parents of a controller.
#[derive(Debug, Default)]
pub struct RelatedRules(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rules: BTreeMap<ObjectKey, Arc<[RelatedRule]>>,
    /// Parents that have a rule with names, by watch and name.
    by_name: BTreeMap<(Arc<str>, Arc<str>), BTreeSet<ObjectKey>>,
    /// Parents that have a rule for any name, by watch and place. Each is checked when an object there changes.
    of_any_name: BTreeMap<(Arc<str>, Place), BTreeSet<ObjectKey>>,
}

/// A namespace of objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Namespace(Arc<str>),
    Cluster,
    Anywhere,
}

impl RelatedRules {
    /// Replaces the `rules` of a parent. A parent without rules takes no memory.
    pub fn set(&self, parent: &ObjectKey, rules: Vec<RelatedRule>) {
        let mut state = self.state();
        if state.rules.get(parent).map_or(rules.is_empty(), |known| known[..] == rules[..]) {
            return;
        }
        state.forget(parent);
        for rule in &rules {
            for place in rule.places(parent).into_iter().filter(|_| rule.names.is_empty()) {
                let place = (rule.watch.clone(), place);
                state.of_any_name.entry(place).or_default().insert(parent.clone());
            }
            for name in &rule.names {
                let place = (rule.watch.clone(), name.clone());
                state.by_name.entry(place).or_default().insert(parent.clone());
            }
        }
        if !rules.is_empty() {
            state.rules.insert(parent.clone(), rules.into());
        }
    }

    /// Forgets a parent that is gone.
    pub fn forget(&self, parent: &ObjectKey) {
        self.state().forget(parent);
    }

    /// The rules of a parent.
    #[must_use]
    pub fn of(&self, parent: &ObjectKey) -> Arc<[RelatedRule]> {
        self.state().rules.get(parent).cloned().unwrap_or_default()
    }

    /// The parents to which `object`, from the watch with this name, is related, in key order.
    #[must_use]
    pub fn related_to(&self, object: &Object, watch: &str) -> Vec<ObjectKey> {
        let state = self.state();
        let key = &object.header.key;
        // The maps own their keys, so lookups need owned keys, too.
        let watched: Arc<str> = watch.into();
        let there = key.namespace.clone().map_or(Place::Cluster, Place::Namespace);
        let places = [there, Place::Anywhere].map(|place| state.of_any_name.get(&(watched.clone(), place)));
        let named = state.by_name.get(&(watched.clone(), key.name.clone()));
        let parents: BTreeSet<&ObjectKey> = places.into_iter().chain([named]).flatten().flatten().collect();
        let is_related = |parent: &ObjectKey| {
            let rules = state.rules.get(parent);
            rules.is_some_and(|rules| rules.iter().any(|rule| *rule.watch == *watch && rule.matches(parent, object)))
        };
        parents.into_iter().filter(|parent| is_related(parent)).cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self, parent: &ObjectKey) {
        let Some(rules) = self.rules.remove(parent) else { return };
        for rule in &*rules {
            for place in rule.places(parent) {
                remove(&mut self.of_any_name, &(rule.watch.clone(), place), parent);
            }
            for name in &rule.names {
                remove(&mut self.by_name, &(rule.watch.clone(), name.clone()), parent);
            }
        }
    }
}

fn remove<K: Ord>(places: &mut BTreeMap<K, BTreeSet<ObjectKey>>, place: &K, parent: &ObjectKey) {
    let Some(parents) = places.get_mut(place) else { return };
    parents.remove(parent);
    if parents.is_empty() {
        places.remove(place);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::object::Header;

    fn object(namespace: Option<&str>, name: &str, labels: &[(&str, &str)]) -> Object {
        let key =
            namespace.map_or_else(|| ObjectKey::cluster(name), |namespace| ObjectKey::namespaced(namespace, name));
        let header = Header {
            generation: 1,
            labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            ..Header::bare(key, "o-1", "1")
        };
        Object::new(header, "{}")
    }

    fn rule(watch: &str, namespace: Option<&str>, names: &[&str], labels: &str) -> RelatedRule {
        RelatedRule {
            watch: watch.into(),
            namespace: namespace.map(Into::into),
            names: names.iter().map(|name| (*name).into()).collect(),
            labels: labels.parse().expect("a selector"),
        }
    }

    fn related(rules: &RelatedRules, object: &Object) -> Vec<String> {
        rules.related_to(object, "secrets").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_object_is_related_to_the_parents_whose_rules_it_meets() {
        let rules = RelatedRules::default();
        let parent = |name: &str| ObjectKey::namespaced("prod", name);
        rules.set(&parent("by-name"), vec![rule("secrets", None, &["tls", "key"], "")]);
        rules.set(&parent("by-label"), vec![rule("secrets", None, &[], "app=web")]);
        rules.set(&parent("from-afar"), vec![rule("secrets", Some("test"), &["tls"], "")]);
        rules.set(&parent("of-another-watch"), vec![rule("maps", None, &["tls"], "")]);
        assert_eq!(related(&rules, &object(Some("prod"), "tls", &[("app", "web")])), ["prod/by-label", "prod/by-name"]);
        assert_eq!(related(&rules, &object(Some("prod"), "key", &[])), ["prod/by-name"]);
        assert_eq!(related(&rules, &object(Some("test"), "tls", &[("app", "web")])), ["prod/from-afar"]);
        assert_eq!(related(&rules, &object(None, "tls", &[])), ["prod/by-name"], "a cluster-scoped object counts too");
    }

    #[test]
    fn a_new_answer_replaces_the_old_one() {
        let (rules, parent) = (RelatedRules::default(), ObjectKey::namespaced("prod", "shop"));
        let tls = object(Some("prod"), "tls", &[]);
        rules.set(&parent, vec![rule("secrets", None, &["tls"], "")]);
        assert_eq!(related(&rules, &tls), ["prod/shop"]);
        rules.set(&parent, vec![rule("secrets", None, &["other"], "")]);
        assert!(related(&rules, &tls).is_empty());
        rules.set(&parent, vec![rule("secrets", None, &[], "")]);
        assert_eq!(related(&rules, &tls), ["prod/shop"]);
        rules.forget(&parent);
        assert!(related(&rules, &tls).is_empty() && rules.of(&parent).is_empty());
        let state = rules.state();
        assert!(state.by_name.is_empty() && state.of_any_name.is_empty(), "nothing is kept for a forgotten parent");
    }

    fn some_rule() -> impl Strategy<Value = RelatedRule> {
        let names = prop::collection::btree_set(prop::sample::select(vec!["x", "y"]), 0..=2);
        let place = prop::option::of(prop::sample::select(vec!["a", "b"]));
        (prop::sample::select(vec!["secrets", "maps"]), place, names, prop::sample::select(vec!["", "l=1", "l=2"]))
            .prop_map(|(watch, namespace, names, labels)| {
                rule(watch, namespace, &names.into_iter().collect::<Vec<_>>(), labels)
            })
    }

    proptest! {
        #[test]
        fn the_lookup_finds_what_a_full_scan_would(
            steps in prop::collection::vec((0_usize..4, prop::collection::vec(some_rule(), 0..3)), 0..12),
        ) {
            let parents = [
                ObjectKey::namespaced("a", "p"), ObjectKey::namespaced("b", "p"),
                ObjectKey::namespaced("a", "q"), ObjectKey::cluster("p"),
            ];
            let rules = RelatedRules::default();
            let mut model = BTreeMap::new();
            for (parent, answer) in steps {
                rules.set(&parents[parent], answer.clone());
                model.insert(parents[parent].clone(), answer);
            }
            for (namespace, name, label) in [(Some("a"), "x", "1"), (Some("b"), "y", "2"), (None, "x", "2")] {
                let object = object(namespace, name, &[("l", label)]);
                let meets = |(parent, answer): &(&ObjectKey, &Vec<RelatedRule>)| {
                    answer.iter().any(|rule| &*rule.watch == "secrets" && rule.matches(parent, &object))
                };
                let expected: Vec<ObjectKey> = model.iter().filter(meets).map(|(parent, _)| parent.clone()).collect();
                prop_assert_eq!(rules.related_to(&object, "secrets"), expected);
            }
        }
    }
}
