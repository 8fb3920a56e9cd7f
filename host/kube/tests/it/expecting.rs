//! Tests the expectations that the writer raises: which caches may show a write, and what they must show.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::cache::where_clause::{WhereClause, WhereCondition};
use windlass_core::object::progress::Reached;
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::queue::{ItemExponential, Queue};
use windlass_core::write::expectations::Cache;
use windlass_core::write::gate::Gate;
use windlass_core::write::{DeleteOptions, Operation, PatchType, Propagation, Subresource, WriteOptions};
use windlass_kube::{Discovery, Expecting, Informers, Readable, Writer};

use crate::script::{NoTime, Reply, Script, call, key, pod, pods};

/// The indices of the caches that the key waits for after it has written, and the number of keys with expectations.
async fn waits(specs: Vec<WatchSpec>, operation: Operation, reply: Reply) -> (Vec<(usize, String)>, usize) {
    let script = Script::default().mutations([reply]);
    let informers = Informers::new(script.client(), Discovery::new(script.client()));
    let caches =
        specs.iter().map(|spec| Cache { progress: Arc::new(Reached::at("1")), is_filtered: spec.is_filtered() });
    let gate = Gate::new(caches.collect(), Queue::new(Arc::new(NoTime), ItemExponential::default()), Arc::new(NoTime));
    let readable: Vec<_> = specs
        .into_iter()
        .map(|spec| {
            let store = informers.subscribe(spec.clone()).store().clone();
            Readable { spec, store, indexes: vec![] }
        })
        .collect();
    let writer = Writer::new(script.client(), Discovery::new(script.client()));
    let writer = writer.expecting(Expecting::new(gate.clone(), &readable));
    // The script decides whether the write succeeds.
    let _ = writer.write(Arc::new(call()), operation).await;
    // The longest time that a write with an unknown outcome takes to settle.
    tokio::time::sleep(Duration::from_mins(1)).await;
    let (waiting, _) = gate.waiting(10);
    assert!(waiting.iter().all(|it| it.key == call().primary_key), "{waiting:?}");
    (waiting.into_iter().map(|it| (it.cache, it.what)).collect(), gate.len())
}

fn create(labels: &Value) -> Operation {
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": labels}});
    Operation::Create { object: object.to_string(), options: WriteOptions::default() }
}

fn patch(options: WriteOptions) -> Operation {
    let target = ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: key("a"), uid: None };
    Operation::Patch { target, patch_type: PatchType::Merge, patch: "{}".to_owned(), options }
}

fn labelled(version: u32, labels: &Value) -> Value {
    let mut left = pod("a", "u", version);
    left["metadata"]["labels"] = labels.clone();
    left["metadata"]["annotations"] = json!({"auto": "yes"});
    left
}

fn selecting(labels: &str) -> WatchSpec {
    WatchSpec { label_selector: Some(labels.parse().expect("a selector")), ..pods() }
}

fn filtered(version: &str, condition: &Value) -> WatchSpec {
    let condition: WhereCondition = serde_json::from_value(condition.clone()).expect("a condition");
    WatchSpec { where_clause: WhereClause::new(&[condition]), ..WatchSpec::all(ObjectKind::new(version, "Pod")) }
}

fn in_namespace(namespace: &str) -> WatchSpec {
    WatchSpec { namespace: Some(namespace.into()), ..pods() }
}

fn version(cache: usize, version: u32) -> (usize, String) {
    (cache, format!("version {version} or later"))
}

#[tokio::test(start_paused = true)]
async fn a_write_is_waited_for_in_the_caches_that_can_show_it() {
    let labels = json!({"app": "web"});
    let cases = [
        (pods(), true),
        (in_namespace("prod"), true),
        (in_namespace("test"), false),
        (selecting("app=web"), true),
        (selecting("app=other"), false),
        (selecting("app in (web, other)"), true),
        (WatchSpec { field_selector: Some("metadata.name=a".parse().expect("a selector")), ..pods() }, true),
        (WatchSpec { field_selector: Some("metadata.name=b".parse().expect("a selector")), ..pods() }, false),
        // Only the server can evaluate this selector.
        (WatchSpec { field_selector: Some("spec.strange=true".parse().expect("a selector")), ..pods() }, true),
        (filtered("v1", &json!({"annotation": "auto", "is": "yes"})), true),
        (filtered("v1", &json!({"annotation": "auto", "is": "no"})), false),
        (filtered("v2", &json!({"annotation": "auto", "is": "no"})), false),
        (filtered("v1", &json!({"field": "/spec/nodeName", "exists": true})), false),
        // In another API version, the field may be elsewhere.
        (filtered("v2", &json!({"field": "/spec/nodeName", "exists": true})), true),
        (WatchSpec::all(ObjectKind::new("v2", "Pod")), true),
        (WatchSpec::all(ObjectKind::new("v1", "ConfigMap")), false),
        (WatchSpec::all(ObjectKind::new("example.com/v1", "Pod")), false),
    ];
    for (spec, expected) in cases {
        let what = spec.to_string();
        let (waits, known) = waits(vec![spec], create(&labels), Reply::Json(201, labelled(7, &labels))).await;
        assert_eq!((!waits.is_empty(), known == 1), (expected, expected), "{what}: {waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_a_selector_is_remembered() {
    let reply = || Reply::Json(200, labelled(7, &json!({"app": "other"})));
    assert_eq!(waits(vec![selecting("app=web")], patch(WriteOptions::default()), reply()).await, (vec![], 1));
    let filtered = filtered("v1", &json!({"annotation": "auto", "is": "no"}));
    assert_eq!(waits(vec![filtered], patch(WriteOptions::default()), reply()).await, (vec![], 1));
}

#[tokio::test(start_paused = true)]
async fn a_refused_or_dry_run_write_is_not_waited_for() {
    let refused = Reply::Json(409, json!({"reason": "Conflict"}));
    assert_eq!(waits(vec![pods()], patch(WriteOptions::default()), refused).await, (vec![], 0));
    let dry_run = WriteOptions { dry_run: true, ..WriteOptions::default() };
    assert_eq!(waits(vec![pods()], patch(dry_run), Reply::Json(200, pod("a", "u", 7))).await, (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn a_write_of_unknown_outcome_has_the_caches_prove_themselves() {
    let (waits, _) = waits(vec![pods()], patch(WriteOptions::default()), Reply::Never).await;
    assert_eq!(waits, [(0, "proof that it shows all that was written".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_waited_for_by_its_uid() {
    let target = ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: key("a"), uid: None };
    let options = DeleteOptions {
        resource_version: None,
        propagation: Propagation::Background,
        grace_period_seconds: None,
        dry_run: false,
    };
    let delete = || Operation::Delete { target: target.clone(), options: options.clone() };
    let gone = json!({"kind": "Status", "status": "Success", "details": {"name": "a", "uid": "u"}});
    let (by_uid, _) = waits(vec![pods()], delete(), Reply::Json(200, gone)).await;
    assert_eq!(by_uid, [(0, "prod/a (u) gone or terminating".to_owned())]);
    let mut terminating = pod("a", "u", 7);
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let (by_version, _) = waits(vec![pods()], delete(), Reply::Json(200, terminating)).await;
    assert_eq!(by_version, [version(0, 7)]);
}

#[tokio::test(start_paused = true)]
async fn removing_the_last_finalizer_is_awaited_until_the_object_is_gone() {
    let mut last = pod("a", "u", 7);
    last["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    last["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    let (waits, _) = waits(vec![pods()], patch(WriteOptions::default()), Reply::Json(200, last)).await;
    assert_eq!(waits, [(0, "prod/a (u) gone".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_waited_for_by_its_uid_precondition() {
    let evict = |options: Value| {
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}, "deleteOptions": options,
        });
        let target = ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: key("a"), uid: None };
        let subresource = Some(Subresource { name: "eviction".into(), parent: Some(target) });
        let options = WriteOptions { subresource, ..WriteOptions::default() };
        Operation::Create { object: body.to_string(), options }
    };
    let done = || Reply::Json(201, json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}));
    let (named, _) = waits(vec![pods()], evict(json!({"preconditions": {"uid": "u"}})), done()).await;
    assert_eq!(named, [(0, "prod/a (u) gone or terminating".to_owned())]);
    for options in [json!({}), json!({"dryRun": []}), json!({"dryRun": null})] {
        let (unnamed, _) = waits(vec![pods()], evict(options.clone()), done()).await;
        assert_eq!(unnamed, [(0, "proof that it shows all that was written".to_owned())], "{options}");
    }
    let dry_run = json!({"preconditions": {"uid": "u"}, "dryRun": ["All"]});
    assert_eq!(waits(vec![pods()], evict(dry_run), done()).await, (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_waited_for_as_a_version_of_its_parent() {
    let kind = ObjectKind::new("apps/v1", "Deployment");
    let target = ObjectRef { kind: kind.clone(), key: key("d"), uid: None };
    let subresource = Some(Subresource { name: "scale".into(), parent: None });
    let options = WriteOptions { subresource, ..WriteOptions::default() };
    let patch = r#"{"spec":{"replicas":3}}"#.to_owned();
    let scale = Operation::Patch { target, patch_type: PatchType::Merge, patch, options };
    let answer = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "d", "namespace": "prod", "uid": "u", "resourceVersion": "9"}, "spec": {"replicas": 3},
    });
    let (waits, _) = waits(vec![pods(), WatchSpec::all(kind)], scale, Reply::Json(200, answer)).await;
    assert_eq!(waits, [version(1, 9)]);
}
