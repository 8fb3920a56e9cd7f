//! Tests the operations on sets and their text.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::merge::lists::Place;
use crate::schema::Schema;

impl Set {
    /// The fields of the set that have no other fields of the set below them.
    pub(crate) fn leaves(&self) -> Self {
        let steps = self.steps.iter().map(|(step, entry)| {
            let is_member = entry.is_member && entry.below.is_empty();
            (step.clone(), Entry { is_member, below: entry.below.leaves() })
        });
        Self { steps: steps.collect() }
    }
}

fn set(fields: &Value) -> Set {
    Set::parse(fields).expect("fieldsV1")
}

fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Only quarters, because serde_json does not parse every float exactly by default.
        any::<i32>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        ".{0,6}".prop_map(Value::from),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => "[a-c]".prop_map(Step::Field),
        1 => ".{0,4}".prop_map(Step::Field),
        1 => prop::collection::btree_map("[a-c.\"]", any_scalar().prop_map(|v| canonical(&v)), 0..3).prop_map(Step::Key),
        1 => any_scalar().prop_map(|value| value_step(&value)),
        1 => any::<i64>().prop_map(Step::Index),
    ]
}

fn any_set() -> impl Strategy<Value = Set> {
    prop::collection::vec(prop::collection::vec(any_step(), 1..5), 0..12).prop_map(|paths| {
        let mut set = Set::new();
        for path in paths {
            set.insert(&path);
        }
        set
    })
}

/// Any JSON, because a client may send anything as `fieldsV1`.
fn any_json() -> impl Strategy<Value = Value> {
    any_scalar().prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("(f:|k:|v:|i:|\\.)?.{0,4}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_printed_set_parses_to_the_same_set(set in any_set()) {
        prop_assert_eq!(Set::parse(&set.print()).unwrap(), set);
    }

    #[test]
    fn sets_obey_the_laws_of_sets(a in any_set(), b in any_set(), c in any_set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b.union(&c)), a.intersection(&b).union(&a.intersection(&c)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.difference(&b.union(&c)), a.difference(&b).difference(&c));
        prop_assert_eq!(a.union(&a), a.clone());
        prop_assert!(a.difference(&a).is_empty());
    }

    #[test]
    fn leaves_are_members_without_members_below(a in any_set()) {
        prop_assert!(a.leaves().difference(&a).is_empty());
        prop_assert_eq!(a.leaves().leaves(), a.leaves());
        prop_assert_eq!(a.leaves().is_empty(), a.is_empty());
    }

    #[test]
    fn parsing_never_panics_and_parsed_sets_print_stably(fields in any_json()) {
        if let Ok(set) = Set::parse(&fields) {
            prop_assert_eq!(Set::parse(&set.print()).unwrap(), set);
        }
    }

    #[test]
    fn every_value_has_a_set_that_prints_and_parses(value in any_json()) {
        let set = Set::of(&value, Place::of_type("io.k8s.api.apps.v1.Deployment"));
        prop_assert_eq!(Set::parse(&set.print()).unwrap(), set);
    }
}

#[test]
fn a_dot_marks_a_member_with_members_below() {
    let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:replicas": {}}});
    let parsed = set(&fields);
    assert_eq!(parsed.paths(), [".metadata.labels", ".metadata.labels.app", ".spec.replicas"]);
    assert_eq!(parsed.print(), fields);
}

#[test]
fn items_are_shown_by_key_value_or_position() {
    let fields = json!({
        "f:ports": {"k:{\"protocol\":\"TCP\",\"port\":80}": {".": {}, "f:name": {}}},
        "f:finalizers": {"v:\"a/b\"": {}},
        "f:list": {"i:3": {}},
    });
    let paths = [
        ".finalizers[=\"a/b\"]",
        ".list[3]",
        ".ports[port=80,protocol=\"TCP\"]",
        ".ports[port=80,protocol=\"TCP\"].name",
    ];
    assert_eq!(set(&fields).paths(), paths);
}

#[test]
fn malformed_field_sets_are_refused() {
    for fields in [json!([]), json!({"x": {}}), json!({"f:a": 1}), json!({"k:[]": {}}), json!({"i:x": {}})] {
        assert!(Set::parse(&fields).is_err(), "{fields}");
    }
}

#[test]
fn numbers_have_one_spelling() {
    for (value, text) in [(json!(1.0), "1"), (json!(-0.0), "0"), (json!(1.5), "1.5"), (json!(7), "7")] {
        assert_eq!(canonical(&value), text);
    }
}

#[test]
fn the_field_set_of_a_deployment_equals_that_of_a_real_server() {
    let deployment = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [
                {"name": "web", "image": "nginx", "ports": [{"containerPort": 80}], "resources": {}},
            ]}},
        },
    });
    let expected = json!({
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {
                ".": {},
                "f:name": {},
                "f:image": {},
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                "f:resources": {},
            }}}},
        },
    });
    assert_eq!(Set::of(&deployment, Place::of_type("io.k8s.api.apps.v1.Deployment")).print(), expected);
}

#[test]
fn removing_the_last_field_of_a_struct_reaches_the_struct() {
    let root = Place::of_type("io.k8s.api.apps.v1.Deployment");
    let owned = set(&json!({"f:spec": {"f:strategy": {"f:type": {}}}, "f:metadata": {"f:labels": {"f:key": {}}}}));
    let paths =
        [".metadata", ".spec", ".metadata.labels", ".metadata.labels.key", ".spec.strategy", ".spec.strategy.type"];
    assert_eq!(owned.with_structs(root).paths(), paths);
}

#[test]
fn errors_have_the_texts_of_go() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "text": {"type": "string"}, "when": {"type": "string", "format": "date-time"}, "n": {"type": "integer"},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                  "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "n": {"type": "integer"}}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                 "properties": {"below": {"type": "object", "properties": {"a": {"type": "string"}}}}},
    }}}}))
    .expect("a structural schema");
    let of = |spec: Value, doubles| Set::mistakes(&json!({"spec": spec}), Place::of_schema(&schema), doubles);
    for (spec, expected) in [
        (json!([]), ".spec: expected map, got &{[]}"),
        (
            json!({"text": {"a": ["x", null]}}),
            ".spec.text: expected string, got &value.valueUnstructured{Value:map[string]interface {}{\"a\":[]interface {}{\"x\", interface {}(nil)}}}",
        ),
        (json!({"when": {}}), ".spec.when: expected any scalar, got &{map[]}"),
        (json!({"n": "x"}), ".spec.n: expected numeric (int or float), got string"),
        (json!({"map": {"a": true}}), ".spec.map.a: expected string, got &value.valueUnstructured{Value:true}"),
        (json!({"odd": 1}), ".spec.odd: field not declared in schema"),
        (
            json!({"set": [null]}),
            ".spec.set: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            json!({"keyed": [{"k": "a", "n": "x"}]}),
            ".spec.keyed[k=\"a\"].n: expected numeric (int or float), got string",
        ),
        (json!({"keyed": [{"k": "a"}, {"k": "a"}]}), ".spec.keyed: duplicate entries for key [k=\"a\"]"),
    ] {
        assert_eq!(of(spec, Doubles::Refused), [expected]);
    }
    for spec in [
        json!(null),
        json!({"text": null, "when": 1, "n": 1.5, "map": {"a": null}, "set": ["a"]}),
        json!({"open": {"x": 1, "below": {"y": 1}}}),
    ] {
        assert_eq!(of(spec, Doubles::Refused), Vec::<String>::new());
    }
    assert_eq!(of(json!({"set": ["a", "a"]}), Doubles::Allowed), Vec::<String>::new());
    let metadata = json!({"metadata": {"labels": {"a": 1}}});
    assert_eq!(
        Set::mistakes(&metadata, Place::of_schema(&schema), Doubles::Refused),
        [".metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}"]
    );
}
