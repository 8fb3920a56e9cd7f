//! Tests the writes of a read-only host: what is sent, what the call sees, and what is reported.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_core::call::ports::{CallContext, Reads as _};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::withheld::{WithheldEffect, WithheldWrite};
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::secret::confidential::Confidential;
use windlass_core::write::{DeleteOptions, Operation, PatchType, Propagation, Subresource, WriteOptions};
use windlass_kube::{Discovery, Readable, Reader, WriteOutcome, Writer};

use crate::cluster::{Cluster, cluster, config_maps, create};
use crate::script::{Asked, Reply, Script, call, key};

/// A writer that withholds writes, and its reports.
struct Withholding {
    writer: Writer,
    reported: Arc<Mutex<Vec<WithheldWrite>>>,
}

impl Withholding {
    fn new(writer: Writer) -> Self {
        let reported: Arc<Mutex<Vec<WithheldWrite>>> = Arc::default();
        let reports = reported.clone();
        let withheld = move |_: &CallContext, write: &WithheldWrite| {
            reports.lock().expect("no panic").push(write.clone());
            true
        };
        Self { writer: writer.read_only(true).withholding(Arc::new(withheld)), reported }
    }

    fn on(cluster: &Cluster) -> Self {
        Self::new(Writer::new(cluster.connection.client.clone(), cluster.discovery.clone()))
    }

    fn scripted(script: &Script) -> Self {
        Self::new(Writer::new(script.client(), Discovery::new(script.client())))
    }

    async fn write(&self, call: &Arc<CallContext>, operation: Operation) -> Result<Option<Value>, ApiError> {
        let written = self.writer.write(call.clone(), operation).await?;
        Ok(written.map(|text| serde_json::from_str(&text).expect("JSON")))
    }

    /// The last reported write, as `would verb resource: difference`.
    fn last(&self) -> String {
        let reported = self.reported.lock().expect("no panic");
        let write = reported.last().expect("reported");
        format!("{} {} {}: {}", write.effect.as_str(), write.verb, write.resource, write.difference)
    }
}

fn patch_of(target: ObjectRef, patch: &Value, subresource: Option<&str>) -> Operation {
    let subresource = subresource.map(|name| Subresource { name: name.into(), parent: None });
    let options = WriteOptions { subresource, ..WriteOptions::default() };
    Operation::Patch { target, patch_type: PatchType::Merge, patch: patch.to_string(), options }
}

fn delete_of(target: ObjectRef) -> Operation {
    let options = DeleteOptions {
        resource_version: None,
        propagation: Propagation::Background,
        grace_period_seconds: None,
        dry_run: false,
    };
    Operation::Delete { target, options }
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "shop"}},
        "data": {"value": value}})
}

fn apply_of(object: &Value) -> Operation {
    Operation::Apply { object: object.to_string(), options: WriteOptions::default() }
}

#[tokio::test]
async fn a_withheld_write_answers_as_if_made_and_only_reports_its_change() {
    let cluster = cluster().await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template":
            {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let mut deployments = cluster.informers.subscribe(cluster.all(ObjectKind::new("apps/v1", "Deployment")));
    cluster.write(create(&deployment)).await.expect("created");
    // The stand-in for the Deployment's controller writes the status. Between two reads, that would be a difference.
    let key = cluster.target("d", None).key;
    let is_ready = |text: String| serde_json::from_str::<Value>(&text).expect("JSON")["status"]["readyReplicas"] == 2;
    let ready = async {
        while !deployments.store().get(&key).is_some_and(|object| is_ready(object.text().to_string())) {
            deployments.next().await;
        }
    };
    timeout(Duration::from_secs(30), ready).await.expect("its status is written");
    let before = cluster.apply("a", "1").await;
    let withholding = Withholding::on(&cluster);
    let target = |name: &str| cluster.target(name, None);
    let of_deployment = || ObjectRef { kind: ObjectKind::new("apps/v1", "Deployment"), ..target("d") };
    let fresh = || Arc::new(cluster.call());
    let mut updated = before.clone();
    updated["data"]["value"] = "2".into();
    let update = Operation::Update { object: updated.to_string(), options: WriteOptions::default() };
    let changed = "change update configmaps: data.value: \"1\" → \"2\"";
    let patched = "change patch configmaps: data.value: \"1\" → \"2\"";
    let merge = patch_of(target("a"), &json!({"data": {"value": "2"}}), None);
    let status = json!({"status": {"replicas": 7}});
    for (operation, reported) in [
        (update, changed),
        (merge, patched),
        (apply_of(&config_map("a", "2")), patched),
        (apply_of(&config_map("b", "2")), "create patch configmaps: data.value: \"2\"; metadata.labels.app: \"shop\""),
        (create(&config_map("b", "2")), "create create configmaps: data.value: \"2\"; metadata.labels.app: \"shop\""),
        (delete_of(target("a")), "delete delete configmaps: "),
        (
            patch_of(of_deployment(), &json!({"spec": {"replicas": 5}}), Some("scale")),
            "change patch deployments.apps/scale: spec.replicas: 2 → 5",
        ),
        (patch_of(of_deployment(), &status, Some("status")), "change patch deployments.apps/status: status.replicas: "),
    ] {
        let what = format!("{operation:?}");
        withholding.write(&fresh(), operation).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        let line = withholding.last();
        let is_expected = if reported.ends_with(": ") { line.starts_with(reported) } else { line == reported };
        assert!(is_expected, "{what}: {line:?}, and not {reported:?}");
    }
    let again = withholding.write(&fresh(), apply_of(&config_map("a", "2"))).await.expect("tried").expect("an object");
    assert_eq!(again["data"]["value"], "2", "the plugin sees what it has asked for");
    assert_eq!(cluster.apply("a", "1").await["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(
        cluster.write(create(&config_map("b", "1"))).await.expect("there is none").expect("one")["data"]["value"],
        "1"
    );
    let counted = [WriteOutcome::Withheld, WriteOutcome::Committed].map(|outcome| withholding.writer.count(outcome));
    assert_eq!(counted, [9, 0]);
}

#[tokio::test]
async fn only_the_call_itself_reads_its_withheld_writes() {
    let cluster = cluster().await;
    cluster.apply("a", "1").await;
    cluster.apply("gone", "1").await;
    let spec = cluster.all(config_maps());
    let subscription = cluster.informers.subscribe(spec.clone());
    timeout(Duration::from_secs(30), subscription.when(|status| status.synced)).await.expect("synced");
    let reader = Reader::new(vec![Readable { spec, store: subscription.store().clone(), indexes: vec![] }]);
    let withholding = Withholding::on(&cluster);
    let (call, other) = (Arc::new(cluster.call()), Arc::new(cluster.call()));
    let value = |call: &CallContext, name: &str| {
        let text = reader.get(call, &cluster.target(name, None), None).expect("watched");
        text.map(|text| serde_json::from_str::<Value>(&text).expect("JSON")["data"]["value"].clone())
    };
    for name in ["a", "new"] {
        withholding.write(&call, apply_of(&config_map(name, "2"))).await.expect("tried");
    }
    withholding.write(&call, delete_of(cluster.target("gone", None))).await.expect("tried");
    assert_eq!(["a", "new", "gone"].map(|name| value(&call, name)), [Some("2".into()), Some("2".into()), None]);
    assert_eq!(["a", "new", "gone"].map(|name| value(&other, name)), [Some("1".into()), None, Some("1".into())]);
    withholding.write(&call, apply_of(&config_map("a", "3"))).await.expect("tried");
    assert_eq!(
        withholding.last(),
        "change patch configmaps: data.value: \"2\" → \"3\"",
        "from what the call has made of it"
    );
}

#[tokio::test]
async fn a_write_that_depends_on_a_withheld_write_is_refused_as_read_only() {
    let cluster = cluster().await;
    cluster.apply("a", "1").await;
    let withholding = Withholding::on(&cluster);
    let call = Arc::new(cluster.call());
    let patch = |name: &str| patch_of(cluster.target(name, None), &json!({"data": {"value": "3"}}), None);
    let error = withholding.write(&call, patch("b")).await.expect_err("it is not there");
    assert_eq!(error.reason, ApiReason::NotFound);
    withholding.write(&call, create(&config_map("b", "1"))).await.expect("tried");
    let error = withholding.write(&call, patch("b")).await.expect_err("only tried");
    assert!(error.reason == ApiReason::ReadOnly && error.message.contains("earlier write"), "{error}");
    assert!(error.object.is_some_and(|object| *object.key.name == *"b"));
    withholding.write(&call, delete_of(cluster.target("a", None))).await.expect("tried");
    let error = withholding.write(&call, create(&config_map("a", "2"))).await.expect_err("still there");
    assert!(error.reason == ApiReason::ReadOnly && error.message.contains("conflicts with"), "{error}");
    let error = withholding.write(&Arc::new(cluster.call()), create(&config_map("a", "2"))).await.expect_err("there");
    assert_eq!(error.reason, ApiReason::AlreadyExists, "of another call, it is the server's verdict");
}

#[tokio::test]
async fn the_values_of_secrets_are_not_reported() {
    let cluster = cluster().await;
    let withholding = Withholding::on(&cluster);
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    withholding.write(&Arc::new(cluster.call()), create(&secret)).await.expect("tried");
    assert_eq!(withholding.last(), "create create secrets: stringData.password: set");
}

fn status(code: u16, reason: &str, message: &str) -> Reply {
    let status = json!({"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code});
    Reply::Json(code, status)
}

/// A server that serves the core group itself.
fn own() -> Script {
    Script::default().comparable()
}

fn pod_patch() -> Operation {
    let target = ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: key("a"), uid: None };
    patch_of(target, &json!({"metadata": {"labels": {"app": "shop"}}}), None)
}

fn is_dry(asked: &Asked) -> bool {
    asked.parameter("dryRun") == Some("All") || asked.json()["dryRun"] == json!(["All"])
}

#[tokio::test(start_paused = true)]
async fn without_a_dry_run_the_refusal_names_the_object_and_the_change() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "prod", "uid": "u",
        "resourceVersion": "7", "labels": {"app": "old"}}});
    for reply in [
        status(
            403,
            "Forbidden",
            "pods \"a\" is forbidden: User \"u\" cannot patch resource \"pods\" in API group \"\"",
        ),
        status(400, "BadRequest", "admission webhook \"w.example.com\" does not support dry run"),
    ] {
        let script = own().lists([Reply::Json(200, pod.clone())]).mutations([reply]);
        let withholding = Withholding::scripted(&script);
        let error = withholding.write(&Arc::new(call()), pod_patch()).await.expect_err("not tried");
        assert_eq!((error.reason, error.code, error.verb), (ApiReason::ReadOnly, 403, "patch"));
        assert_eq!(error.object.as_ref().map(|object| object.key.to_string()).as_deref(), Some("prod/a"));
        assert!(error.message.contains("metadata.labels.app: \"old\" → \"shop\""), "{error}");
        assert_eq!(withholding.last(), "change patch pods: metadata.labels.app: \"old\" → \"shop\"");
        assert!(script.mutations_asked().iter().all(is_dry));
    }
    let quota = status(403, "Forbidden", "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1");
    let script = own().mutations([quota]);
    let error = Withholding::scripted(&script).write(&Arc::new(call()), pod_patch()).await.expect_err("refused");
    assert_eq!(error.reason, ApiReason::Forbidden, "the server's verdict on the write itself is the plugin's to know");
}

#[tokio::test(start_paused = true)]
async fn aggregated_apis_and_unstored_kinds_receive_no_dry_run() {
    let aggregated = Reply::Json(200, json!({"spec": {"service": {"name": "metrics"}}}));
    let script = Script::default()
        .answers("/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com", aggregated)
        .lists([status(404, "NotFound", "none")]);
    let withholding = Withholding::scripted(&script);
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}});
    let error = withholding.write(&Arc::new(call()), apply_of(&widget)).await.expect_err("not tried");
    assert!(error.reason == ApiReason::ReadOnly && error.message.contains("aggregated API server"), "{error}");
    assert_eq!(withholding.last(), "create patch widgets.example.com: spec.size: 1");
    let subresource_of = |kind: &str, name: &str| {
        let parent = ObjectRef { kind: ObjectKind::new("v1", kind), key: key("a"), uid: None };
        Some(Subresource { name: name.into(), parent: Some(parent) })
    };
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"name": "a"}});
    // A request to a proxy is forwarded to the Pod, even if it is a dry run.
    for (kind, name) in [("ServiceAccount", "token"), ("Pod", "proxy")] {
        let options = WriteOptions { subresource: subresource_of(kind, name), ..WriteOptions::default() };
        let operation = Operation::Create { object: request.to_string(), options };
        let error = withholding.write(&Arc::new(call()), operation).await.expect_err("not tried");
        assert_eq!(error.reason, ApiReason::ReadOnly, "{name}: {error}");
    }
    assert_eq!(script.mutations_asked().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn generated_names_are_reported_by_their_prefix() {
    let script = own().mutations([Reply::Json(
        201,
        json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a-12345", "namespace": "prod", "uid": "u"}}),
    )]);
    let withholding = Withholding::scripted(&script);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}});
    withholding.write(&Arc::new(call()), create(&pod)).await.expect("tried");
    let reported = withholding.reported.lock().expect("no panic");
    assert_eq!((&*reported[0].object.key.name, reported[0].effect), ("a-*", WithheldEffect::Create));
}

#[tokio::test]
async fn a_withheld_write_with_a_secret_shows_only_field_names() {
    let cluster = cluster().await;
    let withholding = Withholding::on(&cluster);
    let config = Confidential::holding("{}", [Confidential::from("hunter22")]);
    let call = Arc::new(CallContext { config, ..cluster.call() });
    withholding.write(&call, apply_of(&config_map("a", "x://me:hunter22@h"))).await.expect("as if");
    let reported = withholding.last();
    assert!(
        reported.contains("data.value") && !reported.contains("hunter") && !reported.contains("x://"),
        "{reported}"
    );
}
