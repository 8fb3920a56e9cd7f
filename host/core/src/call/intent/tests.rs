use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::queue::outcome::{CallResult, Failure};
use crate::write::{DeleteOptions, PatchType, Propagation, Subresource};

fn primary() -> ObjectRef {
    let kind = ObjectKind::new("example.com/v1", "Shop");
    ObjectRef { kind, key: ObjectKey::namespaced("prod", "shop"), uid: Some("u".into()) }
}

fn deployment(spec: Value) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    object["spec"] = spec;
    object
}

fn web() -> ObjectRef {
    ObjectRef { kind: ObjectKind::new("apps/v1", "Deployment"), key: ObjectKey::namespaced("prod", "web"), uid: None }
}

fn apply(object: &Value) -> Operation {
    Operation::Apply { object: object.to_string(), options: WriteOptions { owned: true, ..WriteOptions::default() } }
}

fn update(object: &Value) -> Operation {
    Operation::Update { object: object.to_string(), options: WriteOptions::default() }
}

fn create(object: &Value) -> Operation {
    Operation::Create { object: object.to_string(), options: WriteOptions::default() }
}

fn patch(patch_type: PatchType, patch: &Value) -> Operation {
    Operation::Patch { target: web(), patch_type, patch: patch.to_string(), options: WriteOptions::default() }
}

fn delete() -> Operation {
    let options = DeleteOptions {
        resource_version: None,
        propagation: Propagation::Background,
        grace_period_seconds: None,
        dry_run: false,
    };
    Operation::Delete { target: web(), options }
}

/// The differences between the writes of two versions, if every object is in the state `before` when the calls begin.
fn compared(before: &DryState, current: &[Operation], next: &[Operation]) -> Vec<String> {
    let found = differences(&primary(), current, next, &|_| before.clone(), &Confidential::from("{}"));
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn objects_with_a_configured_secret_show_field_names_only() {
    let config = Confidential::holding("{}", [Confidential::from("hunter22")]);
    let [one, next] = ["plain", "x://me:hunter22@h"].map(|url| update(&deployment(json!({"url": url}))));
    let before = |_: &ObjectRef| there(json!({"url": "older"}));
    let found = differences(&primary(), [&one], [&next], &before, &config);
    assert!(found[0].text.contains("spec.url") && !found[0].text.contains("hunter22"), "{found:?}");
}

fn there(spec: Value) -> DryState {
    DryState::Is(deployment(spec))
}

#[test]
fn writes_with_the_same_result_agree() {
    let before = there(json!({"replicas": 1, "image": "a"}));
    let three = deployment(json!({"replicas": 3, "image": "a"}));
    let forms = [
        update(&three),
        patch(PatchType::Merge, &json!({"spec": {"replicas": 3}})),
        patch(PatchType::Strategic, &json!({"spec": {"replicas": 3}})),
        patch(PatchType::Json, &json!([{"op": "replace", "path": "/spec/replicas", "value": 3}])),
    ];
    for one in &forms {
        for other in &forms {
            assert_eq!(compared(&before, from_ref(one), from_ref(other)), [""; 0], "{one:?} {other:?}");
        }
        assert_eq!(compared(&before, from_ref(one), &[]), ["Deployment prod/web: spec.replicas: 3 → 1"]);
    }
}

#[test]
fn a_write_that_changes_nothing_counts_as_no_write() {
    let before = there(json!({"replicas": 1}));
    for idle in [
        update(&deployment(json!({"replicas": 1}))),
        patch(PatchType::Merge, &json!({"spec": {"replicas": 1, "image": null}})),
        create(&deployment(json!({"replicas": 9}))),
    ] {
        assert_eq!(compared(&before, &[idle], &[]), [""; 0]);
    }
}

#[test]
fn a_field_left_out_of_an_apply_is_a_difference() {
    let before = there(json!({"replicas": 1, "image": "a"}));
    let [whole, less] =
        [json!({"replicas": 1, "image": "a"}), json!({"replicas": 1})].map(|spec| apply(&deployment(spec)));
    let said = compared(&before, from_ref(&whole), &[less]);
    assert_eq!(said, [r#"Deployment prod/web: spec.image: "a" → none"#]);
    assert_eq!(compared(&before, from_ref(&whole), from_ref(&whole)), [""; 0]);
    let nothing_new = apply(&deployment(json!({})));
    let said = compared(&before, &[], &[nothing_new]).join("\n");
    assert!(said.starts_with("Deployment prod/web: is applied 0 times → 1 times, by its managers"), "{said}");
}

#[test]
fn uncached_objects_are_compared_by_their_writes() {
    let gone = [patch(PatchType::Merge, &json!({"spec": {"replicas": 3}}))];
    assert_eq!(compared(&DryState::Absent, &[], &gone).len(), 1, "a selector may hide it");
    assert_eq!(compared(&DryState::Absent, &gone, &gone), [""; 0]);
}

#[test]
fn an_object_created_or_deleted_by_one_version_is_reported() {
    let object = deployment(json!({"replicas": 1}));
    let said = compared(&DryState::Absent, &[], &[create(&object)]);
    assert_eq!(said, ["Deployment prod/web: is not written → is written; spec.replicas: 1"]);
    let there = DryState::Is(object.clone());
    assert_eq!(compared(&there, &[delete()], &[]), ["Deployment prod/web: is deleted → is not deleted"]);
    assert_eq!(compared(&DryState::Unknown, &[], &[delete()]), ["Deployment prod/web: is not deleted → is deleted"]);
    assert_eq!(compared(&there, &[delete()], &[delete()]), [""; 0]);
    assert_eq!(compared(&there, &[delete(), create(&object)], &[]), [""; 0], "it is there again");
}

#[test]
fn unwatched_objects_are_compared_by_their_writes() {
    let [one, two] = [1, 2].map(|replicas| apply(&deployment(json!({"replicas": replicas}))));
    assert_eq!(compared(&DryState::Unknown, from_ref(&one), &[two]), ["Deployment prod/web: spec.replicas: 1 → 2"]);
    let operations =
        |value: u32| patch(PatchType::Json, &json!([{"op": "replace", "path": "/spec/a", "value": value}]));
    assert_eq!(compared(&DryState::Unknown, &[operations(1)], &[operations(1)]), [""; 0]);
    assert_eq!(compared(&DryState::Unknown, &[operations(1)], &[operations(2)]).len(), 1);
}

#[test]
fn objects_with_generated_names_are_compared_in_order() {
    let job = |image: &str| {
        let mut job = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "job-"}});
        job["spec"]["image"] = image.into();
        create(&job)
    };
    let (current, next) = ([job("a"), job("b")], [job("a"), job("c")]);
    assert_eq!(compared(&DryState::Absent, &current, &current), [""; 0]);
    assert_eq!(compared(&DryState::Absent, &current, &next), [r#"Pod prod/job-*2: spec.image: "b" → "c""#]);
}

#[test]
fn a_status_is_compared_apart_and_a_dry_run_is_no_write() {
    let before = there(json!({"replicas": 1}));
    let status = |ready: u32| {
        let mut object = deployment(json!({"replicas": 7}));
        object["status"]["ready"] = ready.into();
        let subresource = Some(Subresource { name: "status".into(), parent: None });
        Operation::Update {
            object: object.to_string(),
            options: WriteOptions { subresource, ..WriteOptions::default() },
        }
    };
    assert_eq!(compared(&before, &[status(1)], &[status(2)]), ["Deployment prod/web: status.ready: 1 → 2"]);
    let (tried, _) = update(&deployment(json!({"replicas": 2}))).into_dry_run();
    assert_eq!(compared(&before, &[tried], &[]), [""; 0]);
}

#[test]
fn times_that_are_nearly_equal_are_no_difference() {
    let at = |time: &str| apply(&deployment(json!({"started": time})));
    let [one, soon, late] = ["02:44:45Z", "02:44:46Z", "03:44:45Z"].map(|time| at(&format!("2026-11-26T{time}")));
    assert_eq!(compared(&DryState::Absent, from_ref(&one), &[soon]), [""; 0]);
    assert_eq!(compared(&DryState::Absent, &[one], &[late]).len(), 1);
}

#[test]
fn the_values_of_a_secret_are_not_shown() {
    let secret = |value: &str| {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}});
        secret["data"]["a"] = value.into();
        apply(&secret)
    };
    assert_eq!(compared(&DryState::Absent, &[secret("b2xk")], &[secret("bmV3")]), ["Secret prod/key: data.a: changed"]);
}

#[test]
fn lists_of_named_items_are_merged_by_name_and_others_replaced() {
    let before =
        there(json!({"containers": [{"name": "web", "image": "a", "tty": true}, {"name": "log"}], "args": [1]}));
    let body = deployment(json!({"containers": [{"name": "web", "image": "b"}], "args": [2, 3]}));
    let Ok(DryState::Is(after)) = carried_out(&apply(&body), &before, &primary()) else { panic!("it is there") };
    let containers = json!([{"name": "web", "image": "b", "tty": true}, {"name": "log"}]);
    assert_eq!((&after["spec"]["containers"], &after["spec"]["args"]), (&containers, &json!([2, 3])));
    assert_eq!(after["metadata"]["ownerReferences"][0]["uid"], "u");
    let wrong = patch(PatchType::Json, &json!([{"op": "remove", "path": "/spec/none"}]));
    assert_eq!(carried_out(&wrong, &before, &primary()), Err(ApiReason::Invalid));
    assert_eq!(carried_out(&delete(), &DryState::Absent, &primary()), Err(ApiReason::NotFound));
    let read: Result<Option<Arc<str>>, ()> = Ok(Some(r#"{"a":1}"#.into()));
    assert_eq!(DryState::of(&read), DryState::Is(json!({"a": 1})));
}

#[test]
fn calls_end_alike_by_class_and_by_delays_that_are_nearly_the_same() {
    let failed = |text: &str| CallResult::Failed(vec![Failure::Transient(text.to_owned())]);
    let again = |seconds: u64| CallResult::RequeueAfter(Duration::from_secs(seconds));
    assert_eq!(end_difference(&failed("a"), &failed("b")), None);
    assert_eq!(end_difference(&again(100), &again(95)), None);
    let said = end_difference(&again(100), &again(50)).expect("sooner").to_string();
    assert_eq!(said, "the call: again after 100s → again after 50s");
    assert_eq!(end_difference(&CallResult::RequeueBackoff, &CallResult::RequeueBackoff), None);
    let said = end_difference(&again(5), &CallResult::RequeueBackoff).expect("another time").to_string();
    assert_eq!(said, "the call: again after 5s → again after its backoff");
    let trapped = CallResult::Trapped { reason: "trap", message: "unreachable".to_owned() };
    let said = end_difference(&CallResult::Done, &trapped).expect("worse").to_string();
    assert_eq!(said, "the call: done → traps: unreachable");
}
