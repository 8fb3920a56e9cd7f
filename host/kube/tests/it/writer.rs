use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::json;
use windlass_core::call::ports::CallContext;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::rights::fence::{Fence, Fenced, LeaseLost};
use windlass_core::rights::grants::Rule;
use windlass_core::rights::principal::ServiceAccount;
use windlass_core::write::{
    DeleteOptions, FieldValidation, Operation, PatchType, Propagation, Subresource, WriteOptions,
};
use windlass_kube::{Discovery, Writer};

use crate::script::{Asked, Reply, Script, call, call_as, call_with, cluster_call, key, pod};

const CONFIG_MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"n":"1.0"}}"#;

async fn write(script: &Script, call: CallContext, operation: Operation) -> Result<Option<Arc<str>>, ApiError> {
    let client = script.client();
    Writer::new(client.clone(), Discovery::new(client)).write(Arc::new(call), operation).await
}

/// The request that is sent for `operation`, which succeeds.
async fn sent(call: CallContext, operation: Operation) -> Asked {
    let there = Reply::Json(200, pod("answer", "u", 7));
    let script = Script::default().lists([there.clone()]).mutations([there]);
    write(&script, call, operation).await.expect("success");
    let mut asked = script.mutations_asked();
    assert_eq!(asked.len(), 1);
    asked.remove(0)
}

/// The error with which `operation` is refused without being sent.
async fn refused(call: CallContext, operation: Operation) -> ApiError {
    let script = Script::default();
    let error = write(&script, call, operation).await.expect_err("a refusal");
    assert_eq!(script.mutations_asked().len(), 0, "{error}");
    error
}

/// The error for the answer `reply` to a create.
async fn answered(reply: Reply) -> ApiError {
    write(&Script::default().mutations([reply]), call(), create(CONFIG_MAP)).await.expect_err("a failure")
}

fn create(object: &str) -> Operation {
    Operation::Create { object: object.to_owned(), options: WriteOptions::default() }
}

fn apply(object: &str, options: WriteOptions) -> Operation {
    Operation::Apply { object: object.to_owned(), options }
}

fn target(uid: Option<&str>) -> ObjectRef {
    ObjectRef { kind: ObjectKind::new("apps/v1", "Deployment"), key: key("d"), uid: uid.map(Arc::from) }
}

fn patch(patch_type: PatchType, patch: &str, options: WriteOptions) -> Operation {
    Operation::Patch { target: target(Some("u")), patch_type, patch: patch.to_owned(), options }
}

fn locked() -> WriteOptions {
    WriteOptions { resource_version: Some("7".into()), ..WriteOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn a_create_names_its_manager_and_is_strictly_validated() {
    let asked = sent(call(), create(CONFIG_MAP)).await;
    assert_eq!((asked.method.clone(), asked.path.as_str()), (Method::POST, "/api/v1/namespaces/prod/configmaps"));
    assert_eq!(asked.parameter("fieldManager"), Some("windlass%2Fwebapp"));
    assert_eq!(asked.parameter("fieldValidation"), Some("Strict"));
    assert_eq!(asked.parameter("timeout"), Some("15s"));
    assert_eq!(asked.parameter("dryRun"), None);
    assert!(asked.user_agent.ends_with("(webapp@0123456789ab; host-1)"), "{}", asked.user_agent);
    assert_eq!(asked.json()["metadata"], json!({"name": "c", "namespace": "prod"}), "the primary's namespace");
}

#[tokio::test(start_paused = true)]
async fn an_apply_may_force_and_own() {
    let options = WriteOptions {
        owned: true,
        force: true,
        dry_run: true,
        field_validation: FieldValidation::Warn,
        ..WriteOptions::default()
    };
    let asked = sent(call(), apply(CONFIG_MAP, options)).await;
    assert_eq!((asked.method.clone(), asked.path.as_str()), (Method::PATCH, "/api/v1/namespaces/prod/configmaps/c"));
    assert_eq!(asked.content_type, "application/apply-patch+yaml");
    assert_eq!((asked.parameter("force"), asked.parameter("dryRun")), (Some("true"), Some("All")));
    assert_eq!(asked.parameter("fieldValidation"), Some("Warn"));
    let owner = &asked.json()["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&json!("u-shop"), &json!(true)));
}

#[tokio::test(start_paused = true)]
async fn an_update_is_sent_to_the_subresource_it_names() {
    let object =
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"test"},"status":{}}"#;
    let subresource = Subresource { name: "status".into(), parent: None };
    let options = WriteOptions { subresource: Some(subresource), ..locked() };
    let asked = sent(call(), Operation::Update { object: object.to_owned(), options }).await;
    assert_eq!(asked.method, Method::PUT);
    assert_eq!(asked.path, "/apis/apps/v1/namespaces/test/deployments/d/status");
    assert_eq!(asked.json()["metadata"]["resourceVersion"], "7");
}

#[tokio::test(start_paused = true)]
async fn a_body_of_another_kind_needs_its_parent() {
    let scale = r#"{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":3}}"#;
    let options = |parent| WriteOptions {
        subresource: Some(Subresource { name: "scale".into(), parent }),
        ..WriteOptions::default()
    };
    let update = |parent| Operation::Update { object: scale.to_owned(), options: options(parent) };
    let asked = sent(call(), update(Some(target(Some("u"))))).await;
    assert_eq!(asked.path, "/apis/apps/v1/namespaces/prod/deployments/d/scale");
    assert_eq!(asked.json()["metadata"], json!({"name": "d", "namespace": "prod", "uid": "u"}));
    assert_eq!(refused(call(), update(None)).await.reason, ApiReason::Invalid);
}

#[tokio::test(start_paused = true)]
async fn patches_carry_their_locks() {
    for (patch_type, content_type) in [
        (PatchType::Merge, "application/merge-patch+json"),
        (PatchType::Strategic, "application/strategic-merge-patch+json"),
    ] {
        let asked = sent(call(), patch(patch_type, r#"{"spec":{"replicas":3}}"#, locked())).await;
        assert_eq!(asked.content_type, content_type);
        assert_eq!(asked.json(), json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"replicas": 3}}));
    }
    let asked = sent(call(), patch(PatchType::Json, r#"[{"op":"remove","path":"/a"}]"#, locked())).await;
    let paths: Vec<_> = asked.json().as_array().expect("a list").iter().map(|step| step["path"].clone()).collect();
    assert_eq!(paths, ["/a", "/metadata/uid", "/metadata/resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn a_delete_has_preconditions_and_a_propagation() {
    let options = DeleteOptions {
        resource_version: Some("7".into()),
        propagation: Propagation::Foreground,
        grace_period_seconds: Some(5),
        dry_run: false,
    };
    let script = Script::default().mutations([Reply::Json(200, json!({"kind": "Status", "status": "Success"}))]);
    let left = write(&script, call(), Operation::Delete { target: target(Some("u")), options }).await;
    assert_eq!(left, Ok(None));
    let asked = &script.mutations_asked()[0];
    assert_eq!((&asked.method, asked.path.as_str()), (&Method::DELETE, "/apis/apps/v1/namespaces/prod/deployments/d"));
    assert_eq!(
        asked.json(),
        json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground", "gracePeriodSeconds": 5,
            "preconditions": {"uid": "u", "resourceVersion": "7"},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_delete_returns_an_object_that_is_still_terminating() {
    let options = || DeleteOptions {
        resource_version: None,
        propagation: Propagation::Background,
        grace_period_seconds: None,
        dry_run: false,
    };
    let delete = || Operation::Delete { target: target(None), options: options() };
    let mut waiting = pod("d", "u", 9);
    let gone = write(&Script::default().mutations([Reply::Json(200, waiting.clone())]), call(), delete()).await;
    assert_eq!(gone, Ok(None));
    waiting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let left = write(&Script::default().mutations([Reply::Json(200, waiting)]), call(), delete()).await;
    assert!(left.expect("success").is_some());
}

#[tokio::test(start_paused = true)]
async fn the_answer_comes_without_managed_fields() {
    let mut answer = pod("c", "u", 7);
    answer["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    let script = Script::default().mutations([Reply::Json(201, answer)]);
    let text = write(&script, call(), create(CONFIG_MAP)).await.expect("success").expect("an object");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), pod("c", "u", 7));
}

#[tokio::test(start_paused = true)]
async fn generated_names_are_tried_until_one_is_free() {
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"shop-"}}"#;
    let taken = Reply::Json(409, json!({"reason": "AlreadyExists"}));
    let script = Script::default().mutations([taken.clone(), taken, Reply::Json(201, pod("x", "u", 7))]);
    write(&script, call(), create(object)).await.expect("the third name is free");
    let names: Vec<_> =
        script.mutations_asked().iter().map(|asked| asked.json()["metadata"]["name"].to_string()).collect();
    assert!(names.len() == 3 && names[0] != names[1] && names[1] != names[2], "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("\"shop-") && name.len() == 12), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_object_is_not_sent() {
    let wrong = [
        "no JSON",
        "[]",
        r#"{"kind":"ConfigMap","metadata":{"name":"c"}}"#,
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}"#,
        r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","namespace":"prod"}}"#,
    ];
    for object in wrong {
        assert_eq!(refused(call(), create(object)).await.reason, ApiReason::Invalid, "{object}");
    }
    let no_namespace = refused(cluster_call(), create(CONFIG_MAP)).await;
    assert_eq!(no_namespace.reason, ApiReason::Invalid, "{no_namespace}");
    let update = Operation::Update {
        object: r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"c-"}}"#.to_owned(),
        options: WriteOptions::default(),
    };
    assert_eq!(refused(call(), update).await.reason, ApiReason::Invalid);
    let locked_create = Operation::Create { object: CONFIG_MAP.to_owned(), options: locked() };
    assert_eq!(refused(call(), locked_create).await.reason, ApiReason::Invalid);
    let owned = WriteOptions { owned: true, ..WriteOptions::default() };
    assert_eq!(refused(call(), patch(PatchType::Merge, "{}", owned)).await.reason, ApiReason::Invalid);
    assert_eq!(refused(call(), patch(PatchType::Json, "{}", WriteOptions::default())).await.reason, ApiReason::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_kind_or_subresource_that_is_not_served_is_not_found() {
    let unknown = create(r#"{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}"#);
    let error = refused(call(), unknown).await;
    assert_eq!((error.reason, &error.object), (ApiReason::NotFound, &None), "no object is missing: {error}");
    assert!(error.message.contains("v1 Gadget") && error.message.starts_with("g: "), "{error}");
    let subresource = Subresource { name: "status".into(), parent: None };
    let options = WriteOptions { subresource: Some(subresource), ..WriteOptions::default() };
    let error = refused(call(), apply(CONFIG_MAP, options)).await;
    assert_eq!((error.reason, &error.object), (ApiReason::NotFound, &None), "{error}");
    assert!(error.message.contains("prod/c") && error.message.contains("status"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn owning_by_a_missing_primary_is_a_not_found_of_the_primary() {
    let gone = CallContext { primary: None, ..call() };
    let owned = WriteOptions { owned: true, ..WriteOptions::default() };
    let error = refused(gone, apply(CONFIG_MAP, owned.clone())).await;
    assert_eq!(error.reason, ApiReason::NotFound);
    assert_eq!(error.object.expect("the primary").key, key("shop"));
    let elsewhere = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"test"}}"#;
    assert_eq!(refused(call(), apply(elsewhere, owned)).await.reason, ApiReason::Invalid);
}

#[tokio::test(start_paused = true)]
async fn an_ungranted_write_is_not_sent() {
    let rule = Rule {
        groups: vec![String::new()],
        resources: vec!["configmaps".into()],
        verbs: vec!["create".into(), "patch".into()],
        namespaces: vec!["prod".into()],
        names: vec!["c".into()],
        ..Rule::default()
    };
    let only = |verb: &str| call_with(vec![Rule { verbs: vec![verb.into()], ..rule.clone() }]);
    let apply_to = |object: &str| apply(object, WriteOptions::default());
    sent(call_with(vec![rule.clone()]), apply_to(CONFIG_MAP)).await;
    for verb in ["create", "patch"] {
        let error = refused(only(verb), apply_to(CONFIG_MAP)).await;
        assert_eq!(error.reason, ApiReason::NotGranted, "an apply creates and changes: {error}");
    }
    let of_one = CONFIG_MAP.replace("{\"name\"", "{\"uid\":\"u-c\",\"name\"");
    sent(only("patch"), apply_to(&of_one)).await;
    let error = refused(only("patch"), create(CONFIG_MAP)).await;
    assert_eq!(error.reason, ApiReason::NotGranted);
    assert_eq!((error.verb, error.resource.as_str()), ("create", "configmaps"));
    assert_eq!(error.object.expect("an object").key, key("c"));
    for object in
        [CONFIG_MAP.replace("\"c\"", "\"d\""), CONFIG_MAP.replace("{\"name\"", "{\"namespace\":\"test\",\"name\"")]
    {
        let error = refused(call_with(vec![rule.clone()]), apply_to(&object)).await;
        assert_eq!(error.reason, ApiReason::NotGranted, "{object}");
    }
}

/// A fence that is closed, or leaves this much time.
#[derive(Debug)]
struct Leaves(Option<Duration>);

impl Fence for Leaves {
    fn may_start(&self) -> Result<Duration, LeaseLost> {
        self.0.ok_or_else(|| LeaseLost { lease: "windlass-main-shard-07".into() })
    }
}

fn fenced(fence: Leaves) -> CallContext {
    let mut call = call();
    let principal = Arc::get_mut(&mut call.principal).expect("nobody else has it");
    principal.fence = Fenced::by(Arc::new(fence));
    call
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_for_a_plugin_whose_lease_is_lost() {
    let error = refused(fenced(Leaves(None)), create(CONFIG_MAP)).await;
    assert_eq!((error.reason, error.code), (ApiReason::LeaseLost, 503));
    assert!(error.message.contains("windlass-main-shard-07"), "{error}");
    let asked = sent(fenced(Leaves(Some(Duration::from_millis(2_500)))), create(CONFIG_MAP)).await;
    assert!(asked.query.contains("timeout=2500ms"), "the server gives up with the host: {}", asked.query);
}

#[tokio::test(start_paused = true)]
async fn an_ungranted_group_is_not_looked_up_and_the_missing_rule_is_guessed() {
    let rule =
        Rule { groups: vec![String::new()], resources: vec!["*".into()], verbs: vec!["*".into()], ..Rule::default() };
    let script = Script::default();
    let writer = Writer::new(script.client(), Discovery::new(script.client()));
    let call = Arc::new(call_with(vec![rule]));
    let refused = async |kind: &str| {
        let object = json!({"apiVersion": "invented.example.com/v1", "kind": kind, "metadata": {"name": "c"}});
        let error = writer.write(call.clone(), create(&object.to_string())).await.expect_err("refused");
        assert_eq!(error.reason, ApiReason::NotGranted, "{error}");
        error.message
    };
    let message = refused("Policy").await;
    for words in [
        "\"policies\" is guessed from the kind",
        r#"missing: rules: - {apiGroups: ["invented.example.com"], resources: ["policies"], verbs: ["create"], namespaces: ["prod"]}"#,
    ] {
        assert!(message.contains(words), "{words:?} is not in: {message}");
    }
    let denials = call.principal.grants.denials().snapshot();
    assert!(denials.len() == 1 && denials[0].resource == "policies.invented.example.com", "{denials:?}");
    // No server has such a kind, and kinds that a plugin invents are not counted.
    let message = refused(&"Thing".repeat(1000)).await;
    assert!(!message.contains("missing") && call.principal.grants.denials().snapshot().len() == 1, "{message}");
    assert!(script.asked().is_empty(), "{:?}", script.asked());
}

#[tokio::test(start_paused = true)]
async fn errors_keep_the_servers_reason_and_retry_delay() {
    let busy = json!({"reason": "TooManyRequests", "message": "busy", "details": {"retryAfterSeconds": 3}});
    let error = answered(Reply::Json(429, busy)).await;
    assert_eq!((error.reason, error.retry_after), (ApiReason::TooManyRequests, Some(Duration::from_secs(3))));
    assert_eq!((error.verb, error.resource.as_str(), error.message.as_str()), ("create", "configmaps", "busy"));
    let error = answered(Reply::Headed(503, "retry-after", "9", json!({}))).await;
    assert_eq!((error.reason, error.retry_after), (ApiReason::UnknownOutcome, Some(Duration::from_secs(9))));
    let invalid_uid = json!({"reason": "Invalid", "details": {"causes": [{"field": "metadata.uid"}]}});
    assert_eq!(answered(Reply::Json(422, invalid_uid)).await.reason, ApiReason::Conflict);
    let error = answered(Reply::Text(502, "<html>bad gateway</html>".into())).await;
    assert_eq!((error.reason, error.status_reason.as_str()), (ApiReason::UnknownOutcome, "ServerError"));
    assert!(error.message.starts_with("<html>bad gateway</html>; "), "{error}");
    let webhook = "Internal error occurred: failed calling webhook \"a.example.com\": connection refused";
    let error = answered(Reply::Json(500, json!({"reason": "InternalError", "message": webhook}))).await;
    assert_eq!((error.reason, error.message.as_str()), (ApiReason::ServerError, webhook));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_an_unknown_outcome() {
    for reply in [
        Reply::Never,
        Reply::Broken(vec!["{".into()]),
        Reply::Text(200, "no JSON".into()),
        Reply::Text(200, " ".repeat(9 << 20)),
    ] {
        let error = answered(reply.clone()).await;
        assert_eq!(error.reason, ApiReason::UnknownOutcome, "{reply:?}");
    }
}

#[tokio::test]
async fn a_request_to_a_missing_server_was_not_sent() {
    let options = kubeconfig("http://127.0.0.1:1");
    let connection = windlass_kube::client::connect(&options.1).await.expect("a client");
    let error = windlass_kube::client::check(&connection).await.expect_err("nobody answers");
    assert!(error.to_string().contains("http://127.0.0.1:1") && error.to_string().contains("context c"), "{error}");
    // Discovery is scripted, so that only the write itself finds no server.
    let script = Script::default();
    let writer = Writer::new(connection.client, Discovery::new(script.client()));
    let error = writer.write(Arc::new(call()), create(CONFIG_MAP)).await.expect_err("nobody answers");
    assert_eq!((error.reason, error.code), (ApiReason::ServerError, 503), "{error}");
}

/// A kubeconfig for `server`, and the directory that contains it.
pub(crate) fn kubeconfig(server: &str) -> (tempfile::TempDir, windlass_kube::ConnectOptions) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    });
    std::fs::write(&path, config.to_string()).expect("a file");
    (directory, windlass_kube::ConnectOptions { kubeconfig: Some(path), ..Default::default() })
}

#[tokio::test(start_paused = true)]
async fn a_write_continues_after_its_caller_is_dropped() {
    let script = Script::default().mutations([Reply::Json(201, pod("c", "u", 7))]);
    let (hold, settled) = windlass_core::write::settle::hold();
    let client = script.client();
    let call = CallContext { hold, ..call() };
    drop(Writer::new(client.clone(), Discovery::new(client)).write(Arc::new(call), create(CONFIG_MAP)));
    settled.wait().await;
    assert_eq!(script.mutations_asked().len(), 1);
}

#[tokio::test]
async fn an_unknown_context_is_reported_with_the_known_ones() {
    let (_directory, mut options) = kubeconfig("http://127.0.0.1:1");
    options.context = Some("other".into());
    let error = windlass_kube::client::connect(&options).await.err().expect("no such context").to_string();
    assert!(error.contains("\"other\"") && error.contains(": c."), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_name_in_the_body_cannot_lead_the_path_elsewhere() {
    for (name, namespace) in [("..", "prod"), (".", "prod"), ("a/b", "prod"), ("a%2fb", "prod"), ("c", "..")] {
        let metadata = json!({"name": name, "namespace": namespace});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string();
        let error = refused(call(), apply(&object, WriteOptions::default())).await;
        assert_eq!(error.reason, ApiReason::Invalid, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_kubernetes_allows_is_encoded_in_the_path() {
    for (name, segment) in [
        ("a b", "a%20b"),
        ("x?y=z", "x%3Fy%3Dz"),
        ("x#y", "x%23y"),
        ("é", "%C3%A9"),
        ("DOMAIN\\team", "DOMAIN%5Cteam"),
        ("a\u{1b}[31m\nb", "a%1B%5B31m%0Ab"),
        ("...", "..."),
    ] {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "prod"}});
        let asked = sent(call(), apply(&object.to_string(), WriteOptions::default())).await;
        assert_eq!(asked.path, format!("/api/v1/namespaces/prod/configmaps/{segment}"));
        assert_eq!(asked.json()["metadata"]["name"], name);
    }
}

#[tokio::test(start_paused = true)]
async fn every_request_names_its_call_and_its_user() {
    let trace: Arc<str> = "4bf92f3577b34da6a3ce929d0e0e4736".into();
    let asked = sent(CallContext { trace_id: trace.clone(), ..call() }, create(CONFIG_MAP)).await;
    let parent = asked.headers["traceparent"].to_str().expect("text");
    assert!(parent.starts_with(&format!("00-{trace}-")) && parent.len() == 55, "{parent}");
    assert!(!asked.headers.contains_key("impersonate-user"));
    let account = ServiceAccount { namespace: "prod".into(), name: "shop".into() };
    let asked = sent(call_as(account), create(CONFIG_MAP)).await;
    assert_eq!(asked.headers["impersonate-user"], "system:serviceaccount:prod:shop");
    assert_eq!(asked.headers.get_all("impersonate-group").iter().count(), 3);
}

fn creates(count: usize) -> Vec<Operation> {
    (0..count).map(|at| create(&CONFIG_MAP.replace("\"c\"", &format!("\"c{at}\"")))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_only_fails_is_not_sent_to_its_end() {
    let forbidden = json!({"reason": "Forbidden", "message": "exceeded quota"});
    let script = Script::default().mutations([Reply::Json(403, forbidden)]);
    let client = script.client();
    let writer = Writer::new(client.clone(), Discovery::new(client));
    let results = writer.batch(Arc::new(call()), creates(10)).await;
    assert_eq!((results.len(), script.mutations_asked().len()), (10, 3));
    for (at, result) in results.into_iter().enumerate() {
        let error = result.expect_err("forbidden");
        assert_eq!((error.reason, error.code), (ApiReason::Forbidden, 403));
        assert_eq!(error.message.starts_with("not sent"), at >= 3, "{error}");
        assert!(error.message.contains("exceeded quota"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn unsent_writes_of_a_batch_are_reported_as_neither_missing_nor_present() {
    for (code, reason) in [(404, "NotFound"), (409, "AlreadyExists"), (504, "Timeout")] {
        let script = Script::default().mutations([Reply::Json(code, json!({"reason": reason}))]);
        let writer = Writer::new(script.client(), Discovery::new(script.client()));
        let results = writer.batch(Arc::new(call()), creates(5)).await;
        let errors: Vec<_> = results.into_iter().map(|result| result.expect_err("a failure")).collect();
        let (sent, unsent) = errors.split_at(3);
        assert!(sent.iter().all(|error| error.reason != ApiReason::ServerError), "{sent:?}");
        assert!(unsent.iter().all(|error| error.reason == ApiReason::ServerError && error.code == 500), "{unsent:?}");
        assert!(unsent[0].message.starts_with("not sent"), "{unsent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_speeds_up_and_answers_in_order() {
    let fine = |name: &str| Reply::Json(201, pod(name, "u", 7));
    let taken = Reply::Json(409, json!({"reason": "AlreadyExists"}));
    let script = Script::default().mutations([fine("first"), taken, fine("third"), fine("fourth")]);
    let client = script.client();
    let writer = Writer::new(client.clone(), Discovery::new(client));
    let results = writer.batch(Arc::new(call()), creates(4)).await;
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, true]);
    assert!(results[3].as_ref().is_ok_and(|text| text.as_ref().is_some_and(|text| text.contains("fourth"))));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_batch_sends_no_further_writes() {
    let script = Script::default().mutations([Reply::Never]);
    let client = script.client();
    let writer = Writer::new(client.clone(), Discovery::new(client));
    let batch = writer.batch(Arc::new(call()), creates(4));
    tokio::time::timeout(Duration::from_secs(1), batch).await.expect_err("its first write waits");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(script.mutations_asked().len(), 1);
}
