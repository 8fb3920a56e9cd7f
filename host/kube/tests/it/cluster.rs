//! Tests the parts of this crate together, over real connections: to the embedded API server, or to the one in the
//! kubeconfig `WINDLASS_TEST_KUBECONFIG`. Each test has its own namespace.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_apiserver::{ApiServer, Config};
use windlass_core::cache::watch::{WatchEvent, WatchSpec};
use windlass_core::call::ports::{CallContext, Event, EventType, Events as _};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::write::{DeleteOptions, Operation, PatchType, Propagation, WriteOptions};
use windlass_kube::{ConnectOptions, Connection, Discovery, Informers, Recorder, Subscription, Writer, client};

use crate::script::call;
use crate::writer::kubeconfig;

pub(crate) struct Cluster {
    /// `None` if the server is another process.
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
    let discovery = Discovery::new(connection.client.clone()).compare_versions(true);
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

    pub(crate) async fn apply(&self, name: &str, value: &str) -> Value {
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
        self.informers.subscribe(WatchSpec {
            label_selector: Some("app=shop".parse().expect("a selector")),
            ..self.all(config_maps())
        })
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
async fn the_version_of_the_server_is_known() {
    let cluster = cluster().await;
    let version = client::check(&cluster.connection).await.expect("a version");
    assert!(version.git_version.starts_with('v'), "{version:?}");
}

#[tokio::test]
async fn versions_compare_on_a_recent_server() {
    let cluster = cluster().await;
    let kinds = [config_maps(), ObjectKind::new("apps/v1", "Deployment"), ObjectKind::new("events.k8s.io/v1", "Event")];
    for kind in kinds {
        assert!(cluster.discovery.resolve(&kind).await.expect("served").comparable, "{kind}");
    }
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
        // The server has no schemas of the built-in kinds.
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
    // The Event is about an object outside of the namespace of this call's primary, so it is dropped.
    recorder.emit(&call(), event);
    assert!(recorder.flush(Duration::from_secs(30)).await);
    let mut events = cluster.informers.subscribe(cluster.all(ObjectKind::new("events.k8s.io/v1", "Event")));
    let WatchEvent::Applied { new, .. } = next(&mut events).await else { panic!("no event") };
    let event: Value = serde_json::from_str(&new.text()).expect("JSON");
    assert_eq!((&event["reason"], &event["series"]["count"]), (&json!("Failed"), &json!(3)));
    assert_eq!(events.store().len(), 1);
}

#[tokio::test]
async fn a_delete_distinguishes_a_missing_object_from_another_incarnation() {
    let cluster = cluster().await;
    cluster.apply("a", "1").await;
    let options = || DeleteOptions {
        resource_version: None,
        propagation: Propagation::Background,
        grace_period_seconds: None,
        dry_run: false,
    };
    let delete =
        |name: &str, uid: Option<&str>| Operation::Delete { target: cluster.target(name, uid), options: options() };
    let error = cluster.write(delete("a", Some("other"))).await.expect_err("another incarnation");
    assert_eq!(error.reason, ApiReason::Conflict, "{error}");
    let error = cluster.write(delete("missing", None)).await.expect_err("nothing to delete");
    assert_eq!((error.reason, error.code), (ApiReason::NotFound, 404));
    assert_eq!(cluster.write(delete("a", None)).await, Ok(None));
}

#[tokio::test]
async fn nothing_is_created_in_a_namespace_that_terminates() {
    let cluster = cluster().await;
    let kept = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "finalizers": ["windlass.dev/test"]},
    });
    cluster.write(create(&kept)).await.expect("created");
    let options = DeleteOptions {
        resource_version: None,
        propagation: Propagation::Background,
        grace_period_seconds: None,
        dry_run: false,
    };
    let namespace = ObjectRef {
        kind: ObjectKind::new("v1", "Namespace"),
        key: ObjectKey::cluster(Arc::clone(&cluster.namespace)),
        uid: None,
    };
    let left = cluster.write(Operation::Delete { target: namespace, options }).await.expect("deleted");
    assert!(left.is_some(), "it waits for what is in it");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}});
    let error = cluster.write(create(&object)).await.expect_err("too late");
    assert_eq!(error.reason, ApiReason::NamespaceTerminating, "{error}");
    let patch = Operation::Patch {
        target: cluster.target("kept", None),
        patch_type: PatchType::Merge,
        patch: json!({"metadata": {"finalizers": null}}).to_string(),
        options: WriteOptions::default(),
    };
    let call = Arc::new(cluster.call());
    cluster.writer.write(call.clone(), patch).await.expect("patched");
    let known = call.overlay.get(&config_maps(), &cluster.target("kept", None).key);
    // The namespace's controller may not have deleted the object yet.
    assert!(known.and_then(|known| known.left).is_some());
}

mod skipping {
    //! Compares skipped writes with what the server would have made of them.

    use futures::FutureExt as _;
    use rand::rngs::SmallRng;
    use rand::{RngExt as _, SeedableRng as _};
    use windlass_core::call::read_tracker::{ReadTracker, Spoiler};
    use windlass_core::object::Object;
    use windlass_kube::{Followed, Readable, WriteOutcome};

    use super::*;

    /// Random choices, and the last apply.
    struct Random(SmallRng, Option<Value>);

    impl Random {
        fn one_of<'a>(&mut self, values: &[&'a str]) -> &'a str {
            values[self.0.random_range(0..values.len())]
        }

        /// A few fields with a few values each, so that writes often repeat the current state.
        fn service(&mut self) -> Value {
            let mut labels = json!({"app": self.one_of(&["x", "y"])});
            if self.0.random_bool(0.3) {
                labels["tier"] = json!("gold");
            }
            let mut ports = vec![json!({"name": "web", "port": 80})];
            if self.0.random_bool(0.5) {
                ports.insert(self.0.random_range(0..2), json!({"name": "metrics", "port": 81, "protocol": "TCP"}));
            }
            let mut spec = json!({"ports": ports});
            match self.0.random_range(0..5) {
                0 => {}
                1 => spec["selector"] = json!({}),
                _ => spec["selector"] = json!({"app": self.one_of(&["x", "x", "y"])}),
            }
            let mut metadata = json!({"name": "s", "labels": labels});
            if self.0.random_bool(0.5) {
                metadata["annotations"] = json!({"note": self.one_of(&["1", "2"])});
            }
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        }

        fn operation(&mut self, target: ObjectRef, cached: Option<&Object>) -> Operation {
            let options = WriteOptions { force: true, ..WriteOptions::default() };
            let service = self.service();
            match (self.0.random_range(0..4), cached) {
                (0, Some(_)) => {
                    let patch = json!({"metadata": {"labels": service["metadata"]["labels"]}}).to_string();
                    Operation::Patch { target, patch_type: PatchType::Merge, patch, options: WriteOptions::default() }
                }
                (1, Some(cached)) => {
                    let mut object: Value = serde_json::from_str(&cached.text()).expect("JSON");
                    if self.0.random_bool(0.5) {
                        object["metadata"]["labels"] = service["metadata"]["labels"].clone();
                    }
                    Operation::Update { object: object.to_string(), options: WriteOptions::default() }
                }
                _ => {
                    let again = self.1.take().filter(|_| self.0.random_bool(0.6));
                    let object = self.1.insert(again.unwrap_or(service)).to_string();
                    Operation::Apply { object, options }
                }
            }
        }
    }

    fn version(text: &str) -> String {
        let object: Value = serde_json::from_str(text).expect("JSON");
        object["metadata"]["resourceVersion"].as_str().expect("a version").to_owned()
    }

    #[tokio::test]
    async fn a_skipped_write_would_have_changed_nothing() {
        let cluster = cluster().await;
        let spec = cluster.all(ObjectKind::new("v1", "Service"));
        let subscription = cluster.informers.subscribe(spec.clone());
        subscription.when(|status| status.synced).await;
        let readable = Readable { spec, store: subscription.store().clone(), indexes: vec![] };
        let runs = |_: &Object, _: &ObjectKey| true;
        let skipping = cluster.writer.of_controller(vec![Followed {
            readable: readable.clone(),
            runs: Some(Arc::new(runs)),
            maps_by_object: true,
        }]);
        let mut random = Random(SmallRng::seed_from_u64(5), None);
        let target = ObjectRef { kind: ObjectKind::new("v1", "Service"), ..cluster.target("s", None) };
        let mut skipped = [0; 3];
        for _ in 0..300 {
            let cached = readable.store.get(&target.key);
            let operation = random.operation(target.clone(), cached.as_ref());
            let how = match &operation {
                Operation::Apply { .. } => 0,
                Operation::Update { .. } => 1,
                _ => 2,
            };
            let before = cluster.writer.count(WriteOutcome::Skipped);
            let written = skipping.write(Arc::new(cluster.call()), operation.clone()).await;
            let written = written.expect("carried out").expect("an object");
            if cluster.writer.count(WriteOutcome::Skipped) > before {
                skipped[how] += 1;
                let sent = cluster.writer.write(Arc::new(cluster.call()), operation.clone()).await;
                let sent = sent.expect("carried out").expect("an object");
                assert_eq!(version(&written), version(&sent), "{operation:?} was skipped at {cached:?}");
            }
            let wanted = version(&written);
            let caught_up =
                || readable.store.get(&target.key).is_some_and(|it| it.header.version.to_string() == wanted);
            timeout(Duration::from_secs(30), async {
                while !caught_up() {
                    tokio::task::yield_now().await;
                }
            })
            .await
            .expect("the watch shows it");
        }
        println!("skipped of applies, updates and patches: {skipped:?}");
        assert!(skipped.iter().all(|count| *count > 5), "{skipped:?}");
    }

    #[tokio::test]
    async fn a_write_to_an_object_outside_all_watches_is_always_sent() {
        let cluster = cluster().await;
        let spec = cluster.all(config_maps());
        let subscription = cluster.informers.subscribe(spec.clone());
        subscription.when(|status| status.synced).await;
        let store = subscription.store().clone();
        let readable = Readable { spec, store: store.clone(), indexes: vec![] };
        let runs = |object: &Object, _: &ObjectKey| &*object.header.key.name == "a";
        let followed = Followed { readable, runs: Some(Arc::new(runs)), maps_by_object: true };
        let skipping = cluster.writer.of_controller(vec![followed.clone()]);
        let patch = |name: &str, value: &str, dry_run: bool| Operation::Patch {
            target: cluster.target(name, None),
            patch_type: PatchType::Merge,
            patch: json!({"data": {"value": value}}).to_string(),
            options: WriteOptions { dry_run, ..WriteOptions::default() },
        };
        for name in ["a", "b"] {
            cluster.apply(name, "1").await;
        }
        timeout(Duration::from_secs(30), subscription.when(|status| status.synced)).await.expect("synced");
        while store.len() < 2 {
            tokio::task::yield_now().await;
        }
        let skips = async |call: &Arc<CallContext>, operation: Operation| {
            let before = cluster.writer.count(WriteOutcome::Skipped);
            skipping.write(call.clone(), operation).await.expect("carried out");
            cluster.writer.count(WriteOutcome::Skipped) > before
        };
        let call = || Arc::new(cluster.call());
        assert!(skips(&call(), patch("a", "1", false)).await);
        let at_once = skipping.write(call(), patch("a", "1", false)).now_or_never();
        assert!(at_once.is_some_and(|written| written.is_ok()), "it waits for nothing and wakes nobody");
        let many = (0..40).map(|_| patch("a", "1", false)).collect();
        let mut batch = std::pin::pin!(tokio::task::unconstrained(skipping.batch(call(), many)));
        // No other task can run in between, because this is the only thread.
        let written = (0..1_000).find_map(|_| batch.as_mut().now_or_never());
        let written = written.expect("all of a batch is done in the call's own task");
        assert!(written.len() == 40 && written.iter().all(Result::is_ok), "{written:?}");
        for (value, spoiled) in [("1", None), ("3", Some(Spoiler::Write))] {
            let call = Arc::new(CallContext { reads: ReadTracker::begin(), ..cluster.call() });
            skipping.write(call.clone(), patch("a", value, false)).await.expect("carried out");
            assert_eq!(call.reads.end().expect("it is on").spoiled, spoiled, "only a skipped write leaves no trace");
        }
        assert!(!skips(&call(), patch("a", "1", true)).await, "the server is to check it");
        assert!(!skips(&call(), patch("b", "1", false)).await, "no event of it runs the key");
        let doubting = call();
        doubting.overlay.doubt(&config_maps(), cluster.target("a", None).key);
        assert!(!skips(&doubting, patch("a", "1", false)).await, "a write may be under way");
        let writing = call();
        assert!(!skips(&writing, patch("a", "2", false)).await);
        assert!(!skips(&writing, patch("a", "1", false)).await, "this call has changed it, whatever the cache shows");
        assert!(skips(&writing, patch("a", "1", false)).await, "and now it is as it was");
        let before = cluster.writer.count(WriteOutcome::Skipped);
        let sent = skipping.always_sending([config_maps()]).write(writing, patch("a", "1", false)).await;
        sent.expect("carried out");
        assert_eq!(cluster.writer.count(WriteOutcome::Skipped), before, "a webhook is to see each write");
    }
}
