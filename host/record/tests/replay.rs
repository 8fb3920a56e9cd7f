//! Records calls of the webapp plugin and the composer with in-memory ports, and replays the recordings.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::ready;
use serde_json::{Value, json};
use windlass_core::call::ports::{
    Absent, Answer, Ask, CallContext, ListPage, ListQuery, Ports, Reads, Written, port_fn,
};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::queue::outcome::CallResult;
use windlass_core::queue::trigger::{Trigger, TriggerReason, Triggers};
use windlass_core::rights::principal::Principal;
use windlass_core::write::Operation;
use windlass_record::{CallVerdict, Comparison, RecordOptions, RecordedCall, Recordings, compare, read, replay};
use windlass_wasm::{CallLimits, CompositionRequest, Plugin, Request, Sandbox, SandboxOptions};

/// A world with at most one object in its cache, and a server that accepts each write.
#[derive(Default)]
struct Small {
    cached: Option<Arc<str>>,
    written: Mutex<Vec<Operation>>,
}

impl Reads for Small {
    fn get(&self, _: &CallContext, _: &ObjectRef, _: Option<&[String]>) -> Result<Option<Arc<str>>, ApiError> {
        Ok(self.cached.clone())
    }

    fn list(&self, _: &CallContext, _: &ListQuery) -> Result<ListPage, ApiError> {
        Ok(ListPage { items: self.cached.iter().cloned().collect(), next_token: None })
    }
}

#[allow(clippy::unnecessary_wraps, reason = "it is what a port answers")]
fn echo(operation: &Operation) -> Written {
    match operation {
        Operation::Create { object, .. } | Operation::Update { object, .. } | Operation::Apply { object, .. } => {
            Ok(Some(object.as_str().into()))
        }
        Operation::Patch { patch, .. } => Ok(Some(patch.as_str().into())),
        Operation::Delete { .. } => Ok(None),
    }
}

impl Small {
    fn ports(self: &Arc<Self>) -> Ports {
        let small = self.clone();
        let outside = port_fn(move |_, ask| {
            let answer = match ask {
                Ask::Write(operation) => {
                    let answer = echo(&operation);
                    small.written.lock().expect("no panic").push(*operation);
                    Answer::Write(answer)
                }
                Ask::Batch(operations) => Answer::Batch(operations.iter().map(echo).collect()),
                other => other.refused(ApiReason::ServerError, "the test plugin does not use this port"),
            };
            ready(answer).boxed()
        });
        Ports { reads: self.clone(), outside, ..Absent::ports() }
    }
}

fn built(variable: &str, directory: &str, file: &str) -> PathBuf {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target").join(directory);
    let path = std::env::var_os(variable).map_or_else(default, PathBuf::from).join(file);
    assert!(path.exists(), "cannot read {}: run `make plugins`, or set {variable}", path.display());
    path
}

fn webapp() -> PathBuf {
    built("WINDLASS_PLUGIN_DIR", "plugins", "webapp.wasm")
}

fn sandbox() -> Sandbox {
    let options = SandboxOptions { threads: 2, concurrent_calls: 4, ..SandboxOptions::default() };
    Sandbox::new(options).expect("a sandbox")
}

fn options(directory: &Path, sample: f64) -> RecordOptions {
    RecordOptions { directory: directory.to_owned(), sample, limit: 1 << 20, redact: vec![] }
}

fn context(plugin: &Plugin) -> Arc<CallContext> {
    let controller = &plugin.manifest().controllers[0];
    let mut triggers = Triggers::default();
    triggers.note(&Arc::new(Trigger::from(TriggerReason::Changed)));
    Arc::new(CallContext {
        triggers,
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        ..CallContext::detached(
            Principal::of_plugin(plugin.name().clone(), plugin.short_digest(), "test"),
            controller.name.as_str(),
            ObjectKind::new(&*controller.primary.api_version, &*controller.primary.kind),
            ObjectKey::namespaced("prod", "shop"),
        )
    })
}

fn request(call: &CallContext, object: Option<&str>) -> Request {
    Request {
        controller: call.controller.clone(),
        key: call.primary_key.clone(),
        uid: Some("u-1".into()),
        object: object.map(Arc::from),
        deleting: false,
        attempt: 0,
        trace_id: call.trace_id.clone(),
    }
}

fn shop(image: &str) -> String {
    json!({
        "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp",
        "metadata": {"name": "shop", "namespace": "prod", "uid": "u-1", "resourceVersion": "7", "generation": 1},
        "spec": {"image": image, "replicas": 2, "port": 8080},
    })
    .to_string()
}

/// Makes a call of the webapp plugin, which is recorded if `recordings` samples it.
async fn call(plugin: &Arc<Plugin>, recordings: &Recordings, image: &str) -> Arc<Small> {
    let small = Arc::new(Small::default());
    let ports = small.ports();
    let context = context(plugin);
    let request = request(&context, Some(&shop(image)));
    let limits = CallLimits::default();
    let recording = recordings.of(plugin).reconcile(&request, &context, &limits);
    let ports = recording.as_ref().map_or_else(|| ports.clone(), |recording| recording.ports(&ports));
    let called = plugin.reconcile(request, &ports, context, limits).await;
    assert_eq!(called.result, CallResult::Done);
    if let Some(recording) = recording {
        recording.reconciled(&called);
    }
    small
}

async fn load() -> Arc<Plugin> {
    sandbox().load(&webapp()).await.expect("it loads")
}

fn calls(directory: &Path) -> Vec<RecordedCall> {
    read(directory).expect("it is read").into_iter().flat_map(|recording| recording.calls).collect()
}

/// One recorded call of the webapp plugin.
async fn recorded(plugin: &Arc<Plugin>) -> RecordedCall {
    let directory = tempfile::tempdir().expect("a directory");
    let recordings = Recordings::start(options(directory.path(), 1.0), "0.0.0").expect("a thread");
    call(plugin, &recordings, "nginx:1").await;
    recordings.end().await;
    calls(directory.path()).pop().expect("one call")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_the_same_plugin_does_the_same() {
    let plugin = load().await;
    let directory = tempfile::tempdir().expect("a directory");
    let recordings = Recordings::start(options(directory.path(), 1.0), "0.0.0").expect("a thread");
    let real = call(&plugin, &recordings, "nginx:1").await;
    call(&plugin, &recordings, "nginx:2").await;
    recordings.end().await;
    let calls = calls(directory.path());
    assert_eq!(calls.len(), 2);
    assert_eq!(recordings.counts()[0].1.recorded(), 2);
    let writes = calls[0].imports.iter().filter(|it| it.import.starts_with("writes.")).count();
    assert_eq!(writes, real.written.lock().expect("no panic").len());
    assert_eq!(calls[0].request.triggers[0].reason, "Changed");
    assert!(!calls[0].surroundings.now.is_empty(), "the status has a time");
    for call in &calls {
        for _ in 0..2 {
            let replayed = replay(&plugin, call, &[]).await.expect("it is replayed");
            assert_eq!(compare(call, &replayed, Comparison::EachImport), CallVerdict::Same, "{replayed:#?}");
            assert_eq!(compare(call, &replayed, Comparison::Writes), CallVerdict::Same);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_conforms_to_the_published_schema() {
    let plugin = load().await;
    let directory = tempfile::tempdir().expect("a directory");
    let recordings = Recordings::start(options(directory.path(), 1.0), "0.0.0").expect("a thread");
    call(&plugin, &recordings, "nginx:1").await;
    recordings.end().await;
    let schema: Value = serde_json::from_str(include_str!("../../../docs/schema/recording.schema.json")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let recording = read(directory.path()).expect("it is read").pop().expect("one file");
    let header = serde_json::to_value(&recording.header).expect("JSON");
    let calls = recording.calls.iter().map(|call| serde_json::to_value(call).expect("JSON"));
    for line in calls.chain([header]) {
        let wrong: Vec<_> = validator.iter_errors(&line).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
    assert!(!validator.is_valid(&json!({"format": "windlass.dev/recording/v2"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_divergence_is_reported_at_its_first_import() {
    let plugin = load().await;
    let mut call = recorded(&plugin).await;
    let place = call.imports.iter().position(|it| it.import == "writes.apply").expect("it applies");
    let object = call.imports[place].args["object"].as_str().expect("a text").replace("nginx:1", "nginx:0");
    call.imports[place].args["object"] = object.into();
    let replayed = replay(&plugin, &call, &[]).await.expect("it is replayed");
    let CallVerdict::Diverged { import, recorded, replayed } = compare(&call, &replayed, Comparison::EachImport) else {
        panic!("it diverges")
    };
    assert_eq!(import, Some(place + 1));
    let says = |import: Option<Value>, image: &str| import.is_some_and(|it| it.to_string().contains(image));
    assert!(says(recorded, "nginx:0") && says(replayed, "nginx:1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_writes_are_reported_and_an_unknown_import_ends_the_replay() {
    let plugin = load().await;
    let call = recorded(&plugin).await;
    let mut other = call.clone();
    other.request.object = Some(shop("nginx:9"));
    let replayed = replay(&plugin, &other, &[]).await.expect("it is replayed");
    let CallVerdict::Differs { writes, .. } = compare(&call, &replayed, Comparison::Writes) else {
        panic!("it differs")
    };
    let fields: Vec<_> = writes.iter().flat_map(|it| &it.fields).collect();
    assert!(
        writes[0].object.contains("Deployment prod/shop") && fields[0].contains("\"nginx:1\" → \"nginx:9\""),
        "{writes:?}"
    );

    let mut unknown = call.clone();
    unknown.imports.retain(|it| it.import != "cache.get");
    let replayed = replay(&plugin, &unknown, &[]).await.expect("it is replayed");
    let verdict = compare(&unknown, &replayed, Comparison::Writes);
    assert!(matches!(&verdict, CallVerdict::NotRecorded { asks, .. } if asks.import == "cache.get"), "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_sampled_at_the_configured_rate() {
    let plugin = load().await;
    for (sample, least, most) in [(0.0, 0, 0), (0.5, 1, 29), (1.0, 30, 30)] {
        let directory = tempfile::tempdir().expect("a directory");
        let recordings = Recordings::start(options(directory.path(), sample), "0.0.0").expect("a thread");
        let recorder = recordings.of(&plugin);
        let context = context(&plugin);
        let _simulated = windlass_world::simulate(7, || Duration::from_secs(1_790_000_000));
        let chosen = (0..30).filter(|_| {
            let request = request(&context, None);
            recorder.reconcile(&request, &context, &CallLimits::default()).is_some()
        });
        let chosen = chosen.count();
        assert!((least..=most).contains(&chosen), "{chosen} of 30 at {sample}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_error_ends_the_recording_but_not_the_calls() {
    let plugin = load().await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "in the way").expect("written");
    let recordings = Recordings::start(options(&file, 1.0), "0.0.0").expect("a thread");
    call(&plugin, &recordings, "nginx:1").await;
    let stopped = async {
        while !recordings.counts()[0].1.is_stopped() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), stopped).await.expect("the writer reports its error");
    call(&plugin, &recordings, "nginx:1").await;
    recordings.end().await;
    assert_eq!(recordings.counts()[0].1.recorded(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_composers_call_is_replayed_and_compared() {
    let path = built("WINDLASS_PLUGIN_DIR", "plugins", "composite/webapp-composite.wasm");
    let plugin = sandbox().load(&path).await.expect("it loads");
    let directory = tempfile::tempdir().expect("a directory");
    let recordings = Recordings::start(options(directory.path(), 1.0), "0.0.0").expect("a thread");
    let context = context(&plugin);
    let asked = CompositionRequest {
        request: request(&context, None),
        parent: shop("nginx:1").into(),
        children: vec![],
        related: vec![],
        config: "{}".into(),
    };
    let recording = recordings.of(&plugin).compose(&asked, &context).expect("each is recorded");
    let composed = plugin.compose(asked, context, CallLimits::default()).await;
    assert!(composed.answer.is_ok(), "{composed:?}");
    recording.composed(&composed);
    recordings.end().await;
    let mut call = calls(directory.path()).pop().expect("one call");
    let replayed = replay(&plugin, &call, &[]).await.expect("it is replayed");
    assert!(replayed.result.as_ref().is_some_and(|it| it["composed"]["children"].is_array()), "{replayed:?}");
    call.request.object = Some(shop("nginx:2"));
    let other = replay(&plugin, &call, &[]).await.expect("it is replayed");
    let CallVerdict::Differs { writes, .. } = compare(&call, &other, Comparison::Writes) else { panic!("it differs") };
    assert!(writes.iter().any(|it| it.object.contains("Deployment prod/shop")), "{writes:?}");
    call.export = "reconcile".to_owned();
    assert!(replay(&plugin, &call, &[]).await.is_err(), "it has no such export");
}
