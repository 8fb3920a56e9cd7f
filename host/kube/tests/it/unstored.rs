//! Tests writes that store nothing, such as reviews, writes that end a Pod, and field managers for parts of a plugin.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::call::ports::CallContext;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::rights::grants::Rule;
use windlass_core::write::settle;
use windlass_core::write::{Operation, Subresource, WriteOptions};
use windlass_kube::{Discovery, Writer};

use crate::cluster::{cluster, create};
use crate::live::target;
use crate::script::{Reply, Script, call, call_with};

fn writer(script: &Script) -> Writer {
    Writer::new(script.client(), Discovery::new(script.client()))
}

async fn write(script: &Script, call: CallContext, operation: Operation) -> Result<Option<Value>, ApiError> {
    let written = writer(script).write(Arc::new(call), operation).await?;
    Ok(written.map(|text| serde_json::from_str(&text).expect("JSON")))
}

fn review(kind: &str) -> Value {
    let attributes = json!({"verb": "get", "resource": "pods"});
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": kind,
        "spec": {"user": "jane", "resourceAttributes": attributes},
    })
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_stored_needs_no_name() {
    for (kind, path) in [
        ("SubjectAccessReview", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
        ("LocalSubjectAccessReview", "/apis/authorization.k8s.io/v1/namespaces/prod/localsubjectaccessreviews"),
    ] {
        let mut answer = review(kind);
        answer["metadata"] = json!({"creationTimestamp": null, "managedFields": [{"manager": "x"}]});
        answer["status"] = json!({"allowed": true});
        let script = Script::default().mutations([Reply::Json(201, answer)]);
        let answer = write(&script, call(), create(&review(kind))).await.expect("success").expect("an answer");
        assert_eq!((&answer["status"]["allowed"], &answer["metadata"]["managedFields"]), (&json!(true), &Value::Null));
        assert_eq!(script.mutations_asked()[0].path, path);
    }
    let script = Script::default();
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let error = write(&script, call(), create(&nameless)).await.expect_err("it would be stored");
    assert_eq!((error.reason, script.mutations_asked().len()), (ApiReason::Invalid, 0), "{error}");
    let owned = WriteOptions { owned: true, ..WriteOptions::default() };
    let object = review("SubjectAccessReview").to_string();
    let error = write(&script, call(), Operation::Create { object, options: owned }).await.expect_err("nothing to own");
    assert_eq!(error.reason, ApiReason::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_review_has_a_grant_like_any_create() {
    let rule = |resource: &str, names: &[&str]| Rule {
        groups: vec!["authorization.k8s.io".into()],
        resources: vec![resource.into()],
        verbs: vec!["create".into()],
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Rule::default()
    };
    let may = async |rule: Rule| {
        let script = Script::default().mutations([Reply::Json(201, review("SubjectAccessReview"))]);
        write(&script, call_with(vec![rule]), create(&review("SubjectAccessReview")))
            .await
            .map_err(|error| error.reason)
    };
    assert!(may(rule("subjectaccessreviews", &[])).await.is_ok());
    assert_eq!(may(rule("localsubjectaccessreviews", &[])).await, Err(ApiReason::NotGranted));
    assert_eq!(may(rule("subjectaccessreviews", &["a"])).await, Err(ApiReason::NotGranted), "it has no name");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_review_holds_nothing() {
    for (reply, reason) in [
        (Reply::Broken(vec!["{".into()]), ApiReason::ServerError),
        (Reply::Json(503, json!({"reason": "ServiceUnavailable"})), ApiReason::ServerError),
    ] {
        let script = Script::default().mutations([reply]);
        let (hold, settled) = settle::hold();
        let began = Instant::now();
        let call = CallContext { hold, ..call() };
        let error = write(&script, call, create(&review("SubjectAccessReview"))).await.expect_err("no answer");
        assert_eq!(error.reason, reason, "{error}");
        settled.wait().await;
        assert!(began.elapsed() < Duration::from_secs(1), "held for {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_only_host_sends_a_review_as_a_dry_run_and_reports_nothing() {
    let script = Script::default().comparable().mutations([Reply::Json(201, review("SubjectAccessReview"))]);
    let reported = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = reported.clone();
    let withheld = move |_: &CallContext, _: &windlass_core::object::withheld::WithheldWrite| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        true
    };
    let own = Reply::Json(200, json!({"spec": {}}));
    let script = script.answers("/apis/apiregistration.k8s.io/v1/apiservices/v1.authorization.k8s.io", own);
    let writer = writer(&script).read_only(true).withholding(Arc::new(withheld));
    let written = writer.write(Arc::new(call()), create(&review("SubjectAccessReview"))).await;
    assert!(written.expect("tried").is_some());
    assert_eq!(script.mutations_asked()[0].parameter("dryRun"), Some("All"));
    assert_eq!(reported.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_server_answers_a_review_without_a_name() {
    let cluster = cluster().await;
    let answer = cluster.write(create(&review("SubjectAccessReview"))).await.expect("created").expect("an answer");
    assert!(answer["status"]["allowed"].is_boolean(), "{answer}");
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let object = review("SubjectAccessReview").to_string();
    assert!(cluster.write(Operation::Create { object, options: dry }).await.expect("tried").is_some());
}

fn eviction() -> Operation {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    let subresource = Some(Subresource { name: "eviction".into(), parent: Some(target("a", None)) });
    Operation::Create { object: body.to_string(), options: WriteOptions { subresource, ..WriteOptions::default() } }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_a_disruption_budget_forbids_is_tried_later() {
    let done = json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201});
    let budget = json!({"kind": "Status", "status": "Failure", "reason": "TooManyRequests", "code": 429,
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [{"reason": "DisruptionBudget"}]}});
    let missing = json!({"kind": "Status", "reason": "NotFound", "code": 404, "details": {"name": "a"}});
    let answered = async |reply: Reply| {
        let script = Script::default().mutations([reply]);
        let (hold, settled) = settle::hold();
        let began = Instant::now();
        let result = write(&script, CallContext { hold, ..call() }, eviction()).await;
        settled.wait().await;
        assert_eq!(script.mutations_asked().len(), 1, "{result:?}");
        assert!(began.elapsed() < Duration::from_secs(1), "held for {:?}", began.elapsed());
        assert_eq!(script.mutations_asked()[0].path, "/api/v1/namespaces/prod/pods/a/eviction", "{result:?}");
        result
    };
    answered(Reply::Json(201, done)).await.expect("evicted");
    let error = answered(Reply::Headed(429, "Retry-After", "10", budget)).await.expect_err("not now");
    assert_eq!((error.reason, error.retry_after), (ApiReason::TooManyRequests, Some(Duration::from_secs(10))));
    assert_eq!(answered(Reply::Json(404, missing)).await.expect_err("no Pod").reason, ApiReason::NotFound);
}

fn part(suffix: Option<&str>, data: &Value) -> Operation {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data});
    let options = WriteOptions { manager_suffix: suffix.map(Into::into), ..WriteOptions::default() };
    Operation::Apply { object: object.to_string(), options }
}

#[tokio::test(start_paused = true)]
async fn a_manager_of_a_part_is_one_of_the_plugin() {
    for (suffix, manager) in [(None, "windlass%2Fwebapp"), (Some("tls"), "windlass%2Fwebapp%2Ftls")] {
        let script = Script::default().mutations([Reply::Json(
            200,
            json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "prod", "uid": "u", "resourceVersion": "7"}}),
        )]);
        write(&script, call(), part(suffix, &json!({"a": "1"}))).await.expect("applied");
        assert_eq!(script.mutations_asked()[0].parameter("fieldManager"), Some(manager));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_is_recognised_by_its_field_manager() {
    let by = |manager: &str| {
        let mut pod = crate::script::pod("a", "u", 7);
        pod["metadata"]["managedFields"] = json!([{"manager": manager, "operation": "Update", "fieldsV1": {}}]);
        Reply::Json(200, pod)
    };
    for (manager, is_own) in [("windlass/webapp/tls", true), ("windlass/webapp", false)] {
        let script = Script::default().mutations([Reply::Broken(vec!["{".into()])]).lists([by(manager), by(manager)]);
        let (hold, settled) = settle::hold();
        let began = Instant::now();
        let options = WriteOptions { manager_suffix: Some("tls".into()), ..WriteOptions::default() };
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}).to_string();
        let created = write(&script, CallContext { hold, ..call() }, Operation::Create { object, options }).await;
        assert_eq!(created.expect_err("lost").reason, ApiReason::UnknownOutcome);
        settled.wait().await;
        assert_eq!(began.elapsed() < Duration::from_secs(1), is_own, "{manager}");
    }
}

#[tokio::test]
async fn parts_of_one_object_do_not_prune_each_other() {
    let cluster = cluster().await;
    let data = async |operation: Operation| {
        cluster.write(operation).await.expect("applied").expect("an object")["data"].clone()
    };
    assert_eq!(data(part(None, &json!({"a": "1"}))).await, json!({"a": "1"}));
    assert_eq!(data(part(Some("tls"), &json!({"b": "1"}))).await, json!({"a": "1", "b": "1"}));
    assert_eq!(data(part(Some("tls"), &json!({"c": "1"}))).await, json!({"a": "1", "c": "1"}), "its own is pruned");
    assert_eq!(data(part(None, &json!({"a": "2"}))).await, json!({"a": "2", "c": "1"}));
}
