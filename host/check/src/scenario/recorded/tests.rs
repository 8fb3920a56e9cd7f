//! Tests scenarios that are created from recorded calls.

use super::*;

/// A call about the object `name` with this spec, or about a deleted object if there is no spec.
fn call(name: &str, spec: Option<&Value>, imports: &Value) -> RecordedCall {
    let metadata = json!({"name": name, "namespace": "prod", "uid": "u", "resourceVersion": "7", "finalizers": ["f"]});
    let object = spec.map(|spec| {
        json!({"apiVersion": "e.com/v1", "kind": "Shop", "metadata": metadata, "spec": spec, "status": {"a": 1}})
            .to_string()
    });
    let call = json!({
        "component": {"plugin": "shop", "digest": "0", "interface": "0.2.0", "file": "shop.wasm"},
        "export": "reconcile", "began": "2026-11-26T02:00:00Z",
        "request": {
            "controller": "c", "apiVersion": "e.com/v1", "kind": "Shop", "namespace": "prod", "name": name,
            "object": object, "deleting": false, "attempt": 0, "traceId": "0", "triggers": [], "config": "{}",
        },
        "surroundings": {}, "imports": imports, "result": {"done": true}, "used": {"cpuUs": 1, "wallUs": 2},
    });
    serde_json::from_value(call).expect("a call")
}

fn got(object: &Value) -> Value {
    json!({"import": "cache.get", "args": {"target": {}}, "answer": {"ok": object.to_string()}})
}

fn as_texts(steps: &[Step]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

fn from(plugin: &str, load: &[Value], calls: &[RecordedCall]) -> Result<RecordedScenarios, RecordedError> {
    let mut recorded = RecordedHistories::of(plugin);
    for call in calls {
        recorded.take(call);
    }
    from_recorded(recorded, load)
}

fn made_of(calls: &[RecordedCall]) -> Vec<RecordedScenario> {
    from("shop", &[], calls).expect("scenarios").scenarios
}

#[test]
fn an_object_is_created_changed_and_deleted_as_recorded() {
    let calls = [
        call("a", Some(&json!({"size": 1, "door": {"colour": "red", "wide": true}})), &json!([])),
        call("a", Some(&json!({"size": 1, "door": {"colour": "red", "wide": true}})), &json!([])),
        call("a", Some(&json!({"size": 2, "door": {"colour": "red"}})), &json!([])),
        call("a", None, &json!([])),
        call("a", None, &json!([])),
    ];
    let scenario = &made_of(&calls)[0].scenario;
    let expected = [
        "apply Shop prod/a",
        r#"patch Shop prod/a with {"spec":{"door":{"wide":null},"size":2}}"#,
        "delete Shop prod/a",
        // These steps come from the schema, as in a scenario without recordings.
        "apply Shop prod/a",
        r#"patch Shop prod/a with {"spec":{"door":{"colour":"red-2"}}}"#,
        r#"patch Shop prod/a with {"spec":{"door":{"colour":"red"}}}"#,
        r#"patch Shop prod/a with {"spec":{"size":3}}"#,
        r#"patch Shop prod/a with {"spec":{"size":2}}"#,
        "delete Shop prod/a",
        "apply Shop prod/a",
    ];
    assert_eq!(as_texts(&scenario.steps), expected);
    let Step::Apply(object) = &scenario.steps[0] else { panic!("{:?}", scenario.steps) };
    let metadata = json!({"name": "a", "namespace": "prod"});
    let spec = json!({"size": 1, "door": {"colour": "red", "wide": true}});
    assert_eq!(*object, json!({"apiVersion": "e.com/v1", "kind": "Shop", "metadata": metadata, "spec": spec}));
    assert_eq!(scenario.name, "shop-prod-a");
}

#[test]
fn an_object_first_seen_terminating_is_created_and_deleted() {
    let mut going = call("a", Some(&json!({})), &json!([]));
    going.request.deleting = true;
    let scenario = &made_of(&[going.clone(), going, call("a", Some(&json!({"b": [1]})), &json!([]))])[0].scenario;
    let steps = as_texts(&scenario.steps);
    assert_eq!(steps[..3], ["apply Shop prod/a", "delete Shop prod/a", "apply Shop prod/a"]);
}

#[test]
fn objects_that_the_plugin_only_read_exist_from_the_beginning() {
    let object = |name: &str, more: Value| {
        let mut object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "etc"}});
        object["metadata"].as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        object
    };
    let part =
        json!({"import": "cache.get", "args": {"target": {}, "fields": ["data"]}, "answer": {"ok": "{\"data\":{}}"}});
    let list = json!({
        "import": "cache.list", "args": {"of": {"apiVersion": "v1", "kind": "Secret"}},
        "answer": {"ok": {"items": [json!({"metadata": {"name": "key", "namespace": "prod"}}).to_string()]}},
    });
    let written = object("written", json!({}));
    let write = json!({"import": "writes.apply", "args": {"object": written.to_string()}, "answer": {"ok": null}});
    let imports = json!([
        got(&object("settings", json!({"uid": "u"}))), got(&object("child", json!({"ownerReferences": [{"uid": "u"}]}))),
        got(&written), part, list, write, {"import": "cache.get", "args": {}, "answer": {"ok": null}},
    ]);
    let definition = json!({"kind": "CustomResourceDefinition", "metadata": {"name": "shops.e.com"}});
    let sample = json!({"apiVersion": "e.com/v1", "kind": "Shop", "metadata": {"name": "sample"}});
    let calls = [call("a", Some(&json!({})), &imports)];
    let made = from("shop", &[definition, sample], &calls).expect("a scenario");
    let names: Vec<_> = made.scenarios[0].scenario.load.iter().map(|it| ObjectName::of(it).to_string()).collect();
    let expected = [
        "CustomResourceDefinition default/shops.e.com",
        "ConfigMap etc/settings",
        "Namespace default/etc",
        "Namespace default/prod",
        "Secret prod/key",
    ];
    assert_eq!(names, expected);
}

#[test]
fn objects_with_most_states_and_then_most_new_values_come_first() {
    let of = |name: &str, spec: Value| call(name, Some(&spec), &json!([]));
    let mut calls = vec![
        of("plain", json!({"size": 1})),
        of("other", json!({"size": 1, "door": "red", "roof": "flat"})),
        of("same", json!({"size": 2})),
        of("third", json!({"size": 1, "door": "blue"})),
        of("moving", json!({"size": 1})),
        of("moving", json!({"size": 2})),
    ];
    let names = |calls: &[RecordedCall]| made_of(calls).into_iter().map(|it| it.scenario.name).collect::<Vec<_>>();
    assert_eq!(names(&calls), ["shop-prod-moving", "shop-prod-other", "shop-prod-third"]);
    calls.extend((0..20).map(|number| of(&format!("n{number}"), json!({"number": number}))));
    assert_eq!(names(&calls).len(), RECORDED_SCENARIOS_MAX);
    assert_eq!(from("shop", &[], &calls).expect("scenarios").objects, 25);
}

#[test]
fn markers_are_kept_and_listed() {
    let spec = json!({"password": "<redacted:0123456789ab>", "size": 1});
    let made = made_of(&[call("a", Some(&spec), &json!([]))]);
    assert_eq!(made[0].redacted, ["Shop prod/a /spec/password"]);
}

#[test]
fn recordings_of_other_plugins_or_deleted_objects_are_refused() {
    let calls = [call("a", None, &json!([]))];
    let error = from("shop", &[], &calls).expect_err("it had gone").to_string();
    assert!(error.contains("none of the 1 recorded calls"), "{error}");
    let error = from("web", &[], &calls).expect_err("of others").to_string();
    assert!(error.contains("no calls of the plugin web") && error.contains("only of shop"), "{error}");
}

#[test]
fn calls_beyond_the_limit_are_counted_and_left_out() {
    let mut recorded = RecordedHistories { most: 2_000, ..RecordedHistories::of("shop") };
    for number in 0..100 {
        recorded.take(&call(&format!("n{number}"), Some(&json!({"number": number})), &json!([])));
        // Adding the same call again keeps nothing more.
        recorded.take(&call("n0", Some(&json!({"number": 0})), &json!([])));
    }
    assert!(recorded.kept < 2_500, "{}", recorded.kept);
    let made = from_recorded(recorded, &[]).expect("scenarios");
    assert!(made.objects > 5 && made.objects < 20, "{}", made.objects);
    assert_eq!(made.left_out, 201 - 2 * made.objects);
}

#[test]
fn scenarios_of_similarly_named_objects_have_different_names() {
    let mut other = call("c", Some(&json!({"size": 2})), &json!([]));
    other.request.namespace = Some("prod-b".to_owned());
    let names = made_of(&[call("b-c", Some(&json!({"size": 1})), &json!([])), other]);
    let names: Vec<_> = names.into_iter().map(|it| it.scenario.name).collect();
    assert_eq!(names, ["shop-prod-b-c", "shop-prod-b-c-2"]);
}

#[test]
fn an_older_call_of_another_host_changes_nothing() {
    let at = |began: &str, size: u64| {
        let mut call = call("a", Some(&json!({"size": size})), &json!([]));
        call.began = began.to_owned();
        call
    };
    let calls = [at("2026-11-26T02:00:00Z", 1), at("2026-11-26T02:00:00.5Z", 2), at("2026-11-26T01:00:00Z", 30)];
    let steps = as_texts(&made_of(&calls)[0].scenario.steps);
    assert_eq!(steps[..2], ["apply Shop prod/a", r#"patch Shop prod/a with {"spec":{"size":2}}"#]);
    assert!(!steps.iter().any(|step| step.contains("30")), "{steps:?}");
}
