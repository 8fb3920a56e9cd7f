//! Tests strategic merge patches with each kind of directive.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn root() -> Place<'static> {
    Place::of_type("io.k8s.api.core.v1.Pod")
}

fn patched(original: &Value, patch: &Value) -> Value {
    strategic_merge(original, patch, root()).expect("a patch")
}

fn pod(containers: &Value) -> Value {
    json!({"spec": {"containers": containers}})
}

#[test]
fn maps_merge_and_null_deletes() {
    let result = patched(&json!({"a": {"b": 1, "c": 2}}), &json!({"a": {"b": null, "d": 3}, "e": {"f": null}}));
    assert_eq!(result, json!({"a": {"c": 2, "d": 3}, "e": {}}));
}

#[test]
fn containers_merge_by_name() {
    let original = pod(&json!([{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]));
    let patch = pod(&json!([{"name": "a", "env": [{"name": "Y", "value": "2"}]}, {"name": "c"}]));
    let expected = pod(&json!([
        {"name": "a", "image": "1", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]},
        {"name": "c"}, {"name": "b"},
    ]));
    assert_eq!(patched(&original, &patch), expected);
}

#[test]
fn new_items_come_first_and_patched_items_keep_their_places() {
    let names = |names: &[&str]| pod(&names.iter().map(|name| json!({ "name": name })).collect());
    assert_eq!(patched(&names(&["a", "b"]), &names(&["c"])), names(&["c", "a", "b"]));
    assert_eq!(patched(&names(&["a", "b"]), &names(&["b", "c"])), names(&["a", "b", "c"]));
}

#[test]
fn ports_merge_by_the_key_of_their_parent() {
    let original = pod(&json!([{"name": "a", "ports": [{"containerPort": 80, "name": "x"}]}]));
    let patch = pod(&json!([{"name": "a", "ports": [{"containerPort": 80, "name": "y"}]}]));
    assert_eq!(patched(&original, &patch), pod(&json!([{"name": "a", "ports": [{"containerPort": 80, "name": "y"}]}])));
    let service = json!({"spec": {"ports": [{"port": 80, "name": "x"}]}});
    let both = json!({"spec": {"ports": [{"port": 81}, {"port": 80, "name": "x"}]}});
    let patch = json!({"spec": {"ports": [{"port": 81}]}});
    assert_eq!(strategic_merge(&service, &patch, Place::of_type("io.k8s.api.core.v1.Service")), Ok(both));
}

#[test]
fn other_lists_are_replaced() {
    let original = json!({"spec": {"tolerations": [{"key": "a"}], "containers": [{"name": "a", "args": ["x", "y"]}]}});
    let patch = json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["z"]}]}});
    assert_eq!(patched(&original, &patch), patch);
}

#[test]
fn a_directive_deletes_or_replaces_an_item() {
    let original = pod(&json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]));
    let patch = pod(&json!([{"name": "a", "$patch": "delete"}, {"name": "b", "$patch": "replace", "tty": true}]));
    assert_eq!(patched(&original, &patch), pod(&json!([{"name": "b", "tty": true}])));
}

#[test]
fn a_directive_replaces_a_whole_list_or_map() {
    let original = json!({"spec": {"containers": [{"name": "a"}], "strategy": {"type": "x", "rollingUpdate": {}}}});
    let patch = json!({"spec": {
        "containers": [{"name": "b"}, {"$patch": "replace"}],
        "strategy": {"$patch": "replace", "type": "y"},
    }});
    assert_eq!(patched(&original, &patch), json!({"spec": {"containers": [{"name": "b"}], "strategy": {"type": "y"}}}));
    assert_eq!(patched(&original, &json!({"spec": {"$patch": "delete"}})), json!({"spec": {}}));
}

#[test]
fn directives_are_never_stored() {
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "x"},
        "$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a"}, {"name": "b", "$patch": "delete"}]}});
    let expected = json!({"spec": {"strategy": {"type": "x"}, "containers": [{"name": "a"}]}});
    assert_eq!(patched(&json!({}), &patch), expected);
}

#[test]
fn scalars_are_added_and_deleted() {
    let original = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {"finalizers": ["b", "c"], "$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert_eq!(patched(&original, &patch), json!({"metadata": {"finalizers": ["b", "c"]}}));
}

#[test]
fn retained_keys_clear_the_rest_of_a_union() {
    let original = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(patched(&original, &patch), json!({"spec": {"strategy": {"type": "Recreate"}}}));
    let forgetful = json!({"spec": {"strategy": {"$retainKeys": [], "type": "Recreate"}}});
    assert!(matches!(strategic_merge(&original, &forgetful, root()), Err(StrategicError::NotRetained(_))));
}

#[test]
fn items_are_in_the_patchs_order_and_others_keep_their_places() {
    let names = |names: &str| Value::Array(names.chars().map(|name| json!({"name": name.to_string()})).collect());
    for (original, patch, order, expected) in
        [("abc", "", "cba", "cba"), ("abc", "d", "dab", "dabc"), ("asb", "", "ba", "sba"), ("ab", "c", "cb", "cab")]
    {
        let patch = json!({"spec": {"$setElementOrder/containers": names(order), "containers": names(patch)}});
        let mut result = patched(&pod(&names(original)), &patch);
        let found = result["spec"]["containers"].take();
        let found: String = found.as_array().unwrap().iter().filter_map(|item| item["name"].as_str()).collect();
        assert_eq!(found, expected, "{original} {order}");
    }
}

#[test]
fn an_order_alone_moves_items() {
    let original = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {"$setElementOrder/finalizers": ["b", "a"]}});
    assert_eq!(patched(&original, &patch), json!({"metadata": {"finalizers": ["b", "a"]}}));
}

#[test]
fn malformed_patches_are_refused() {
    let original = pod(&json!([{"name": "a"}]));
    for patch in [
        json!([]),
        json!({"$patch": "explode"}),
        json!({"$patch": 1}),
        json!({"spec": {"$retainKeys": 1}}),
        json!({"spec": {"$setElementOrder/containers": 1, "containers": []}}),
        json!({"spec": {"$deleteFromPrimitiveList/containers": 1}}),
        json!({"spec": {"$setElementOrder/containers": [], "containers": [{"name": "a"}]}}),
        pod(&json!([{"image": "x"}])),
        pod(&json!(["x"])),
    ] {
        assert!(strategic_merge(&original, &patch, root()).is_err(), "{patch}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "spec",
        "containers",
        "ports",
        "metadata",
        "finalizers",
        "name",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "containerPort",
    ]);
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["a", "delete", "merge", "replace"]).prop_map(Value::from),
    ];
    scalar.prop_recursive(6, 64, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_patch_makes_it_panic(original in any_json(), patch in any_json()) {
        let _outcome = strategic_merge(&original, &patch, root());
    }

    #[test]
    fn an_empty_patch_changes_nothing(original in any_json()) {
        if original.is_object() {
            prop_assert_eq!(patched(&original, &json!({})), original);
        }
    }
}
