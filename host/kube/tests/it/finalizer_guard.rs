//! Tests finalizers that a plugin's own writes add or remove.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_core::call::ports::CallContext;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{Object, ObjectKey, ObjectRef};
use windlass_core::rights::grants::{Allowance, Grants, Rule};
use windlass_core::rights::principal::Role;
use windlass_core::write::{Operation, PatchType, Subresource, WriteOptions};
use windlass_kube::{Discovery, Followed, Readable, Writer};

use crate::cluster::{Cluster, cluster, config_maps};
use crate::script::{Reply, Script, call, call_with};

const OWN: &str = "windlass.dev/webapp";

fn everything() -> Rule {
    let all = || vec!["*".to_owned()];
    Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() }
}

/// `call` with the right to do everything, and to add and remove `finalizers`.
fn granted(call: CallContext, finalizers: &[&str]) -> CallContext {
    let finalizers = finalizers.iter().map(|&name| name.to_owned()).collect();
    let allowance = Allowance { rules: vec![everything()], finalizers, ..Allowance::default() };
    call.principal.grants.replace(Grants::asked(allowance));
    call
}

fn map(metadata: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

fn create(metadata: &Value) -> Operation {
    Operation::Create { object: map(metadata).to_string(), options: WriteOptions::default() }
}

fn update(object: &Value) -> Operation {
    Operation::Update { object: object.to_string(), options: WriteOptions::default() }
}

fn apply(metadata: &Value) -> Operation {
    Operation::Apply { object: map(metadata).to_string(), options: WriteOptions::default() }
}

impl Cluster {
    async fn keep(&self, finalizers: &[&str], operation: Operation) -> Result<Value, ApiError> {
        let call = Arc::new(granted(self.call(), finalizers));
        let written = self.writer.write(call, operation).await?.expect("an object");
        Ok(serde_json::from_str(&written).expect("JSON"))
    }

    fn patch_of(&self, patch_type: PatchType, patch: &str) -> Operation {
        let (target, options) = (self.target("a", None), WriteOptions::default());
        Operation::Patch { target, patch_type, patch: patch.to_owned(), options }
    }

    /// An object with finalizers of two other controllers.
    async fn protected(&self) -> Value {
        let metadata = json!({"name": "a", "finalizers": ["x/1", "y/2"]});
        self.keep(&["x/1", "y/2"], create(&metadata)).await.expect("created")
    }
}

#[tokio::test]
async fn finalizers_of_others_are_neither_added_nor_removed_without_a_grant() {
    let cluster = cluster().await;
    let object = cluster.protected().await;
    let with = |finalizers: Value| {
        let mut object = object.clone();
        object["metadata"]["finalizers"] = finalizers;
        object
    };
    let mut unlocked = with(json!([]));
    unlocked["metadata"].as_object_mut().expect("fields").remove("resourceVersion");
    let mut zero = with(json!([]));
    zero["metadata"]["resourceVersion"] = "0".into();
    let mut padded = with(json!([]));
    padded["metadata"]["resourceVersion"] =
        format!("0{}", object["metadata"]["resourceVersion"].as_str().unwrap()).into();
    for (name, operation) in [
        ("a create", create(&json!({"name": "b", "finalizers": ["z/3"]}))),
        ("an apply", apply(&json!({"name": "a", "finalizers": ["z/3"]}))),
        ("an apply of what is there", apply(&json!({"name": "a", "finalizers": ["x/1"]}))),
        ("an update that adds", update(&with(json!(["x/1", "y/2", "z/3"])))),
        ("an update that removes", update(&with(json!(["y/2"])))),
        ("an update that leaves out", update(&with(Value::Null))),
        ("an update at any version", update(&unlocked)),
        ("an update at no version", update(&zero)),
        ("an update at a version written otherwise", update(&padded)),
        ("a merge patch", cluster.patch_of(PatchType::Merge, r#"{"metadata":{"finalizers":["y/2"]}}"#)),
        ("a merge patch of null", cluster.patch_of(PatchType::Merge, r#"{"metadata":{"finalizers":null}}"#)),
        ("a strategic patch", cluster.patch_of(PatchType::Strategic, r#"{"metadata":{"finalizers":["z/3"]}}"#)),
        (
            "a strategic patch that keeps nothing",
            cluster.patch_of(PatchType::Strategic, r#"{"metadata":{"$retainKeys":["name"],"name":"a"}}"#),
        ),
        ("a JSON patch", cluster.patch_of(PatchType::Json, r#"[{"op":"remove","path":"/metadata/finalizers/0"}]"#)),
        ("a patch of owners", cluster.patch_of(PatchType::Merge, r#"{"metadata":{"managedFields":[{}]}}"#)),
    ] {
        let error = cluster.keep(&["q/7"], operation).await.expect_err(name);
        assert_eq!(error.reason, ApiReason::NotGranted, "{name}: {error}");
    }
    let now = cluster.keep(&[], apply(&json!({"name": "a"}))).await.expect("it is there");
    assert_eq!(now["metadata"]["finalizers"], json!(["x/1", "y/2"]));
}

#[tokio::test]
async fn a_write_that_keeps_the_finalizers_of_others_is_sent() {
    let cluster = cluster().await;
    let mut object = cluster.protected().await;
    object["data"] = json!({"n": "1"});
    let mut object = cluster.keep(&[], update(&object)).await.expect("echoed");
    object["data"] = json!({"n": "2"});
    object["metadata"].as_object_mut().expect("fields").remove("resourceVersion");
    object["metadata"]["finalizers"] = json!(["y/2", "x/1"]);
    let object = cluster.keep(&[], update(&object)).await.expect("echoed in another order, at any version");
    assert_eq!(object["data"]["n"], "2");
    let patch = r#"{"data":{"n":"3"},"metadata":{"finalizers":["x/1","y/2"]}}"#;
    let object = cluster.keep(&[], cluster.patch_of(PatchType::Merge, patch)).await.expect("named as they are");
    assert_eq!((&object["data"]["n"], &object["metadata"]["finalizers"]), (&json!("3"), &json!(["x/1", "y/2"])));
    let mut stale = object.clone();
    stale["metadata"]["resourceVersion"] = "1".into();
    stale["metadata"]["finalizers"] = json!([]);
    let error = cluster.keep(&[], update(&stale)).await.expect_err("stale");
    assert_eq!(error.reason, ApiReason::Conflict, "{error}");
}

#[tokio::test]
async fn granted_finalizers_are_added_and_removed_and_no_others() {
    let cluster = cluster().await;
    let mut object = cluster.protected().await;
    object["metadata"]["finalizers"] = json!(["y/2", "z/3"]);
    cluster.keep(&["x/1"], update(&object)).await.expect_err("z/3 is not granted");
    let object = cluster.keep(&["x/1", "z/3"], update(&object)).await.expect("granted");
    assert_eq!(object["metadata"]["finalizers"], json!(["y/2", "z/3"]));
    let tested = r#"[{"op":"test","path":"/metadata/finalizers/0","value":"y/2"},{"op":"remove","path":"/metadata/finalizers/0"}]"#;
    let tested = || cluster.patch_of(PatchType::Json, tested);
    cluster.keep(&["x/1"], tested()).await.expect_err("y/2 is not granted");
    let object = cluster.keep(&["y/2"], tested()).await.expect("granted");
    assert_eq!(object["metadata"]["finalizers"], json!(["z/3"]));
    let all = cluster.patch_of(PatchType::Json, r#"[{"op":"remove","path":"/metadata/finalizers"}]"#);
    let object = cluster.keep(&["*"], all).await.expect("all are granted");
    assert_eq!(object["metadata"].get("finalizers"), None);
}

#[tokio::test]
async fn the_plugins_own_finalizer_is_the_hosts_to_keep() {
    let cluster = cluster().await;
    let as_host = |call: CallContext| {
        let principal = call.principal.in_role(Role::Finalizer, Grants::new(vec![everything()]));
        Arc::new(CallContext { principal: Arc::new(principal), ..call })
    };
    cluster.apply("a", "1").await;
    let add = cluster.patch_of(PatchType::Merge, &json!({"metadata": {"finalizers": [OWN]}}).to_string());
    let error = cluster.keep(&[OWN], add.clone()).await.expect_err("by the plugin");
    assert!(error.reason == ApiReason::Invalid && error.message.contains("kept by the host"), "{error}");
    let added = cluster.writer.write(as_host(cluster.call()), add).await.expect("by the host").expect("an object");
    let object: Value = serde_json::from_str(&added).expect("JSON");
    assert_eq!(object["metadata"]["finalizers"], json!([OWN]));
    cluster.keep(&[], update(&object)).await.expect("echoed");
    let mut without = object;
    without["metadata"].as_object_mut().expect("fields").remove("finalizers");
    without["metadata"].as_object_mut().expect("fields").remove("resourceVersion");
    let error = cluster.keep(&[OWN, "*"], update(&without)).await.expect_err("left out");
    assert_eq!(error.reason, ApiReason::Invalid, "{error}");
}

#[tokio::test]
async fn finalizers_known_from_a_cache_or_the_call_take_no_request() {
    let cluster = cluster().await;
    let object = cluster.protected().await;
    let spec = cluster.all(config_maps());
    let subscription = cluster.informers.subscribe(spec.clone());
    timeout(Duration::from_secs(30), subscription.when(|status| status.synced)).await.expect("synced");
    let readable = Readable { spec, store: subscription.store().clone(), indexes: vec![] };
    // All requests go to a script that does not know the object. So an update of an object with finalizers would be
    // treated as a create, and refused.
    let script = Script::default().mutations([Reply::Json(200, object.clone())]);
    let writer = Writer::new(script.client(), Discovery::new(script.client()));
    let runs = |_: &Object, _: &ObjectKey| true;
    let writer = writer.of_controller(vec![Followed { readable, runs: Some(Arc::new(runs)), maps_by_object: true }]);
    let mut changed = object.clone();
    changed["data"] = json!({"n": "1"});
    let call = Arc::new(granted(cluster.call(), &[]));
    writer.write(call.clone(), update(&changed)).await.expect("known from the cache");
    let gets = script
        .asked()
        .iter()
        .filter(|asked| asked.path.contains("configmaps/a") && asked.method == Method::GET)
        .count();
    assert_eq!(gets, 0);
    changed["metadata"]["finalizers"] = json!(["x/1"]);
    let error = writer.write(call, update(&changed)).await.expect_err("y/2 would go");
    assert!(error.reason == ApiReason::NotGranted && error.message.contains("y/2"), "{error}");
    assert_eq!(script.mutations_asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn replacing_finalizers_is_locked_to_the_version_read_and_retried() {
    let latest = |version: &str| {
        Reply::Json(200, map(&json!({"name": "c", "namespace": "prod", "uid": "u", "resourceVersion": version})))
    };
    let conflict =
        json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "message": "changed", "code": 409});
    let script =
        Script::default().lists([latest("7"), latest("8")]).mutations([Reply::Json(409, conflict), latest("9")]);
    let writer = Writer::new(script.client(), Discovery::new(script.client()));
    let operation = update(&map(&json!({"name": "c"})));
    writer.write(Arc::new(call()), operation).await.expect("the second time");
    let versions: Vec<_> =
        script.mutations_asked().iter().map(|asked| asked.json()["metadata"]["resourceVersion"].clone()).collect();
    assert_eq!(versions, ["7", "8"]);
}

#[tokio::test]
async fn a_status_update_of_a_built_in_kind_can_remove_finalizers() {
    let cluster = cluster().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": ["x/1"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let created = Operation::Create { object: pod.to_string(), options: WriteOptions::default() };
    let mut pod = cluster.keep(&["x/1"], created).await.expect("created");
    pod["metadata"].as_object_mut().expect("fields").remove("finalizers");
    let subresource = Some(Subresource { name: "status".into(), parent: None });
    let options = WriteOptions { subresource, ..WriteOptions::default() };
    let status = Operation::Update { object: pod.to_string(), options: options.clone() };
    let error = cluster.keep(&[], status).await.expect_err("a built-in kind");
    assert_eq!(error.reason, ApiReason::NotGranted, "{error}");
    let target =
        ObjectRef { uid: None, kind: windlass_core::object::ObjectKind::new("v1", "Pod"), ..cluster.target("p", None) };
    let patch = r#"{"status":{"phase":"Running"}}"#.to_owned();
    let operation = Operation::Patch { target, patch_type: PatchType::Merge, patch, options };
    cluster.keep(&[], operation).await.expect("a status alone");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_would_create_needs_the_right_to() {
    let missing = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "none", "code": 404});
    let script = Script::default().lists([Reply::Json(404, missing)]);
    let writer = Writer::new(script.client(), Discovery::new(script.client()));
    let rule = Rule { verbs: vec!["update".into()], ..everything() };
    let written = writer.write(Arc::new(call_with(vec![rule])), update(&map(&json!({"name": "c"})))).await;
    let error = written.expect_err("nothing to update");
    assert!(error.reason == ApiReason::NotGranted && error.message.contains("create"), "{error}");
    assert!(script.mutations_asked().is_empty());
}
