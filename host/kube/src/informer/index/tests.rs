use windlass_core::cache::watch::{SelectorForm, WatchSpec};
use windlass_core::object::ObjectKind;
use windlass_core::object::reference::ReferencePath;

use super::*;
use crate::informer::parse::ObjectParser;

fn object(key: &str, spec: &str) -> Object {
    let (namespace, name) = key.split_once('/').expect("a namespace");
    let text = format!(r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}"}},"spec":{spec}}}"#);
    let mut parser = ObjectParser::new(&WatchSpec::all(ObjectKind::new("v1", "Service"))).expect("no pointers");
    parser.object(&text).expect("an object")
}

fn filled(source: &IndexSource, objects: &[Object]) -> DeclaredIndex {
    let mut index = DeclaredIndex::new(source, usize::MAX).expect("pointers");
    for object in objects {
        index.update(None, Some(object));
    }
    index
}

fn found(index: &DeclaredIndex, value: &str) -> Vec<String> {
    index.after(value, None).iter().map(|object| object.header.key.to_string()).collect()
}

fn selectors(form: SelectorForm) -> IndexSource {
    IndexSource::Selector { pointer: "/spec/selector".into(), form }
}

#[test]
fn objects_are_found_by_the_labels_that_they_select_in_the_order_of_keys() {
    let objects = [
        object("b/web", r#"{"selector":{"matchLabels":{"app":"web"}}}"#),
        object(
            "a/web-or-api",
            r#"{"selector":{"matchExpressions":[{"key":"app","operator":"In","values":["web","api"]}]}}"#,
        ),
        object("a/not-web", r#"{"selector":{"matchExpressions":[{"key":"app","operator":"NotIn","values":["web"]}]}}"#),
        object("c/everything", r#"{"selector":{}}"#),
        object("c/none", "{}"),
        object("c/narrow", r#"{"selector":{"matchLabels":{"app":"web","tier":"front"}}}"#),
    ];
    let index = filled(&selectors(SelectorForm::LabelSelector), &objects);
    assert_eq!(found(&index, "app=web"), ["a/web-or-api", "b/web", "c/everything"]);
    assert_eq!(found(&index, "app=web,tier=front"), ["a/web-or-api", "b/web", "c/everything", "c/narrow"]);
    assert_eq!(found(&index, "app=other"), ["a/not-web", "c/everything"]);
    assert_eq!(found(&index, ""), ["a/not-web", "c/everything"]);
    let key = ObjectKey::namespaced("a", "web-or-api");
    assert_eq!(index.after("app=web", Some(&key)).len(), 2, "a scan goes on behind a key");
}

#[test]
fn an_empty_map_of_labels_is_found_by_nothing() {
    let objects = [object("a/web", r#"{"selector":{"app":"web"}}"#), object("a/empty", r#"{"selector":{}}"#)];
    let index = filled(&selectors(SelectorForm::Labels), &objects);
    assert_eq!(found(&index, "app=web"), ["a/web"]);
    assert!(found(&index, "").is_empty());
}

#[test]
fn a_changed_selector_is_found_by_its_new_labels_only() {
    let old = object("a/s", r#"{"selector":{"app":"web"}}"#);
    let new = object("a/s", r#"{"selector":{"app":"api"}}"#);
    let mut index = filled(&selectors(SelectorForm::Labels), std::slice::from_ref(&old));
    index.update(Some(&old), Some(&new));
    assert_eq!((found(&index, "app=web").len(), found(&index, "app=api").len()), (0, 1));
    index.update(Some(&new), None);
    assert!(found(&index, "app=api").is_empty() && index.selectors.is_empty());
}

#[test]
fn matching_one_of_an_objects_selectors_is_enough() {
    let source = IndexSource::Selector { pointer: "/spec/from/*/pods".into(), form: SelectorForm::LabelSelector };
    let policy = r#"{"from":[{"pods":{"matchLabels":{"app":"web"}}},{"pods":{"matchLabels":{"tier":"front"}}},{}]}"#;
    let index = filled(&source, &[object("a/policy", policy)]);
    for labels in ["app=web", "tier=front", "app=web,tier=front"] {
        assert_eq!(found(&index, labels), ["a/policy"], "{labels}");
    }
    assert!(found(&index, "app=api").is_empty());
}

#[test]
fn objects_are_found_by_the_elements_of_their_lists() {
    let spec = r#"{"sources":[{"name":"a"},{"name":"b","namespace":"y"}]}"#;
    let objects = [object("x/o", spec)];
    let names = filled(&IndexSource::Field("/spec/sources/*/name".into()), &objects);
    assert_eq!((found(&names, "a"), found(&names, "b")), (vec!["x/o".to_owned()], vec!["x/o".to_owned()]));
    let path =
        ReferencePath { base: "/spec/sources/*".into(), namespace: Some("/namespace".into()), name: "/name".into() };
    let references = filled(&IndexSource::Reference(path), &objects);
    for (value, expected) in [("x/a", 1), ("a", 1), ("y/b", 1), ("x/b", 0), ("b", 0), ("y/a", 0)] {
        assert_eq!(found(&references, value).len(), expected, "{value}");
    }
}

fn annotated(key: &str, value: &str) -> Object {
    let plain = object(key, "{}");
    let metadata = format!(r#""metadata":{{"annotations":{{"e.com/uses":"{value}"}},"#);
    Object::new(plain.header.clone(), plain.text().replace(r#""metadata":{"#, &metadata))
}

#[test]
fn objects_are_found_by_each_part_of_an_annotation_until_it_changes() {
    let source = IndexSource::Annotation { key: "e.com/uses".into(), split: Some(',') };
    let (old, new) = (annotated("x/o", "a, b"), annotated("x/o", "b ,c"));
    let mut index = filled(&source, std::slice::from_ref(&old));
    let counts = |index: &DeclaredIndex| ["a", "b", "c", "a, b", ""].map(|value| found(index, value).len());
    assert_eq!(counts(&index), [1, 1, 0, 0, 0]);
    index.update(Some(&old), Some(&new));
    assert_eq!(counts(&index), [0, 1, 1, 0, 0]);
    assert!(has_value(&source, &new, "c") && !has_value(&source, &new, "a"));
}

#[test]
fn selectors_written_as_text_are_found_by_the_labels_that_they_select() {
    let objects = [
        object("a/web", r#"{"selector":"app in (web, api)"}"#),
        object("a/not", r#"{"selector":"app!=web"}"#),
        object("a/wrong", r#"{"selector":"app in"}"#),
        object("a/all", r#"{"selector":""}"#),
        object("a/object", r#"{"selector":{"app":"web"}}"#),
    ];
    let index = filled(&selectors(SelectorForm::Text), &objects);
    assert_eq!(found(&index, "app=web"), ["a/all", "a/web"]);
    assert_eq!(found(&index, "app=other"), ["a/all", "a/not"]);
}

#[test]
fn a_value_without_an_index_is_judged_as_an_index_would() {
    let service = object("a/s", r#"{"selector":{"app":"web"}}"#);
    let source = selectors(SelectorForm::Labels);
    assert!(has_value(&source, &service, "app=web,tier=front"));
    assert!(!has_value(&source, &service, "app=api"));
    assert!(check(&source, "app=web").is_ok() && check(&source, "web").is_err());
    assert!(check(&IndexSource::Label("app".into()), "web").is_ok());
}

#[test]
fn an_object_with_a_very_deep_field_is_found_by_its_other_values() {
    let deep = format!("{}1{}", "[".repeat(50_000), "]".repeat(50_000));
    let spec = format!(r#"{{"sources":[{{"name":"a"}},{{"name":{deep}}},{{"name":"b"}}]}}"#);
    let index = filled(&IndexSource::Field("/spec/sources/*/name".into()), &[object("x/o", &spec)]);
    assert_eq!((found(&index, "a"), found(&index, "b")), (vec!["x/o".to_owned()], vec!["x/o".to_owned()]));
}

#[test]
fn the_memory_of_an_index_is_counted_until_its_objects_go() {
    let split = IndexSource::Annotation { key: "e.com/uses".into(), split: Some(',') };
    let field = IndexSource::Field("/spec/a".into());
    let texts = selectors(SelectorForm::Text);
    let small = |source: &IndexSource| match source {
        IndexSource::Annotation { .. } => annotated("x/o", "a,b"),
        _ => object("x/o", r#"{"a":["a","b"],"selector":"a=b,!c"}"#),
    };
    let many: Vec<_> = (0..500).map(|at| format!("k{at}")).collect();
    let large = |source: &IndexSource| match source {
        IndexSource::Annotation { .. } => annotated("x/o", &many.join(",")),
        _ => object("x/o", &serde_json::json!({"a": many, "selector": many.join(",")}).to_string()),
    };
    for source in [split, field, texts] {
        let (small, large) = (small(&source), large(&source));
        let mut index = filled(&source, std::slice::from_ref(&small));
        let before = index.bytes();
        index.update(Some(&small), Some(&large));
        assert!(before > 0 && index.bytes() > 500 * 32, "{source:?}: {}", index.bytes());
        index.update(Some(&large), Some(&small));
        assert_eq!(index.bytes(), before, "{source:?}");
        index.update(Some(&small), None);
        assert_eq!(index.bytes(), 0, "{source:?}");
    }
}

#[test]
fn an_index_beyond_its_limit_is_emptied_and_incomplete() {
    let source = IndexSource::Annotation { key: "e.com/uses".into(), split: Some(',') };
    let parts = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<_>>().join(",");
    let (small, large) = (annotated("x/a", &parts(10)), annotated("x/b", &parts(1_000)));
    let mut index = DeclaredIndex::new(&source, 10_000).expect("no pointers");
    index.update(None, Some(&small));
    assert!(index.is_complete() && index.bytes() < 10_000);
    index.update(None, Some(&large));
    assert!(!index.is_complete() && index.bytes() > 10_000 && index.groups.lists.is_empty());
    index.update(Some(&large), None);
    assert!(!index.is_complete(), "it lacks the other object");
    index.clear();
    index.update(None, Some(&small));
    assert!(index.is_complete());
}
