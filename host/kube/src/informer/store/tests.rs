mod scopes;

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::ObjectKind;

use super::*;
use crate::informer::parse::ObjectParser;

fn parser() -> ObjectParser {
    ObjectParser::new(&WatchSpec::all(ObjectKind::new("v1", "Pod"))).expect("no pointers")
}

fn object(namespace: Option<&str>, name: &str, owner: Option<&str>) -> Object {
    let namespace = namespace.map(|namespace| format!(r#","namespace":"{namespace}""#)).unwrap_or_default();
    let owners = owner
        .map(|uid| {
            let reference = r#"{"apiVersion":"v1","kind":"Owner","name":"o","controller":true,"uid""#;
            format!(r#","ownerReferences":[{reference}:"{uid}"}}]"#)
        })
        .unwrap_or_default();
    let text = format!(r#"{{"metadata":{{"name":"{name}"{namespace}{owners}}}}}"#);
    parser().object(&text).expect("an object")
}

fn keys(objects: &[Object]) -> Vec<String> {
    objects.iter().map(|object| object.header.key.to_string()).collect()
}

#[test]
fn objects_are_found_by_key_namespace_and_owner() {
    let (store, mut writer) = Store::new();
    writer.update(|contents| {
        contents.insert(&object(Some("b"), "2", Some("u")));
        contents.insert(&object(Some("a"), "1", Some("u")));
        contents.insert(&object(None, "0", None));
    });
    assert_eq!(keys(&store.all()), ["0", "a/1", "b/2"]);
    assert_eq!(keys(&store.in_namespace("b")), ["b/2"]);
    assert_eq!(keys(&store.owned_by("u")), ["a/1", "b/2"]);
    assert!(store.get(&ObjectKey::cluster("0")).is_some());
    writer.update(|contents| contents.insert(&object(Some("a"), "1", Some("v"))));
    assert_eq!(keys(&store.owned_by("u")), ["b/2"]);
    writer.update(|contents| contents.remove(&ObjectKey::namespaced("b", "2")));
    assert!(store.owned_by("u").is_empty() && store.in_namespace("b").is_empty());
    assert_eq!(store.len(), 2);
}

#[test]
fn a_scan_continues_after_any_key() {
    let (store, mut writer) = Store::new();
    let all = [(None, "x"), (Some("a"), "1"), (Some("a"), "2"), (Some("b"), "1")];
    writer.update(|contents| {
        for (namespace, name) in all {
            contents.insert(&object(namespace, name, None));
        }
    });
    let after = |scope, after: &ObjectKey| {
        let mut found = Vec::new();
        store.scan(scope, Some(after), |object| {
            found.push(object.clone());
            ControlFlow::Continue(())
        });
        keys(&found)
    };
    assert_eq!(after(StoreScope::All, &ObjectKey::cluster("x")), ["a/1", "a/2", "b/1"]);
    assert_eq!(after(StoreScope::All, &ObjectKey::namespaced("a", "1")), ["a/2", "b/1"]);
    assert_eq!(after(StoreScope::All, &ObjectKey::namespaced("aa", "1")), ["b/1"]);
    assert_eq!(after(StoreScope::Namespace("a"), &ObjectKey::namespaced("a", "1")), ["a/2"]);
    assert!(after(StoreScope::Namespace("a"), &ObjectKey::namespaced("b", "0")).is_empty());
}

/// The simplest possible model: a set of (namespace, name, owner), changed at random together with the store.
#[test]
fn store_and_indexes_agree_with_a_model_under_random_changes() {
    let mut random = SmallRng::seed_from_u64(7);
    let (store, mut writer) = Store::new();
    let mut model = BTreeMap::new();
    for _ in 0..5_000 {
        let namespace = format!("n{}", random.random_range(0..3));
        let name = format!("o{}", random.random_range(0..20));
        let key = ObjectKey::namespaced(&*namespace, &*name);
        if random.random_bool(0.4) {
            let removed = writer.update(|contents| contents.remove(&key));
            assert_eq!(removed.is_some(), model.remove(&key).is_some());
        } else {
            let owner = random.random_bool(0.7).then(|| format!("u{}", random.random_range(0..4)));
            writer.update(|contents| contents.insert(&object(Some(&namespace), &name, owner.as_deref())));
            model.insert(key, owner);
        }
        assert_eq!(store.len(), model.len());
    }
    assert_eq!(
        store.all().iter().map(|object| object.header.key.clone()).collect::<Vec<_>>(),
        model.keys().cloned().collect::<Vec<_>>()
    );
    for uid in ["u0", "u1", "u2", "u3"] {
        let expected: BTreeSet<_> =
            model.iter().filter(|(_, owner)| owner.as_deref() == Some(uid)).map(|(key, _)| key.clone()).collect();
        let found: BTreeSet<_> = store.owned_by(uid).iter().map(|object| object.header.key.clone()).collect();
        assert_eq!(found, expected);
    }
}
