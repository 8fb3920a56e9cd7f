//! The same parts together, over real connections: to the embedded API server, or to the one of the kubeconfig in
//! `WINDLASS_TEST_KUBECONFIG`. Each test has a namespace of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_apiserver::{ApiServer, Config};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::ports::{CallContext, Event, EventType, Events as _, Writes as _};
use windlass_core::watch::{WatchEvent, WatchSpec};
use windlass_core::write::{DeleteOptions, Operation, PatchType, Propagation, WriteOptions};
use windlass_kube::{ConnectOptions, Connection, Discovery, Informers, Recorder, Subscription, Writer, client};

use crate::script::call;
use crate::writer::kubeconfig;

pub(crate) struct Cluster {
    /// None: the server is another process.
    pub(crate) server: Option<ApiServer>,
    pub(crate) connection: Connection,
    pub(crate) discovery: Discovery,
    pub(crate) writer: Writer,
    pub(crate) informers: Informers,
    pub(crate) namespace: Arc<str>,
}

pub(crate) async fn cluster() -> Cluster {
    let real = std::env::var_os("WINDLASS_TEST_KUBECONFIG").map(PathBuf::from);
    let server = if real.is_some() { None } else { Some(ApiServer::start(Config::default()).await.expect("a server")) };
    let (_directory, embedded) = kubeconfig(&server.as_ref().map(ApiServer::url).unwrap_or_default());
    let options = ConnectOptions { kubeconfig: real.or(embedded.kubeconfig), ..ConnectOptions::default() };
    let connection = client::connect(&options).await.expect("a client");
    let discovery = Discovery::new(connection.client.clone());
    let writer = Writer::new(connection.client.clone(), discovery.clone());
    let informers = Informers::new(connection.client.clone(), discovery.clone());
    let mut cluster = Cluster { server, connection, discovery, writer, informers, namespace: "".into() };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "windlass-kube-"}});
    let created = cluster.write(create(&namespace)).await.expect("created").expect("an object");
    cluster.namespace = created["metadata"]["name"].as_str().expect("a name").into();
    cluster
}

pub(crate) fn create(object: &Value) -> Operation {
    Operation::Create { object: object.to_string(), options: WriteOptions::default() }
}

impl Cluster {
    /// A call about a primary in the test's namespace.
    pub(crate) fn call(&self) -> CallContext {
        CallContext { primary_key: ObjectKey::namespaced(Arc::clone(&self.namespace), "shop"), ..call() }
    }

    pub(crate) async fn write(&self, operation: Operation) -> Result<Option<Value>, ApiError> {
        let written = self.writer.write(Arc::new(self.call()), operation).await?;
        Ok(written.map(|text| serde_json::from_str(&text).expect("JSON")))
    }

    pub(crate) fn target(&self, name: &str, uid: Option<&str>) -> ObjectRef {
        let key = ObjectKey::namespaced(Arc::clone(&self.namespace), name);
        ObjectRef { kind: config_maps(), key, uid: uid.map(Into::into) }
    }

    async fn apply(&self, name: &str, value: &str) -> Value {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "shop"}},
            "data": {"value": value},
        });
        let operation = Operation::Apply { object: object.to_string(), options: WriteOptions::default() };
        self.write(operation).await.expect("applied").expect("an object")
    }

    async fn delete(&self, name: &str) {
        let options = DeleteOptions {
            resource_version: None,
            propagation: Propagation::Background,
            grace_period_seconds: None,
            dry_run: false,
        };
        self.write(Operation::Delete { target: self.target(name, None), options }).await.expect("deleted");
    }

    fn subscribe(&self) -> Subscription {
        self.informers.subscribe(WatchSpec { label_selector: Some("app=shop".into()), ..self.all(config_maps()) })
    }

    pub(crate) fn all(&self, kind: ObjectKind) -> WatchSpec {
        WatchSpec { namespace: Some(Arc::clone(&self.namespace)), ..WatchSpec::all(kind) }
    }
}

pub(crate) fn config_maps() -> ObjectKind {
    ObjectKind::new("v1", "ConfigMap")
}

async fn next(subscription: &mut Subscription) -> WatchEvent {
    let event = timeout(Duration::from_secs(30), subscription.next()).await;
    event.unwrap_or_else(|_| panic!("no event: {:?}", subscription.status())).expect("running")
}

#[tokio::test]
async fn the_server_tells_its_version() {
    let cluster = cluster().await;
    let version = client::check(&cluster.connection).await.expect("a version");
    assert!(version.git_version.starts_with('v'), "{version:?}");
}

#[tokio::test]
async fn writes_come_back_through_the_watch() {
    let cluster = cluster().await;
    let written = cluster.apply("a", "1").await;
    assert_eq!(written["metadata"]["namespace"], *cluster.namespace);
    assert!(written["metadata"].get("managedFields").is_none());
    let mut subscription = cluster.subscribe();
    let WatchEvent::Applied { new, initial: true, .. } = next(&mut subscription).await else { panic!("no snapshot") };
    assert_eq!(serde_json::from_str::<Value>(&new.text()).expect("JSON"), written, "as the write returned it");
    let changed = cluster.apply("a", "2").await;
    let WatchEvent::Applied { old: Some(_), new, initial: false } = next(&mut subscription).await else {
        panic!("no update")
    };
    assert_eq!(new.header.version, changed["metadata"]["resourceVersion"].as_str().expect("a version").into());
    cluster.delete("a").await;
    assert!(matches!(next(&mut subscription).await, WatchEvent::Deleted(tombstone) if !tombstone.final_state_unknown));
    assert!(subscription.store().is_empty());
}

#[tokio::test]
async fn nothing_is_missed_when_the_history_is_compacted() {
    let cluster = cluster().await;
    cluster.apply("kept", "1").await;
    let mut subscription = cluster.subscribe();
    next(&mut subscription).await;
    if let Some(server) = &cluster.server {
        server.compact();
    }
    cluster.apply("new", "1").await;
    let WatchEvent::Applied { new, .. } = next(&mut subscription).await else { panic!("not the new one") };
    assert_eq!(&*new.header.key.name, "new");
    assert_eq!(subscription.store().len(), 2);
}

#[tokio::test]
async fn another_incarnation_is_a_conflict_for_every_patch() {
    let cluster = cluster().await;
    cluster.apply("a", "1").await;
    for (patch_type, patch) in [
        (PatchType::Merge, r#"{"data":{"value":"2"}}"#),
        (PatchType::Strategic, r#"{"data":{"value":"2"}}"#),
        (PatchType::Json, r#"[{"op":"replace","path":"/data/value","value":"2"}]"#),
    ] {
        let patch = |uid: Option<&str>, resource_version: Option<&str>| Operation::Patch {
            target: cluster.target("a", uid),
            patch_type,
            patch: patch.to_owned(),
            options: WriteOptions { resource_version: resource_version.map(Into::into), ..WriteOptions::default() },
        };
        let error = cluster.write(patch(Some("other"), None)).await.expect_err("another uid");
        assert_eq!(error.reason, ApiReason::Conflict, "{patch_type:?}: {error}");
        let error = cluster.write(patch(None, Some("1"))).await.expect_err("another version");
        assert_eq!(error.reason, ApiReason::Conflict, "{patch_type:?}: {error}");
        cluster.write(patch(None, None)).await.expect("no lock");
    }
}

#[tokio::test]
async fn unknown_fields_are_refused_and_names_collide() {
    let cluster = cluster().await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    cluster.write(create(&object)).await.expect("created");
    let error = cluster.write(create(&object)).await.expect_err("the name is taken");
    assert_eq!((error.reason, error.code), (ApiReason::AlreadyExists, 409));
    let generated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "b-"}});
    let created = cluster.write(create(&generated)).await.expect("created").expect("an object");
    assert!(created["metadata"]["name"].as_str().expect("a name").starts_with("b-"));
    if cluster.server.is_some() {
        // It has no schemas of the built-in kinds.
        return;
    }
    let unknown = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "date": {}});
    let error = cluster.write(create(&unknown)).await.expect_err("a misspelt field");
    assert!(error.code == 400 && error.message.contains("date"), "{error}");
}

#[tokio::test]
async fn events_are_recorded_with_their_series() {
    let cluster = cluster().await;
    let recorder = Recorder::new(cluster.connection.client.clone());
    let event = Event {
        regarding: Some(cluster.target("a", Some("u"))),
        related: None,
        event_type: EventType::Warning,
        reason: "Failed".into(),
        action: "Apply".into(),
        note: "no".into(),
    };
    for _ in 0..3 {
        recorder.emit(&cluster.call(), event.clone());
    }
    // About an object in a namespace that is not this call's primary's: dropped.
    recorder.emit(&call(), event);
    assert!(recorder.flush(Duration::from_secs(30)).await);
    let mut events = cluster.informers.subscribe(cluster.all(ObjectKind::new("events.k8s.io/v1", "Event")));
    let WatchEvent::Applied { new, .. } = next(&mut events).await else { panic!("no event") };
    let event: Value = serde_json::from_str(&new.text()).expect("JSON");
    assert_eq!((&event["reason"], &event["series"]["count"]), (&json!("Failed"), &json!(3)));
    assert_eq!(events.store().len(), 1);
}
