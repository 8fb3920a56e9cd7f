//! Tests apply and update, by scenarios and by properties.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::Schema;

fn root() -> Place<'static> {
    Place::of_type("io.k8s.api.apps.v1.Deployment")
}

fn manager<'a>(name: &'a str, now: &'a str) -> Manager<'a> {
    Manager { name, api_version: "apps/v1", subresource: "", now }
}

fn apply(live: Option<&Value>, config: &Value, who: &str, force: bool) -> Result<Value, Vec<Conflict>> {
    server_side_apply(live, config, &manager(who, "2026-01-01T00:00:00Z"), force, root())
}

fn must(result: Result<Value, Vec<Conflict>>) -> Value {
    result.expect("no conflict")
}

fn update(live: Option<&Value>, mut new: Value, who: &str) -> Value {
    track_update(live, &mut new, &manager(who, "2026-01-01T00:00:00Z"), root());
    new
}

fn deployment(spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
}

/// The fields in the first entry of the manager `who`.
fn fields(object: &Value, who: &str) -> Value {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let mut entries = entries.into_iter().flatten();
    entries.find(|entry| entry["manager"] == who).map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

#[test]
fn a_first_apply_creates_the_object_and_owns_its_fields() {
    let object = must(apply(None, &deployment(&json!({"replicas": 2})), "a", false));
    assert_eq!(object["spec"], json!({"replicas": 2}));
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "a", "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }])
    );
}

#[test]
fn a_map_of_a_custom_resource_that_an_apply_empties_is_null() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "text": {"type": "string"},
    }}}}))
    .expect("a structural schema");
    let root = Place::of_schema(&schema);
    let apply = |live: Option<&Value>, spec: Value| {
        let config = json!({"apiVersion": "a.b/v1", "kind": "A", "metadata": {"name": "a"}, "spec": spec});
        must(server_side_apply(live, &config, &manager("m", "2026-01-01T00:00:00Z"), false, root))
    };
    let full = apply(None, json!({"map": {"a": "x"}, "set": ["a"], "text": "t"}));
    assert_eq!(
        apply(Some(&full), json!({"map": {}, "set": [], "text": "t"}))["spec"],
        json!({"map": null, "text": "t"})
    );
    assert_eq!(apply(Some(&full), json!({}))["spec"], json!(null));
    assert_eq!(apply(Some(&full), json!({"text": "t"}))["spec"], json!({"text": "t"}));
}

#[test]
fn an_apply_without_changes_keeps_the_object_identical() {
    let config = deployment(&json!({"replicas": 2}));
    let object = must(apply(None, &config, "a", false));
    let later = manager("a", "2030-01-01T00:00:00Z");
    let again = must(server_side_apply(Some(&object), &config, &later, false, root()));
    assert_eq!(again.to_string(), object.to_string());
}

#[test]
fn a_change_is_recorded_with_its_time() {
    let object = must(apply(None, &deployment(&json!({"replicas": 2})), "a", false));
    let later = manager("a", "2030-01-01T00:00:00Z");
    let config = deployment(&json!({"replicas": 3}));
    let new = must(server_side_apply(Some(&object), &config, &later, false, root()));
    assert_eq!(new["metadata"]["managedFields"][0]["time"], "2030-01-01T00:00:00Z");
}

#[test]
fn a_manager_that_applies_existing_values_gets_no_time() {
    let config = deployment(&json!({"replicas": 2}));
    let object = must(apply(None, &config, "a", false));
    let agreed = must(apply(Some(&object), &config, "b", false));
    let managers = agreed["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let times: Vec<_> = managers.iter().map(|entry| (entry["manager"].clone(), entry["time"].as_str())).collect();
    assert_eq!(times, [(json!("b"), None), (json!("a"), Some("2026-01-01T00:00:00Z"))]);
}

#[test]
fn changing_a_field_of_another_manager_is_a_conflict() {
    let object = must(apply(None, &deployment(&json!({"replicas": 2})), "a", false));
    let conflicts = apply(Some(&object), &deployment(&json!({"replicas": 3})), "b", false).unwrap_err();
    assert_eq!((conflicts[0].manager.as_str(), conflicts[0].field.as_str()), ("a", ".spec.replicas"));
    assert_eq!(conflict_message(&conflicts), "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas");
}

#[test]
fn conflicts_with_an_updater_name_its_version_and_subresource() {
    let live = update(None, deployment(&json!({"replicas": 2, "paused": true})), "u");
    let mut resized = live.clone();
    resized["spec"]["replicas"] = json!(5);
    let scaler = Manager { subresource: "scale", ..manager("s", "2026-01-02T00:00:00Z") };
    track_update(Some(&live), &mut resized, &scaler, root());
    let config = deployment(&json!({"replicas": 3, "paused": false}));
    let conflicts = apply(Some(&resized), &config, "a", false).unwrap_err();
    assert_eq!(
        conflict_message(&conflicts),
        "Apply failed with 2 conflicts: conflicts with \"s\" with subresource \"scale\" using apps/v1:\n- .spec.replicas\n\
         conflicts with \"u\" using apps/v1:\n- .spec.paused"
    );
}

#[test]
fn a_forced_apply_takes_over_the_field() {
    let object = must(apply(None, &deployment(&json!({"replicas": 2, "paused": true})), "a", false));
    let new = must(apply(Some(&object), &deployment(&json!({"replicas": 3})), "b", true));
    assert_eq!(new["spec"], json!({"replicas": 3, "paused": true}));
    assert_eq!(fields(&new, "a"), json!({"f:spec": {"f:paused": {}}}));
    assert_eq!(fields(&new, "b"), json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn a_value_applied_by_two_managers_has_two_owners() {
    let config = deployment(&json!({"replicas": 2}));
    let one = must(apply(None, &config, "a", false));
    let both = must(apply(Some(&one), &config, "b", false));
    let left = must(apply(Some(&both), &deployment(&json!({})), "a", false));
    assert_eq!(left["spec"]["replicas"], 2);
    assert_eq!(fields(&left, "b"), json!({"f:spec": {"f:replicas": {}}}));
    let gone = must(apply(Some(&left), &deployment(&json!({"paused": true})), "b", false));
    assert_eq!(gone["spec"], json!({"paused": true}));
}

#[test]
fn dropping_all_labels_keeps_the_name() {
    let mut config = deployment(&json!({"replicas": 2}));
    config["metadata"]["labels"] = json!({"app": "web"});
    let mut live = must(apply(None, &config, "a", false));
    live["metadata"]["uid"] = json!("1234");
    let new = must(apply(Some(&live), &deployment(&json!({"replicas": 2})), "a", false));
    assert_eq!(new["metadata"]["name"], "web");
    assert_eq!(new["metadata"]["uid"], "1234");
    assert_eq!(new["metadata"].get("labels"), None);
}

#[test]
fn list_items_belong_to_the_appliers_that_added_them() {
    let env =
        |items: &Value| deployment(&json!({"template": {"spec": {"containers": [{"name": "web", "env": items}]}}}));
    let one = must(apply(None, &env(&json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])), "a", false));
    let two = must(apply(Some(&one), &env(&json!([{"name": "C", "value": "3"}])), "b", false));
    let three = must(apply(Some(&two), &env(&json!([{"name": "B", "value": "2"}])), "a", false));
    let items = &three["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(*items, json!([{"name": "B", "value": "2"}, {"name": "C", "value": "3"}]));
}

#[test]
fn applied_order_wins_and_other_items_keep_their_places() {
    let place =
        ["spec", "containers"].iter().fold(Place::of_type("io.k8s.api.core.v1.Pod"), |place, name| place.field(name));
    let list = |names: &str| Value::Array(names.chars().map(|name| json!({"name": name.to_string()})).collect());
    for (live, config, merged) in [
        ("abc", "ca", "bca"),
        ("abc", "xb", "axbc"),
        ("ab", "ba", "ba"),
        ("", "ab", "ab"),
        ("ab", "", "ab"),
        ("abcd", "dyb", "acdyb"),
    ] {
        assert_eq!(merge::merge(&list(live), &list(config), place), list(merged), "{live} + {config}");
    }
}

#[test]
fn a_port_without_a_protocol_is_a_tcp_port() {
    let ports = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}});
    let root = Place::of_type("io.k8s.api.core.v1.Service");
    let mut live = ports(json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]));
    track_update(None, &mut live, &manager("u", "2026-01-01T00:00:00Z"), root);
    let config = ports(json!([{"port": 53, "name": "dns"}]));
    let new = must(server_side_apply(Some(&live), &config, &manager("a", "2026-01-01T00:00:00Z"), false, root));
    assert_eq!(
        new["spec"]["ports"],
        json!([{"port": 53, "protocol": "TCP", "name": "dns"}, {"port": 53, "protocol": "UDP"}])
    );
}

#[test]
fn an_update_owns_its_changes_and_takes_them_from_other_managers() {
    let live = must(apply(None, &deployment(&json!({"replicas": 2, "paused": true})), "a", false));
    let mut new = live.clone();
    new["spec"]["replicas"] = json!(5);
    new["spec"]["minReadySeconds"] = json!(1);
    let new = update(Some(&live), new, "u");
    assert_eq!(fields(&new, "a"), json!({"f:spec": {"f:paused": {}}}));
    assert_eq!(fields(&new, "u"), json!({"f:spec": {"f:replicas": {}, "f:minReadySeconds": {}}}));
}

#[test]
fn a_create_owns_everything_except_empty_embedded_structs() {
    let mut object = deployment(&json!({"strategy": {"rollingUpdate": {"maxSurge": 1}}}));
    object["metadata"]["labels"] = json!({"app": "web"});
    let created = update(None, object, "u");
    let expected = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {"f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}}},
    });
    assert_eq!(fields(&created, "u"), expected);
}

#[test]
fn fields_that_go_always_writes_are_owned_only_within_new_items() {
    let container = json!({"name": "c", "resources": {}});
    let created =
        update(None, deployment(&json!({"strategy": {}, "template": {"spec": {"containers": [container]}}})), "u");
    let item = json!({".": {}, "f:name": {}, "f:resources": {}});
    let expected = json!({"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": item}}}});
    assert_eq!(fields(&created, "u")["f:spec"], expected);

    let mut event = json!({"metadata": {"name": "e"}, "reason": "r", "eventTime": null, "reportingComponent": ""});
    track_update(None, &mut event, &manager("u", ""), Place::of_type("io.k8s.api.core.v1.Event"));
    assert_eq!(fields(&event, "u"), json!({"f:reason": {}}));
}

#[test]
fn an_update_that_removes_a_field_removes_it_from_every_record() {
    let live = must(apply(None, &deployment(&json!({"replicas": 2})), "a", false));
    let mut new = live.clone();
    new["spec"] = json!({});
    let new = update(Some(&live), new, "u");
    assert_eq!(new["metadata"].get("managedFields"), None);
}

#[test]
fn an_object_without_managed_fields_is_owned_by_before_first_apply() {
    let live = deployment(&json!({"replicas": 2}));
    let conflicts = apply(Some(&live), &deployment(&json!({"replicas": 3})), "a", false).unwrap_err();
    assert_eq!(conflicts[0].manager, "before-first-apply");
    let agreed = must(apply(Some(&live), &deployment(&json!({})), "a", false));
    assert_eq!(fields(&agreed, "before-first-apply"), json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn managed_fields_are_kept_unless_a_client_resets_them() {
    let live = must(apply(None, &deployment(&json!({"replicas": 2})), "a", false));
    let ignorant = update(Some(&live), deployment(&json!({"replicas": 2})), "u");
    assert_eq!(ignorant, live);
    for nothing in [json!([]), json!([{}])] {
        let mut reset = live.clone();
        reset["metadata"]["managedFields"] = nothing.clone();
        let forgotten = update(Some(&live), reset.clone(), "u");
        assert_eq!(forgotten["metadata"].get("managedFields"), None, "{nothing}");
        // After the reset, nothing is recorded until the next apply.
        assert_eq!(update(Some(&forgotten), reset.clone(), "u")["metadata"].get("managedFields"), None, "{nothing}");
        assert!(!fields(&update(None, reset, "u"), "u").is_null(), "a new object has an owner");
    }
}

#[test]
fn a_subresource_has_its_own_entry() {
    let live = update(None, deployment(&json!({"replicas": 2})), "u");
    let mut new = live.clone();
    new["status"] = json!({"replicas": 2, "conditions": [{"type": "Available", "status": "True"}]});
    let through_status = Manager { subresource: "status", ..manager("u", "2026-01-02T00:00:00Z") };
    track_update(Some(&live), &mut new, &through_status, root());
    let entries = new["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1]["subresource"], "status");
    let expected = json!({"f:status": {
        "f:replicas": {},
        "f:conditions": {".": {}, "k:{\"type\":\"Available\"}": {".": {}, "f:type": {}, "f:status": {}}},
    }});
    assert_eq!(entries[1]["fieldsV1"], expected);
}

#[test]
fn more_than_ten_updaters_are_merged() {
    let mut object = update(None, deployment(&json!({"replicas": 1})), "u");
    for index in 0..20 {
        let mut new = object.clone();
        new["metadata"]["annotations"][format!("a{index}")] = json!("x");
        let (name, now) = (format!("u{index}"), format!("2026-01-01T00:00:{index:02}Z"));
        track_update(Some(&object), &mut new, &manager(&name, &now), root());
        object = new;
    }
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0]["manager"], "ancient-changes");
    assert_eq!(fields(&object, "u19"), json!({"f:metadata": {"f:annotations": {"f:a19": {}}}}));
}

#[test]
fn a_custom_resource_is_merged_by_its_schema() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "whole": {"type": "array", "items": {"type": "string"}},
    }}}}))
    .unwrap();
    let root = Place::of_schema(&schema);
    let apply = |live: Option<&Value>, spec: Value, who: &str| {
        let config = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec});
        must(server_side_apply(live, &config, &manager(who, "2026-01-01T00:00:00Z"), true, root))
    };
    let one = apply(None, json!({"tags": ["a"], "whole": ["a"]}), "a");
    let two = apply(Some(&one), json!({"tags": ["b"], "whole": ["b"]}), "b");
    assert_eq!(two["spec"], json!({"tags": ["a", "b"], "whole": ["b"]}));
    assert_eq!(fields(&two, "a"), json!({"f:spec": {"f:tags": {"v:\"a\"": {}}}}));
}

#[test]
fn an_object_of_the_maximum_json_depth_is_applied_and_tracked() {
    let deep = "{\"a\":".repeat(120) + "1" + &"}".repeat(120);
    let deep: Value = serde_json::from_str(&deep).unwrap();
    let mut config = deployment(&json!({"replicas": 1}));
    config["spec"]["deep"] = deep;
    let object = must(apply(None, &config, "a", false));
    assert_eq!(must(apply(Some(&object), &config, "a", false)), object);
    let left = must(apply(Some(&object), &deployment(&json!({"replicas": 1})), "a", false));
    assert_eq!(left["spec"], json!({"replicas": 1}));
}

/// Any configuration of a deployment, small enough that the fields of managers often overlap.
fn any_config() -> impl Strategy<Value = Value> {
    let labels = prop::collection::btree_map("[ab]", "[xy]", 0..3);
    let env = prop::collection::btree_map("[AB]", "[xy]", 0..3);
    let container = (prop::option::of("[xy]"), env, prop::bool::ANY);
    let containers = prop::collection::btree_map("[cd]", container, 0..3);
    let finalizers = prop::collection::btree_set("[fg]", 0..3);
    let spec = (prop::option::of(1..3), prop::option::of("[xy]"), containers, prop::bool::ANY);
    (labels, finalizers, spec).prop_map(|(labels, finalizers, (replicas, strategy, containers, with_template))| {
        let containers: Vec<Value> = containers
            .into_iter()
            .map(|(name, (image, env, with_resources))| {
                let env: Vec<Value> =
                    env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
                let mut container = json!({"name": name, "env": env});
                if let Some(image) = image {
                    container["image"] = json!(image);
                }
                if with_resources {
                    container["resources"] = json!({"limits": {"cpu": "1"}});
                }
                container
            })
            .collect();
        let mut object = deployment(&json!({}));
        // The server drops empty maps from built-in kinds, so they are never owned.
        if !labels.is_empty() {
            object["metadata"]["labels"] = json!(labels);
        }
        if !finalizers.is_empty() {
            object["metadata"]["finalizers"] = json!(finalizers);
        }
        if let Some(replicas) = replicas {
            object["spec"]["replicas"] = json!(replicas);
        }
        if let Some(strategy) = strategy {
            object["spec"]["strategy"] = json!({"type": strategy});
        }
        if with_template {
            object["spec"]["template"] = json!({"spec": {"containers": containers}});
        }
        object
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "metadata",
        "spec",
        "containers",
        "ports",
        "labels",
        "finalizers",
        "managedFields",
        "name",
        "env",
        "manager",
        "operation",
        "fieldsV1",
        "f:spec",
        "apiVersion",
        "",
        "$patch",
        "template",
    ]);
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["a", "Apply", "Update", "merge", "replace"]).prop_map(Value::from),
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
    fn applying_again_changes_nothing(first in any_config(), second in any_config()) {
        let one = must(apply(None, &first, "a", false));
        let two = must(apply(Some(&one), &second, "b", true));
        let later = manager("b", "2030-01-01T00:00:00Z");
        let again = must(server_side_apply(Some(&two), &second, &later, false, root()));
        prop_assert_eq!(again, two);
    }

    #[test]
    fn an_empty_apply_keeps_the_fields_of_other_managers(mine in any_config(), theirs in any_config()) {
        let before = must(apply(None, &theirs, "other", false));
        let with_mine = must(apply(Some(&before), &mine, "me", true));
        let nothing = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
        let after = must(apply(Some(&with_mine), &nothing, "me", false));
        prop_assert_eq!(fields(&after, "me"), Value::Null);
        prop_assert_eq!(fields(&after, "other"), fields(&with_mine, "other"));
        // Each remaining field is owned, or contains an owned field.
        let left = Set::of(&without_managed(&after), root()).difference(&NEVER_OWNED);
        let owned = Owners::of(&after).unwrap().all();
        prop_assert_eq!(left.leaves().difference(&owned), Set::new());
    }

    #[test]
    fn an_applier_touches_no_field_that_it_does_not_name(mine in any_config(), theirs in any_config()) {
        let before = must(apply(None, &theirs, "other", false));
        let after = must(apply(Some(&before), &mine, "me", true));
        let root = root();
        let changes = compare(&without_managed(&before), &without_managed(&after), root);
        let named = compare(&json!({}), &mine, root).set();
        prop_assert_eq!(changes.touched().difference(&named), Set::new());
    }

    #[test]
    fn an_updater_owns_all_that_it_created_and_changed(first in any_config(), second in any_config()) {
        let one = update(None, first, "u");
        // As in the real server, an object without entries stays without entries.
        prop_assume!(!fields(&one, "u").is_null());
        let two = update(Some(&one), second.clone(), "u");
        prop_assert_eq!(without_managed(&two), second.clone());
        let owned = Set::parse(&fields(&two, "u")).unwrap_or_default();
        let root = root();
        let all = compare(&json!({}), &second, root).set().difference(&NEVER_OWNED);
        prop_assert_eq!(all.leaves().difference(&owned), Set::new());
    }

    #[test]
    fn no_input_makes_it_panic(live in any_json(), config in any_json(), force in any::<bool>()) {
        let _outcome = apply(Some(&live), &config, "a", force);
        let _outcome = apply(None, &config, "a", force);
        let _updated = update(Some(&live), config.clone(), "u");
        let _updated = update(None, config, "u");
    }
}
