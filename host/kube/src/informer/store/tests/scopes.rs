//! The states of scopes, over random histories of a store: two equal states of a scope mean the same objects, and a
//! change outside of a scope leaves its state alone. Saved calls rest on this (ADR 46).

use std::collections::HashMap;

use windlass_core::cache::watch::SelectorForm;
use windlass_core::defect::Defect;

use super::*;

/// The scopes of one kind that a test watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    All,
    Namespaces,
    Owners,
    Values,
    Selectors,
}

const CLASSES: [Class; 5] = [Class::All, Class::Namespaces, Class::Owners, Class::Values, Class::Selectors];

fn sources() -> [IndexSource; 2] {
    let selector = IndexSource::Selector { pointer: "/spec/selector".into(), form: SelectorForm::Labels };
    [IndexSource::Label("app".into()), selector]
}

impl Class {
    fn scopes(self, [value, selector]: &[IndexSource; 2]) -> Vec<StoreScope<'_>> {
        match self {
            Self::All => vec![StoreScope::All],
            Self::Namespaces => ["a", "b", "c"].map(StoreScope::Namespace).into(),
            Self::Owners => ["u", "v", "w"].map(StoreScope::Owned).into(),
            Self::Values => ["x", "y", "z"].map(|app| StoreScope::Index(value, app)).into(),
            Self::Selectors => ["app=x", "app=y,tier=z", ""].map(|labels| StoreScope::Index(selector, labels)).into(),
        }
    }
}

/// Whether the scope has the object. `None` for selectors, whose states change with other objects too.
fn has(scope: StoreScope<'_>, object: &Object) -> Option<bool> {
    let header = &object.header;
    Some(match scope {
        StoreScope::All => true,
        StoreScope::Namespace(namespace) => header.key.namespace.as_deref() == Some(namespace),
        StoreScope::Owned(uid) => header.controller().is_some_and(|owner| *owner.uid == *uid),
        StoreScope::Index(IndexSource::Label(_), app) => header.labels.get("app").is_some_and(|value| **value == *app),
        StoreScope::Index(..) => return None,
    })
}

fn random_object(random: &mut SmallRng) -> Object {
    let mut one_of = |values: &[&'static str]| values[random.random_range(0..values.len())];
    let metadata = format!(
        r#""namespace":"{}","name":"{}","labels":{{"app":"{}"}}{}"#,
        one_of(&["a", "b"]),
        one_of(&["1", "2", "3"]),
        one_of(&["x", "y"]),
        match one_of(&["", "u", "v"]) {
            "" => String::new(),
            uid => format!(
                r#","ownerReferences":[{{"apiVersion":"v1","kind":"O","name":"o","controller":true,"uid":"{uid}"}}]"#
            ),
        }
    );
    let selector = one_of(&["", r#","spec":{"selector":{"app":"x"}}"#, r#","spec":{"selector":{"tier":"z"}}"#]);
    parser().object(&format!(r#"{{"metadata":{{{metadata}}}{selector}}}"#)).expect("an object")
}

fn resource() -> Arc<Resource> {
    let (kind, plural) = (ObjectKind::new("v1", "Pod"), "pods".into());
    Arc::new(Resource { kind, plural, namespaced: true, subresources: vec![], verbs: [].into(), comparable: true })
}

fn list(contents: &mut Contents) {
    contents.set_listed(resource(), "1".into(), Stamp::take(), None);
}

/// Changes the contents. Returns the objects that came and went, or `None` if all may have.
fn change(contents: &mut Contents, random: &mut SmallRng, sources: &[IndexSource; 2]) -> Option<Vec<Object>> {
    match random.random_range(0..20) {
        0..9 => {
            let object = random_object(random);
            Some([contents.insert(&object), Some(object)].into_iter().flatten().collect())
        }
        9..15 => Some(contents.remove(&random_object(random).header.key).into_iter().collect()),
        15 | 16 => {
            contents.set_version("7".into());
            list(contents);
            Some(vec![])
        }
        17 => {
            contents.rebuild();
            None
        }
        18 => {
            contents.clear();
            list(contents);
            None
        }
        _ => {
            let source = &sources[random.random_range(0..2)];
            contents.undeclare(source);
            contents.declare(source, usize::MAX).expect("a pointer");
            None
        }
    }
}

/// Changes a store, and compares the states of the scopes of `class`.
fn history(seed: u64, class: Class) -> Result<(), String> {
    let (mut random, sources) = (SmallRng::seed_from_u64(seed), sources());
    let scopes = class.scopes(&sources);
    let (store, mut writer) = Store::new();
    writer.update(|contents| {
        for source in &sources {
            contents.declare(source, usize::MAX).expect("a pointer");
        }
        list(contents);
    });
    let state = |scope| {
        let mut objects = Vec::new();
        let state = store.scan_state(scope, None, |object| {
            objects.push((object.header.key.to_string(), object.stamp()));
            ControlFlow::Continue(())
        });
        (state.expect("a list and its index"), objects)
    };
    let mut known: Vec<HashMap<Stamp, _>> = scopes.iter().map(|scope| HashMap::from([state(*scope)])).collect();
    for step in 0..80 {
        let before: Vec<_> = scopes.iter().map(|scope| state(*scope).0).collect();
        let changed = writer.update(|contents| change(contents, &mut random, &sources));
        for ((scope, known), before) in scopes.iter().zip(&mut known).zip(before) {
            let (stamp, objects) = state(*scope);
            if store.changed(*scope) != Some(stamp) {
                return Err(format!("seed {seed}, step {step}: {scope:?} has two states"));
            }
            let is_outside = |object| has(*scope, object) == Some(false);
            if changed.as_ref().is_some_and(|changed| changed.iter().all(is_outside)) && stamp != before {
                return Err(format!("seed {seed}, step {step}: a change outside of {scope:?} has changed its state"));
            }
            let then = known.entry(stamp).or_insert_with(|| objects.clone());
            if *then != objects {
                return Err(format!(
                    "seed {seed}, step {step}: {scope:?} had {then:?} in the state {stamp:?}, and has {objects:?}"
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn a_state_of_a_scope_means_the_same_objects() {
    for class in CLASSES {
        (0..150).try_for_each(|seed| history(seed, class)).unwrap_or_else(|wrong| panic!("{class:?}: {wrong}"));
    }
}

#[test]
fn a_counter_of_any_scope_that_misses_a_removal_is_found() {
    let _seeded = Defect::RemovalIsNotCounted.seed();
    for class in CLASSES {
        assert!((0..150).any(|seed| history(seed, class).is_err()), "{class:?}");
    }
}

#[test]
fn the_surroundings_of_an_absent_object_are_its_namespace() {
    let (store, mut writer) = Store::new();
    writer.update(list);
    let key = ObjectKey::namespaced("a", "absent");
    let mut states = vec![store.changed_near(&key)];
    for (namespace, is_near) in [("b", false), ("a", true)] {
        writer.update(|contents| contents.insert(&object(Some(namespace), "1", None)));
        assert_eq!(store.changed_near(&key) != states[states.len() - 1], is_near, "{namespace}");
        states.push(store.changed_near(&key));
    }
    // Emptied, and filled again: a read in between has seen another state.
    writer.update(|contents| contents.remove(&ObjectKey::namespaced("a", "1")));
    assert!(!states.contains(&store.changed_near(&key)));
    states.push(store.changed_near(&key));
    writer.update(|contents| {
        contents.clear();
        list(contents);
    });
    assert!(!states.contains(&store.changed_near(&key)));
}
