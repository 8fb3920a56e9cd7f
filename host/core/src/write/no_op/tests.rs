use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::object::{Header, ObjectKey};

const MANAGER: Manager<'static> = Manager { name: "windlass/webapp", subresource: "" };

/// The server's object, with the fields that the manager owns from applies.
fn object(mut text: Value, owned: &Value) -> Object {
    text["apiVersion"] = json!("v1");
    text["kind"] = json!("Service");
    let entry = json!({
        "manager": "windlass/webapp", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": owned,
    });
    text["metadata"]["name"] = json!("a");
    text["metadata"]["uid"] = json!("u");
    text["metadata"]["resourceVersion"] = json!("7");
    let header = Header {
        own_fields: Some(Arc::new(json!([entry]).to_string())),
        ..Header::bare(ObjectKey::namespaced("prod", "a"), "u", "7")
    };
    Object::new(header, text.to_string())
}

fn body(mut fields: Value) -> String {
    fields["apiVersion"] = json!("v1");
    fields["kind"] = json!("Service");
    fields["metadata"]["name"] = json!("a");
    fields.to_string()
}

fn is_no_op(fields: Value, object: &Object) -> bool {
    apply_changes_nothing(&body(fields), MANAGER, object, &Atomic::default())
}

#[test]
fn an_apply_of_owned_fields_with_equal_values_changes_nothing() {
    let owned = json!({"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:type": {}}});
    let service =
        object(json!({"metadata": {"labels": {"app": "x", "other": "y"}}, "spec": {"type": "A", "ip": "1"}}), &owned);
    let same = || json!({"metadata": {"labels": {"app": "x"}}, "spec": {"type": "A"}});
    assert!(is_no_op(same(), &service));
    let mut more = same();
    more["spec"]["ip"] = json!("1");
    assert!(!is_no_op(more, &service), "it would own a field more");
    assert!(!is_no_op(json!({"spec": {"type": "A"}}), &service), "it would give one up");
    let mut other = same();
    other["metadata"]["labels"]["app"] = json!("z");
    assert!(!is_no_op(other, &service), "a value would change");
    let mut null = same();
    null["spec"]["type"] = Value::Null;
    assert!(!is_no_op(null, &service));
}

#[test]
fn versions_and_managers_must_match() {
    let service = object(json!({"spec": {"type": "A"}}), &json!({"f:spec": {"f:type": {}}}));
    let with = |metadata: Value| json!({"metadata": metadata, "spec": {"type": "A"}});
    assert!(is_no_op(with(json!({"uid": "u", "resourceVersion": "7"})), &service));
    assert!(!is_no_op(with(json!({"uid": "v"})), &service));
    assert!(!is_no_op(with(json!({"resourceVersion": "6"})), &service));
    let text = body(with(json!({})));
    let of = |manager| apply_changes_nothing(&text, manager, &service, &Atomic::default());
    assert!(of(MANAGER));
    assert!(!of(Manager { name: "windlass/other", ..MANAGER }));
    assert!(!of(Manager { subresource: "status", ..MANAGER }));
}

#[test]
fn leaf_maps_are_compared_once_they_are_known_to_be_atomic() {
    let owned = json!({"f:spec": {"f:selector": {}}});
    let service = object(json!({"spec": {"selector": {"app": "x"}}}), &owned);
    let text = body(json!({"spec": {"selector": {"app": "x"}}}));
    let mut atomic = Atomic::default();
    // The map might be granular and have been empty when it was applied. Then this apply would own `app`.
    assert!(!apply_changes_nothing(&text, MANAGER, &service, &atomic));
    atomic.learn(&text, MANAGER, &service);
    assert!(apply_changes_nothing(&text, MANAGER, &service, &atomic));
    let other = body(json!({"spec": {"selector": {"app": "y"}}}));
    assert!(!apply_changes_nothing(&other, MANAGER, &service, &atomic));
}

#[test]
fn list_items_are_matched_by_key_and_must_keep_their_positions() {
    let owned = json!({"f:spec": {"f:ports": {
        "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
        "k:{\"port\":81,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:name": {}},
    }}});
    let [first, second] = [json!({"port": 80, "protocol": "TCP"}), json!({"port": 81, "protocol": "TCP", "name": "b"})];
    let service = object(json!({"spec": {"ports": [first, second]}}), &owned);
    let ports = |ports: Value| json!({"spec": {"ports": ports}});
    assert!(is_no_op(ports(json!([{"port": 80}, {"port": 81, "name": "b"}])), &service));
    assert!(!is_no_op(ports(json!([{"port": 81, "name": "b"}, {"port": 80}])), &service), "another order");
    assert!(!is_no_op(ports(json!([{"port": 80}])), &service));
    assert!(!is_no_op(ports(json!([{"port": 80}, {"port": 81, "name": "c"}])), &service));
    assert!(!is_no_op(ports(json!([{"port": 80, "protocol": "TCP"}, {"port": 81, "name": "b"}])), &service));
    let longer = object(json!({"spec": {"ports": [first, second, {"port": 82, "protocol": "TCP"}]}}), &owned);
    assert!(!is_no_op(ports(json!([{"port": 80}, {"port": 81, "name": "b"}])), &longer), "another's item");
    let set = json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"a\"": {}}}});
    let marked = object(json!({"metadata": {"finalizers": ["a"]}}), &set);
    assert!(!is_no_op(json!({"metadata": {"finalizers": ["a"]}}), &marked), "the list itself is owned, too");
    let only = json!({"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}}}}});
    assert!(!is_no_op(ports(json!([{"port": 80}])), &object(json!({"spec": {"ports": [{"port": 80}]}}), &only)));
    let set = json!({"f:metadata": {"f:finalizers": {"v:\"a\"": {}}}});
    let marked = object(json!({"metadata": {"finalizers": ["a"]}}), &set);
    assert!(is_no_op(json!({"metadata": {"finalizers": ["a"]}}), &marked));
}

#[test]
fn a_merge_changes_nothing_if_every_value_is_there() {
    let service = object(json!({"spec": {"type": "A", "list": [1, 2]}}), &json!({}));
    for (patch, expected) in [
        (json!({"spec": {"type": "A"}}), true),
        (json!({"metadata": {"resourceVersion": "7", "uid": "u"}, "spec": {"list": [1, 2]}}), true),
        (json!({"spec": {"gone": null}}), true),
        (json!({"spec": {"type": null}}), false),
        (json!({"spec": {"list": [1]}}), false),
        (json!({"metadata": {"resourceVersion": "6"}}), false),
        (json!({"metadata": {"managedFields": null}}), false),
        (json!({"spec": {"new": {}}}), false),
        (json!({"spec": {"new": {"x": null}}}), false),
        (json!([]), false),
    ] {
        assert_eq!(merge_changes_nothing(&patch.to_string(), &service), expected, "{patch}");
    }
}

#[test]
fn an_update_changes_nothing_if_it_equals_the_object() {
    let service = object(json!({"spec": {"type": "A"}}), &json!({}));
    let same: Value = serde_json::from_str(&service.text()).expect("JSON");
    let with = |path: &str, value: Value| {
        let mut body = same.clone();
        body["metadata"][path] = value;
        update_changes_nothing(&body.to_string(), &service)
    };
    assert!(update_changes_nothing(&same.to_string(), &service));
    assert!(!with("resourceVersion", json!("6")) && !with("managedFields", json!([])) && !with("labels", json!({})));
    let mut unlocked = same.clone();
    unlocked["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    assert!(update_changes_nothing(&unlocked.to_string(), &service));
    let managed = object(json!({"spec": {"type": "A"}, "metadata": {"managedFields": [{"manager": "a"}]}}), &json!({}));
    assert!(update_changes_nothing(&same.to_string(), &managed), "a watch may keep them");
}

#[test]
fn long_lists_and_names_are_neither_compared_nor_remembered() {
    let marked = |count: usize| {
        let names: Vec<_> = (0..count).map(|at| at.to_string()).collect();
        let owned: Map<String, Value> = names.iter().map(|name| (format!("v:{name:?}"), json!({}))).collect();
        let object = object(json!({"metadata": {"marks": names}}), &json!({"f:metadata": {"f:marks": owned}}));
        is_no_op(json!({"metadata": {"marks": names}}), &object)
    };
    assert!(marked(256) && !marked(256 + 1));
    let knows = |length: usize| {
        let name = "x".repeat(length);
        let service = object(json!({"spec": {name.clone(): [1]}}), &json!({"f:spec": {format!("f:{name}"): {}}}));
        let text = body(json!({"spec": {name: [1]}}));
        let mut atomic = Atomic::default();
        atomic.learn(&text, MANAGER, &service);
        apply_changes_nothing(&text, MANAGER, &service, &atomic)
    };
    assert!(knows(512 / 2) && !knows(512));
}

/// Whether a write is skipped for an object.
type IsSkipped<'a> = &'a dyn Fn(&Object) -> bool;

/// A value of random shape: scalars, maps and lists, a few levels deep.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), (0..3_u8).prop_map(Value::from), "[ab]".prop_map(Value::from)];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc/~*0]", inner, 0..3).prop_map(|fields| json!(fields)),
        ]
    })
}

/// The parts of an object: `spec`, `status` and the labels.
fn fields() -> impl Strategy<Value = Value> {
    let map = || prop::collection::btree_map("[abc/~*0]", value(), 0..3);
    (map(), map(), map())
        .prop_map(|(spec, status, labels)| json!({"spec": spec, "status": status, "metadata": {"labels": labels}}))
}

/// The fields that an apply of `body` comes to own, if every map and list at a depth below `granular` is a whole.
fn owned_by(body: &Value, granular: u32) -> Value {
    match body {
        Value::Object(fields) if granular > 0 && !fields.is_empty() => {
            let below = fields.iter().map(|(name, value)| (format!("f:{name}"), owned_by(value, granular - 1)));
            below.collect::<serde_json::Map<_, _>>().into()
        }
        _ => json!({}),
    }
}

/// Leaves out some of the members of `value`, as `choices` say.
fn reduced(value: &Value, choices: &mut impl Iterator<Item = bool>) -> Value {
    match value {
        Value::Object(fields) => {
            let mut kept = serde_json::Map::new();
            for (name, value) in fields {
                if choices.next().unwrap_or(true) {
                    kept.insert(name.clone(), reduced(value, choices));
                }
            }
            kept.into()
        }
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The write is skipped again, whatever changes outside of the part that it depends on.
    #[test]
    fn a_write_is_skipped_while_its_part_of_the_object_stays(
        before in fields(),
        after in fields(),
        choices in prop::collection::vec(any::<bool>(), 30),
        mixed in prop::collection::vec(any::<bool>(), 8),
        granular in 1..5_u32,
        asked in prop::sample::select(vec![vec![], vec!["/status/a"], vec!["/spec", "/status"]]),
    ) {
        let asked: Vec<String> = asked.into_iter().map(str::to_owned).collect();
        let wanted = reduced(&before, &mut choices.into_iter());
        // The later object has some of its parts from the earlier one, so that a write is often skipped again.
        let mut later = after;
        for (part, stays) in ["spec", "status", "metadata"].iter().zip(&mixed) {
            if *stays {
                later[*part] = before[*part].clone();
            }
        }
        let owned = owned_by(&wanted, granular);
        let atomic = {
            let mut atomic = Atomic::default();
            atomic.learn(&body(wanted.clone()), MANAGER, &object(before.clone(), &owned));
            atomic
        };
        let (before, later) = (object(before, &owned), object(later, &owned));
        let apply = body(wanted.clone());
        let applies = |object: &Object| apply_changes_nothing(&apply, MANAGER, object, &atomic);
        let merges = |object: &Object| merge_changes_nothing(&wanted.to_string(), object);
        let views: [(Option<SkipView>, IsSkipped<'_>); 2] = [
            (SkipView::of_apply(&apply, MANAGER, &before, Some(&asked)), &applies),
            (SkipView::of_merge(&wanted.to_string(), Some(&asked)), &merges),
        ];
        for (view, is_skipped) in views {
            let Some(view) = view.filter(|_| is_skipped(&before)) else { continue };
            if view.part_of(&before) == view.part_of(&later) {
                prop_assert!(is_skipped(&later), "{view:?}: {} and {}", before.text(), later.text());
            }
        }
    }
}

#[test]
fn a_skipped_apply_depends_on_its_leaves_its_owned_fields_and_its_answer() {
    let owned = json!({"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:type": {}, "f:pick": {}}});
    let pick = json!({"a": 1});
    let service = |labels: Value, kind: &str, pick: &Value, status: u8| {
        let spec = json!({"type": kind, "pick": pick, "ip": status});
        json!({"metadata": {"labels": labels}, "spec": spec, "status": {"seen": status, "asked": 1}})
    };
    let first = object(service(json!({"app": "x"}), "A", &pick, 1), &owned);
    let apply = body(json!({"metadata": {"labels": {"app": "x"}}, "spec": {"type": "A", "pick": pick}}));
    let asked = ["/status/asked".to_owned()];
    let view = SkipView::of_apply(&apply, MANAGER, &first, Some(&asked)).expect("it has one");
    let is_same = |object: &Object| view.part_of(object) == view.part_of(&first);
    assert!(is_same(&object(service(json!({"app": "x", "other": "y"}), "A", &pick, 2), &owned)), "foreign fields");
    assert!(!is_same(&object(service(json!({"app": "y"}), "A", &pick, 1), &owned)), "a value");
    assert!(!is_same(&object(service(json!({"app": "x"}), "A", &json!({"a": 1, "b": 2}), 1), &owned)), "an atomic map");
    let taken = json!({"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:pick": {}}});
    assert!(!is_same(&object(service(json!({"app": "x"}), "A", &pick, 1), &taken)), "a field was taken over");
    let mut answered = service(json!({"app": "x"}), "A", &pick, 1);
    answered["status"]["asked"] = json!(2);
    assert!(!is_same(&object(answered, &owned)), "the answer");
    assert_eq!(SkipView::of_apply(&apply, MANAGER, &first, None), None, "the plugin gets the whole object");
    let locked = body(json!({"metadata": {"resourceVersion": "7"}, "spec": {"type": "A"}}));
    assert_eq!(SkipView::of_apply(&locked, MANAGER, &first, Some(&asked)), None, "it names a version");
}

/// Each leaf repeats the names above it, so the memory of the pointers is the square of the body's.
#[test]
fn a_write_with_many_leaves_or_long_names_has_no_view() {
    let leaves = |name: &str, count: usize| {
        let below: serde_json::Map<_, _> = (0..count).map(|at| (format!("a{at}"), json!(0))).collect();
        json!({"spec": {name: below}})
    };
    let is_seen = |wanted: &Value| {
        let merged = SkipView::of_merge(&wanted.to_string(), Some(&[]));
        let owned = json!({"f:spec": {"f:x": {}}});
        let applied = SkipView::of_apply(&body(wanted.clone()), MANAGER, &object(wanted.clone(), &owned), Some(&[]));
        assert!(merged.as_ref().is_none_or(|view| view.bytes() < 64 << 10));
        [merged.is_some(), applied.is_some()]
    };
    assert_eq!(is_seen(&leaves("x", 100)), [true, true]);
    assert_eq!(is_seen(&leaves("x", 300)), [false, true], "the apply owns all of it as one value");
    assert_eq!(is_seen(&leaves(&"x".repeat(100_000), 10_000)), [false, false]);
    assert_eq!(is_seen(&leaves(&"x".repeat(1000), 30)), [false, true], "each leaf has a pointer");
    assert_eq!(SkipView::of_merge("{}", Some(&["/a".repeat(10_000)])), None, "the answer counts, too");
}

#[test]
fn a_merge_that_removes_something_depends_on_the_object_around_it() {
    let [with, without] =
        [json!({"spec": {"a": {"c": 1}}}), json!({"spec": {"x": 1}})].map(|it| object(it, &json!({})));
    let patch = r#"{"spec":{"a":{"b":null}}}"#;
    assert_eq!([&with, &without].map(|object| merge_changes_nothing(patch, object)), [true, false]);
    let view = SkipView::of_merge(patch, Some(&[])).expect("it has one");
    assert_ne!(view.part_of(&with), view.part_of(&without));
}
