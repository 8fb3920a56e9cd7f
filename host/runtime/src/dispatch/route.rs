//! Finds the primaries that the events of a declared watch concern, and their priority.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use windlass_core::cache::code_predicate::CodePredicate;
use windlass_core::cache::mapping::{Mapping, Primaries, PrimaryKind};
use windlass_core::cache::predicate::{self, Predicate};
use windlass_core::cache::related::RelatedRules;
use windlass_core::cache::watch::{Index, IndexSource, WatchEvent};
use windlass_core::defect::Defect;
use windlass_core::object::run_request;
use windlass_core::object::{Object, ObjectKey, ObjectKind, ObjectRef};
use windlass_core::queue::Priority;
use windlass_core::queue::trigger::{Trigger, TriggerReason};
use windlass_kube::{ConditionCounts, NotSynced, Store};
use windlass_wasm::ObjectChange;

use super::timer::ControllerTimer;

/// How the events of one declared watch map to primaries.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) kind: ObjectKind,
    /// The name of the watch, if the manifest gives it one.
    pub(crate) watch: Option<Arc<str>>,
    pub(crate) mapping: Mapping,
    pub(crate) predicates: Arc<[Predicate]>,
    /// `None` if only the declared predicates decide which changes count.
    pub(crate) code_predicate: Option<CodePredicate>,
    /// Whether deletions, and their beginning, count. For primaries they always do.
    pub(crate) deletions: bool,
    pub(crate) primary: PrimaryKind,
}

/// The primaries of a controller, and the objects that their composer relates them to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stores {
    /// The timer whose object is the only primary. If there is one, there are no stores.
    pub(crate) timer: Option<Arc<ControllerTimer>>,
    /// One store for each watched namespace, or one for all.
    by_namespace: Arc<[Store]>,
    /// The indexes that all these stores have.
    indexes: Arc<[Index]>,
    pub(crate) related: Arc<RelatedRules>,
}

impl Stores {
    pub(crate) fn new(stores: impl Into<Arc<[Store]>>) -> Self {
        Self { by_namespace: stores.into(), ..Self::default() }
    }

    /// A timer as the only primary. `None` for none.
    pub(crate) fn or_timer(self, timer: Option<Arc<ControllerTimer>>) -> Self {
        Self { timer, ..self }
    }

    /// These stores, with the indexes that the manifest declares for primaries.
    pub(crate) fn found_by(self, indexes: impl Into<Arc<[Index]>>) -> Self {
        Self { indexes: indexes.into(), ..self }
    }

    /// These primaries, without related objects.
    pub(crate) fn unrelated(&self) -> Self {
        Self { related: Arc::default(), ..self.clone() }
    }

    /// The declared index of this name.
    pub(crate) fn index(&self, name: &str) -> Option<&IndexSource> {
        Index::source(&self.indexes, name)
    }

    /// The primary with this key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.by_namespace.iter().find_map(|store| store.get(key)).or_else(|| self.timed(key))
    }

    /// The primary with this key. Fails if a store is not synced; each store is asked under one lock.
    pub(crate) fn find(&self, key: &ObjectKey) -> Result<Option<Object>, NotSynced> {
        let mut found = Ok(self.timed(key));
        for store in self.by_namespace.iter() {
            match store.find(key) {
                Ok(None) => {}
                Ok(object) => return Ok(object),
                Err(error) => found = Err(error),
            }
        }
        found
    }

    /// Whether there is no primary with this key. False if that is unknown because a store is not synced.
    pub(crate) fn lacks(&self, key: &ObjectKey) -> bool {
        matches!(self.find(key), Ok(None))
    }

    /// All primaries.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Object> {
        self.by_namespace.iter().flat_map(Store::all).chain(self.timer.as_ref().and_then(|timer| timer.known_object()))
    }

    /// The object of the timer, if it has this key.
    fn timed(&self, key: &ObjectKey) -> Option<Object> {
        self.timer.as_ref().filter(|timer| timer.key == *key).map(|timer| timer.object())
    }

    /// The number of primaries with each condition.
    pub(crate) fn conditions(&self) -> ConditionCounts {
        let mut all = ConditionCounts::default();
        self.by_namespace.iter().for_each(|store| all.add(store.conditions()));
        all
    }
}

impl Primaries for Stores {
    fn indexed(&self, index: &str, value: &str) -> Vec<ObjectKey> {
        // A mapping names a declared index, or the manifest would have been refused.
        let Some(source) = self.index(index) else { return vec![] };
        let found = self.by_namespace.iter().flat_map(|store| store.indexed(source, value));
        found.map(|object| object.header.key.clone()).collect()
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.objects().map(|object| object.header.key.clone()).collect()
    }
}

impl Route {
    /// The keys that `event` concerns. If an object moved from one primary to another, the keys of both. May contain
    /// duplicates.
    pub(crate) fn keys(&self, event: &WatchEvent, primaries: &Stores) -> Vec<ObjectKey> {
        let keys = |object| self.keys_of(object, primaries);
        match event {
            WatchEvent::Deleted(_) if !self.deletions => vec![],
            WatchEvent::Deleted(tombstone) => keys(&tombstone.last),
            WatchEvent::Applied { old: None, new, .. } => keys(new),
            WatchEvent::Applied { old: Some(old), new, .. } if !self.passes(old, new) => vec![],
            WatchEvent::Applied { new, .. } if self.concerns_all() || Defect::FormerOwnerIsNotTold.is_seeded() => {
                keys(new)
            }
            // The old object has gone, and a new one has its name.
            WatchEvent::Applied { old: Some(old), new, .. } if !self.deletions && old.header.uid != new.header.uid => {
                keys(new)
            }
            WatchEvent::Applied { old: Some(old), new, .. } => [keys(old), keys(new)].concat(),
        }
    }

    /// The keys that `object` concerns. A list of names or references can name any number of primaries, so only
    /// existing ones count: otherwise one object with a hundred thousand made-up names would cause as many calls with
    /// each change.
    fn keys_of(&self, object: &Object, primaries: &Stores) -> Vec<ObjectKey> {
        let mut keys = match (&self.mapping, &self.watch) {
            (Mapping::Customize, Some(watch)) => primaries.related.related_to(object, watch),
            _ => self.mapping.keys(object, &self.primary, primaries),
        };
        if self.names_many() {
            let mut seen = HashSet::new();
            keys.retain(|key| primaries.get(key).is_some() && seen.insert(key.clone()));
        }
        keys
    }

    /// The trigger for the keys that `event` queues. The event must not belong to a first list.
    pub(crate) fn trigger(&self, event: &WatchEvent) -> Trigger {
        let (reason, object) = match event {
            WatchEvent::Applied { old: Some(old), new, .. } if self.is_run_request(old, new) => {
                (TriggerReason::RunRequested, new)
            }
            WatchEvent::Applied { new, .. } => (TriggerReason::Changed, new),
            WatchEvent::Deleted(tombstone) => (TriggerReason::Deleted, &tombstone.last),
        };
        let uid = Some(object.header.uid.text());
        let object = ObjectRef { kind: self.kind.clone(), key: object.header.key.clone(), uid };
        Trigger { reason, watch: self.watch.clone(), object: Some(object) }
    }

    /// Whether the change requests a run of the primary's key. Only annotations of primaries can.
    fn is_run_request(&self, old: &Object, new: &Object) -> bool {
        self.mapping == Mapping::Itself && run_request::is_made(old, new)
    }

    fn passes(&self, old: &Object, new: &Object) -> bool {
        match self.mapping {
            Mapping::Itself => predicate::passes_primary(&self.predicates, old, new),
            _ if !self.deletions => predicate::passes_but_deletion(&self.predicates, old, new),
            _ => predicate::passes(&self.predicates, old, new),
        }
    }

    /// Whether a change of `object` queues `key`, unless a predicate filters it out.
    pub(crate) fn concerns(&self, object: &Object, key: &ObjectKey, primaries: &Stores) -> bool {
        if self.concerns_all() {
            return primaries.get(key).is_some();
        }
        self.keys_of(object, primaries).contains(key)
    }

    /// Whether the affected primaries can be computed from the object alone, and every change counts.
    pub(crate) fn misses_nothing(&self) -> bool {
        !self.asks_code() && self.predicates.is_empty() && self.deletions
    }

    /// Whether the object alone decides which keys its changes run, as far as their primaries exist.
    pub(crate) fn maps_by_object(&self) -> bool {
        !self.asks_code() && !matches!(self.mapping, Mapping::ReferencedBy(_) | Mapping::SelectedBy(_))
    }

    /// Whether the plugin's own code decides about changes, or maps them.
    pub(crate) fn asks_code(&self) -> bool {
        self.mapping.is_code() || self.code_predicate.is_some()
    }

    /// Whether the plugin's own code decides if `event`, which passes the declared predicates, counts.
    pub(crate) fn is_decided_by_code(&self, event: &WatchEvent) -> bool {
        self.code_predicate.as_ref().is_some_and(|code| code.decides(event))
    }

    /// Whether `event` passes the declared predicates, for mappings whose keys are found elsewhere.
    pub(crate) fn counts(&self, event: &WatchEvent) -> bool {
        match event {
            WatchEvent::Deleted(_) => self.deletions,
            WatchEvent::Applied { old: None, .. } => true,
            WatchEvent::Applied { old: Some(old), new, .. } => self.passes(old, new),
        }
    }

    /// Whether `event` counts and a later [rescan](super::rescan) may not lead to all its primaries. A rescan sees only
    /// the objects that exist then, and asks the plugin's code about each as about a new one.
    pub(crate) fn is_missed_by_rescan(&self, event: &WatchEvent, primaries: &Stores) -> bool {
        if !self.counts(event) {
            return false;
        }
        // The rescan asks the code about the object, but finds the primaries of a declared mapping by its new state.
        let is_found_by_rescan = self.mapping == Mapping::Itself || self.mapping.is_code();
        if is_found_by_rescan && self.is_decided_by_code(event) {
            return false;
        }
        match event {
            WatchEvent::Deleted(_) => true,
            WatchEvent::Applied { old: None, .. } => false,
            // For example, a user has requested a run.
            WatchEvent::Applied { .. } if self.mapping == Mapping::Itself => true,
            WatchEvent::Applied { old: Some(old), new, .. } if self.mapping.is_code() => {
                self.deletions && old.header.uid != new.header.uid
            }
            // The object exists, so the rescan leads to every primary.
            WatchEvent::Applied { .. } if self.concerns_all() => false,
            WatchEvent::Applied { new, .. } => lacks_any(&self.keys_of(new, primaries), &self.keys(event, primaries)),
        }
    }

    /// The change for the plugin's own code that `event` describes; `event` must count.
    pub(crate) fn change(&self, event: &WatchEvent) -> ObjectChange {
        let (old, new) = match event {
            WatchEvent::Deleted(tombstone) => (Some(&tombstone.last), None),
            // As in `keys`: the old object has gone.
            WatchEvent::Applied { old: Some(old), new, .. } if !self.deletions && old.header.uid != new.header.uid => {
                (None, Some(new))
            }
            WatchEvent::Applied { old, new, .. } => (old.as_ref(), Some(new)),
        };
        let text = |object: Option<&Object>| object.map(Object::glance);
        ObjectChange { old: text(old), new: text(new) }
    }

    /// Whether every event concerns every primary.
    pub(crate) fn concerns_all(&self) -> bool {
        self.mapping == Mapping::All
    }

    /// Whether every primary must run for a change whose keys are not found one by one.
    pub(crate) fn runs_all_unmapped(&self) -> bool {
        self.mapping == Mapping::Mapper || self.concerns_all()
    }

    /// The number of these `events` whose keys cover all of them.
    pub(crate) fn enough_of(&self, events: usize) -> usize {
        // One event runs every primary.
        if self.concerns_all() { events.min(1) } else { events }
    }

    /// Whether an object can name any number of primaries.
    fn names_many(&self) -> bool {
        matches!(self.mapping, Mapping::Field(_) | Mapping::Reference(_) | Mapping::AnyOwner)
    }
}

/// Whether `found` lacks any of `wanted`. Both may be all primaries, so their elements are not compared one by one.
fn lacks_any<K: Eq + Hash>(found: &[K], wanted: &[K]) -> bool {
    let found: HashSet<_> = found.iter().collect();
    wanted.iter().any(|key| !found.contains(key))
}

/// First lists, and changes that concern every primary, queue many keys, so they have a low priority. Other changes go
/// first.
pub(crate) fn priority(event: &WatchEvent, route: &Route) -> Priority {
    match event {
        WatchEvent::Applied { initial: true, .. } => Priority::BACKGROUND,
        _ if route.concerns_all() => Priority::BACKGROUND,
        WatchEvent::Applied { initial: false, .. } | WatchEvent::Deleted(_) => Priority::CHANGE,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use windlass_core::cache::watch::Tombstone;
    use windlass_core::object::reference::ReferencePath;
    use windlass_core::object::{Header, Object, ObjectKind, OwnerReference};

    use super::*;
    use crate::dispatch::tests::filled::Filled;

    fn labelled(primary: &str, generation: i64) -> Object {
        let header = Header {
            generation,
            labels: [("for".into(), primary.into())].into(),
            ..Header::bare(ObjectKey::namespaced("prod", "child"), "c-1", "1")
        };
        Object::new(header, "{}")
    }

    fn route(predicates: &[Predicate]) -> Route {
        Route {
            kind: ObjectKind::new("example.com/v1", "Child"),
            watch: None,
            mapping: Mapping::Label("for".into()),
            predicates: predicates.into(),
            code_predicate: None,
            deletions: true,
            primary: PrimaryKind { kind: ObjectKind::new("example.com/v1", "Parent"), namespaced: true },
        }
    }

    fn names(route: &Route, event: &WatchEvent) -> Vec<String> {
        route.keys(event, &Stores::default()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_object_that_moves_concerns_the_primary_that_it_leaves_too() {
        let moved = WatchEvent::Applied { old: Some(labelled("a", 1)), new: labelled("b", 1), initial: false };
        assert_eq!(names(&route(&[]), &moved), ["prod/a", "prod/b"]);
    }

    #[test]
    fn a_change_that_fails_all_predicates_queues_no_key() {
        let same = WatchEvent::Applied { old: Some(labelled("a", 1)), new: labelled("a", 1), initial: false };
        assert!(names(&route(&[Predicate::Generation]), &same).is_empty());
    }

    #[test]
    fn names_in_a_list_run_primaries_that_exist_each_once() {
        let cache = Filled::with(&["a", "b"]);
        let made_up = [r#""made-up""#].repeat(130_000).join(",");
        let text = format!(r#"{{"for":["b",{made_up},"a","b"],"refs":[{{"name":"made-up"}},{{"name":"a"}}]}}"#);
        let mut header = labelled("a", 1).header.clone();
        let owner = |name: &str| OwnerReference {
            kind: ObjectKind::new("example.com/v1", "Parent"),
            name: name.into(),
            uid: "p-1".into(),
            controller: false,
        };
        header.owners = ["b", "made-up", "a", "b"].map(owner).into();
        let object = Object::new(header, text);
        let new = WatchEvent::Applied { old: None, new: object.clone(), initial: false };
        let path = ReferencePath { base: "/refs/*".into(), namespace: None, name: "/name".into() };
        let [a, b, made_up] = ["a", "b", "made-up"].map(|name| ObjectKey::namespaced("prod", name));
        for (mapping, named) in [
            (Mapping::Field("/for/*".into()), vec![b.clone(), a.clone()]),
            (Mapping::Reference(path), vec![a.clone()]),
            (Mapping::AnyOwner, vec![b, a.clone()]),
        ] {
            let route = Route { mapping, ..route(&[]) };
            assert_eq!(route.keys(&new, &cache.primaries()), named);
            let concerns = |key| route.concerns(&object, key, &cache.primaries());
            assert!(concerns(&a) && !concerns(&made_up), "a key that does not run must not justify skipping a write");
        }
    }

    #[test]
    fn only_the_first_list_is_background() {
        let applied = |initial| WatchEvent::Applied { old: None, new: labelled("a", 1), initial };
        assert_eq!(priority(&applied(true), &route(&[])), Priority::BACKGROUND);
        assert_eq!(priority(&applied(false), &route(&[])), Priority::CHANGE);
        let gone = WatchEvent::Deleted(Tombstone { last: labelled("a", 1), final_state_unknown: false });
        assert_eq!(priority(&gone, &route(&[])), Priority::CHANGE);
    }

    #[test]
    fn only_a_change_of_a_primarys_own_annotation_requests_a_run() {
        let at = |time: &str| {
            let text = format!(r#"{{"metadata":{{"annotations":{{"windlass.dev/run-requested-at":"{time}"}}}}}}"#);
            Object::new(labelled("a", 1).header.clone(), text)
        };
        let itself = Route { mapping: Mapping::Itself, ..route(&[Predicate::Generation]) };
        let reason_of = |route: &Route, old: Option<Object>, new: Object| {
            let event = WatchEvent::Applied { old, new, initial: false };
            names(route, &event).pop().map(|_| route.trigger(&event).reason)
        };
        assert_eq!(reason_of(&itself, Some(at("1")), at("2")), Some(TriggerReason::RunRequested));
        assert_eq!(reason_of(&itself, None, at("2")), Some(TriggerReason::Changed), "a first list or a new object");
        assert_eq!(reason_of(&itself, Some(at("1")), labelled("a", 1)), None, "a removal");
        assert_eq!(reason_of(&route(&[Predicate::Generation]), Some(at("1")), at("2")), None, "an object that it owns");
    }

    #[test]
    fn a_watch_without_deletions_queues_no_key_for_one() {
        let route = Route { deletions: false, ..route(&[]) };
        let gone = WatchEvent::Deleted(Tombstone { last: labelled("a", 1), final_state_unknown: false });
        assert!(names(&route, &gone).is_empty());
        let old = labelled("a", 1);
        let deleting = Object::new(Header { deleting: true, ..old.header.clone() }, "{}");
        let begun = WatchEvent::Applied { old: Some(old.clone()), new: deleting, initial: false };
        assert!(names(&route, &begun).is_empty());
        let header = Header { uid: "c-2".into(), ..labelled("b", 1).header.clone() };
        let replaced = WatchEvent::Applied { old: Some(old), new: Object::new(header, "{}"), initial: false };
        assert_eq!(names(&route, &replaced), ["prod/b"], "only the new object counts");
        assert!(!route.misses_nothing());
    }

    #[test]
    fn a_watch_with_a_code_predicate_may_miss_changes() {
        let code = CodePredicate { finalizer: "windlass.dev/a".into(), is_primary: false, deletions: true };
        assert!(route(&[]).misses_nothing());
        let route = Route { code_predicate: Some(code), ..route(&[]) };
        assert!(!route.misses_nothing(), "a write that the code would not let pass must not be skipped");
    }

    #[test]
    fn a_rescan_misses_deletions_moves_and_requests() {
        let changed = |old: &Object, new: &Object| WatchEvent::Applied {
            old: Some(old.clone()),
            new: new.clone(),
            initial: false,
        };
        let misses = |route: &Route, event: &WatchEvent| route.is_missed_by_rescan(event, &Stores::default());
        let (a, b) = (labelled("a", 1), labelled("b", 1));
        let gone = WatchEvent::Deleted(Tombstone { last: a.clone(), final_state_unknown: false });
        let new = WatchEvent::Applied { old: None, new: a.clone(), initial: false };
        let route = route(&[]);
        assert!(misses(&route, &gone) && misses(&route, &changed(&a, &b)), "the primary `a` does not show any more");
        assert!(!misses(&route, &changed(&a, &a)) && !misses(&route, &new));
        assert!(!misses(&Route { deletions: false, ..route.clone() }, &gone));

        let mapper = Route { mapping: Mapping::Mapper, ..route.clone() };
        let other = Object::new(Header { uid: "c-2".into(), ..a.header.clone() }, "{}");
        assert!(misses(&mapper, &gone) && misses(&mapper, &changed(&a, &other)));
        assert!(!misses(&mapper, &changed(&a, &b)), "the mapper is asked about the new state");

        let code = CodePredicate { finalizer: "windlass.dev/a".into(), is_primary: true, deletions: true };
        let judged = Some(CodePredicate { is_primary: false, ..code.clone() });
        let child = Route { code_predicate: judged.clone(), ..route.clone() };
        assert!(misses(&child, &changed(&a, &b)), "asked now, the code may let it pass for both primaries");
        assert!(!misses(&child, &changed(&a, &a)) && !misses(&child, &new));
        let mapper = Route { code_predicate: judged, ..mapper };
        assert!(!misses(&mapper, &changed(&a, &b)) && misses(&mapper, &gone));
        let itself = Route { mapping: Mapping::Itself, code_predicate: Some(code), ..route };
        let requested = r#"{"metadata":{"annotations":{"windlass.dev/run-requested-at":"now"}}}"#;
        let requested = Object::new(a.header.clone(), requested);
        assert!(misses(&itself, &changed(&a, &requested)) && misses(&itself, &changed(&a, &other)));
        assert!(!misses(&itself, &changed(&a, &b)) && !misses(&itself, &new), "the code decides about them");
    }

    #[test]
    fn many_primaries_are_compared_about_once_each() {
        thread_local!(static COMPARED: Cell<usize> = const { Cell::new(0) });
        struct Counted(usize);
        impl PartialEq for Counted {
            fn eq(&self, other: &Self) -> bool {
                COMPARED.set(COMPARED.get() + 1);
                self.0 == other.0
            }
        }
        impl Eq for Counted {}
        impl Hash for Counted {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }
        let keys = || (0..1_000).map(Counted).collect::<Vec<_>>();
        assert!(!lacks_any(&keys(), &keys()) && lacks_any(&keys(), &[Counted(1_000)]));
        assert!(COMPARED.get() < 10_000, "{}", COMPARED.get());
    }

    #[test]
    fn appearing_and_going_pass_every_predicate() {
        let route = route(&[Predicate::Generation]);
        let new = WatchEvent::Applied { old: None, new: labelled("a", 1), initial: true };
        assert_eq!(names(&route, &new), ["prod/a"]);
        let gone = WatchEvent::Deleted(Tombstone { last: labelled("a", 1), final_state_unknown: true });
        assert_eq!(names(&route, &gone), ["prod/a"]);
    }
}
