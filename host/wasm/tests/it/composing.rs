//! Calls of a composer: its input, its results, and that equal requests have equal results.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use support::guests::{chameleon, composer};
use support::ports::{FakePorts, quiet};
use support::{call_of, load, sandbox, trapped};
use windlass_core::cache::mapping::Target;
use windlass_core::call::compose::Composition;
use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::{CallResult, Failure, Requeue};
use windlass_manifest::EntryPoint;
use windlass_wasm::{CallLimits, ChangeBatch, CompositionRequest, Limits, ObjectChange, Plugin, Request};

fn request(plugin: &Plugin, uid: &str, spec: &Value) -> CompositionRequest {
    let parent = json!({
        "apiVersion": "tests.windlass.dev/v1", "kind": "Composite",
        "metadata": {"name": "shop", "namespace": "prod", "uid": uid, "generation": 1}, "spec": spec,
    });
    CompositionRequest {
        request: Request {
            controller: plugin.manifest().controllers[0].name.as_str().into(),
            key: ObjectKey::namespaced("prod", "shop"),
            uid: Some(uid.into()),
            object: None,
            deleting: false,
            attempt: 0,
            trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        },
        parent: parent.to_string().into(),
        children: vec![r#"{"kind":"ConfigMap","metadata":{"name":"child"}}"#.into()],
        related: vec![r#"{"kind":"Secret","metadata":{"name":"friend"},"data":{"a":"b"}}"#.into()],
        config: "{}".into(),
    }
}

async fn compose(plugin: &Arc<Plugin>, request: CompositionRequest) -> Result<Composition, CallResult> {
    let call = call_of(plugin, &request.request.key.clone());
    plugin.compose(request, call, CallLimits::default()).await.answer
}

async fn answer(plugin: &Arc<Plugin>, uid: &str, spec: Value) -> Result<Composition, CallResult> {
    compose(plugin, request(plugin, uid, &spec)).await
}

async fn guest(limits: Limits) -> Arc<Plugin> {
    load(&sandbox(limits), "composer", &composer()).await.expect("it loads")
}

#[tokio::test]
async fn requests_and_compositions_of_a_composer_arrive_whole() {
    let plugin = guest(Limits::default()).await;
    assert_eq!(plugin.entry(), EntryPoint::Composer);
    let events = json!([{"type": "Warning", "reason": "Composed", "note": "x"}, {"reason": ""}]);
    let spec = json!({"copy": true, "status": {"n": 1}, "requeueAfterMs": 5, "allowEmpty": true, "events": events});
    let composition = answer(&plugin, "u-1", spec).await.expect("it composes");
    let copied: Value = serde_json::from_str(&composition.children[0]).expect("JSON");
    assert_eq!(copied["data"], json!({"children": "child", "related": r#""Secret" friend {"a":"b"}"#}));
    assert_eq!(composition.status.as_deref(), Some(r#"{"n":1}"#));
    let after = Some(Requeue::After(Duration::from_millis(5)));
    assert_eq!((composition.requeue, composition.allow_empty), (after, true));
    let reasons: Vec<_> = composition.events.iter().map(|event| &*event.reason).collect();
    assert_eq!(reasons, ["Composed"], "an event without a reason is none");
}

#[tokio::test]
async fn a_composers_randomness_depends_on_the_parent_alone() {
    let plugin = guest(Limits::default()).await;
    let draw = async |uid: &str, attempt: u32| {
        let mut request = request(&plugin, uid, &json!({"draw": true}));
        request.request.attempt = attempt;
        let composition = compose(&plugin, request).await.expect("it composes");
        serde_json::from_str::<Value>(&composition.children[0]).expect("JSON")
    };
    let first = draw("u-1", 0).await;
    assert_eq!(first["data"]["clock"], "stands still");
    assert_eq!(first, draw("u-1", 7).await);
    assert_ne!(first["data"]["random"], draw("u-2", 0).await["data"]["random"]);
}

#[tokio::test]
async fn a_composition_counts_as_memory_while_it_is_in_use() {
    let sandbox = sandbox(Limits::default());
    let plugin = load(&sandbox, "composer", &composer()).await.expect("it loads");
    let request = request(&plugin, "u-1", &json!({"children": ["x".repeat(1 << 20)]}));
    let call = call_of(&plugin, &request.request.key.clone());
    let composed = plugin.compose(request, call, CallLimits::default()).await;
    let answer = composed.answer.as_ref().expect("it composes");
    let length: usize = answer.children.iter().map(String::len).sum();
    assert_eq!(length, 1 << 20);
    assert!(composed.left > std::time::Duration::ZERO, "there is time to carry it out");
    assert!(sandbox.stats().reserved_memory >= 5 * length, "{}", sandbox.stats().reserved_memory);
    drop(composed);
    assert_eq!(sandbox.stats().reserved_memory, 0);
}

#[tokio::test]
async fn failures_of_a_composer_reach_the_host_unchanged() {
    // Enough time to use up all memory, even on a busy machine.
    let limits = Limits {
        memory_bytes: 32 << 20,
        deadline: Duration::from_secs(2),
        cpu: Duration::from_mins(1),
        ..Limits::default()
    };
    let plugin = guest(limits).await;
    let misbehave = async |how: &str| answer(&plugin, "u-1", json!({"misbehave": how})).await.expect_err("a failure");
    assert_eq!(misbehave("silent").await, CallResult::Failed(vec![]));
    let terminal = misbehave("terminal").await;
    assert!(matches!(&terminal, CallResult::Failed(all) if matches!(&all[..], [Failure::Terminal(_)])), "{terminal:?}");
    let (reason, message) = trapped(misbehave("trap").await);
    assert!(reason == "trap" && message.contains("told to trap"), "{reason}: {message}");
    assert_eq!(trapped(misbehave("loop").await).0, "deadline");
    assert_eq!(trapped(misbehave("devour").await).0, "memory");
}

#[tokio::test]
async fn a_composer_whose_request_is_too_large_is_not_called() {
    let plugin = guest(Limits { response_bytes: 1_000, ..Limits::default() }).await;
    assert!(answer(&plugin, "u-1", json!({})).await.is_ok());
    let (reason, message) = trapped(answer(&plugin, "u-1", json!({"x": "y".repeat(1_000)})).await.expect_err("large"));
    assert_eq!(reason, "request");
    assert!(message.contains("not called") && message.contains("1000 bytes"), "{message}");
}

#[tokio::test]
async fn a_component_is_called_only_by_its_own_entry_point() {
    let composer = guest(Limits::default()).await;
    let (reason, message) = trapped(support::reconcile(&composer, &quiet()).await);
    assert!(reason == "host" && message.contains("does not have: `reconcile`"), "{reason}: {message}");
    let reconciler = load(&sandbox(Limits::default()), "chameleon", &chameleon("good")).await.expect("it loads");
    assert_eq!(reconciler.entry(), EntryPoint::Reconciler);
    let (reason, message) = trapped(answer(&reconciler, "u-1", json!({})).await.expect_err("no composer"));
    assert!(reason == "host" && message.contains("does not have: `compose`"), "{reason}: {message}");
}

#[tokio::test]
async fn reused_instances_serve_both_entry_points_in_turn() {
    let plugin = guest(Limits::default()).await;
    let limits = || CallLimits { instances: Instances::Reuse, ..CallLimits::default() };
    for _ in 0..3 {
        let request = request(&plugin, "u-1", &json!({}));
        let call = call_of(&plugin, &request.request.key.clone());
        let asked = Request { object: Some(request.parent.clone()), ..request.request.clone() };
        let rules = plugin.customize(asked, call.clone(), limits()).await;
        assert_eq!(rules.answer, Ok(vec![]));
        let composed = plugin.compose(request, call, limits()).await;
        assert!(composed.answer.is_ok(), "{:?}", composed.answer);
    }
}

#[tokio::test]
async fn a_mapper_answers_and_reads_caches_but_does_nothing_else() {
    let via = json!({"kind": "ConfigMap", "data": {"service": "api"}}).to_string();
    let ports = Arc::new(FakePorts { object: Some(via.into()), ..FakePorts::default() });
    let plugin = load(&sandbox(Limits::default()), "chameleon", &chameleon("mapping")).await.expect("it loads");
    let map = async |data: Value| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "m", "namespace": "prod", "labels": {"app": "web"}}, "data": data,
        });
        let changes = vec![ObjectChange { old: None, new: Some(map.to_string().into()) }];
        let batch = ChangeBatch { controller: "chameleon".into(), watch: "maps".into(), changes };
        let call = call_of(&plugin, &ObjectKey::cluster(""));
        plugin.map(batch, ports.clone(), call, CallLimits::default()).await.answer
    };
    let targets = map(json!({"service": "web"})).await.expect("it answers");
    let indexed = Target::Indexed { index: "by-selector".into(), value: "app=web".to_owned() };
    assert_eq!(targets, [[Target::Primary(ObjectKey::namespaced("prod", "web")), indexed]]);
    for how in ["get", "list"] {
        let targets = map(json!({"via": "other", "by": how})).await.expect("it answers");
        assert_eq!(targets[0][0], Target::Primary(ObjectKey::namespaced("prod", "api")), "{how}");
    }
    let (read, listed) = (ports.reads.lock().expect("no panic").len(), ports.lists.lock().expect("no panic").len());
    assert_eq!((read, listed), (1, 1));
    let owned = map(json!({"misbehave": "owned"})).await.expect_err("a mapper has no primary").failure();
    assert!(owned.contains("a mapper is called about changes, and not about a primary"), "{owned}");
    let refused = map(json!({"misbehave": "live"})).await.expect_err("it must not ask the server").failure();
    assert!(refused.contains("`map` calls `live.get`, but it may only answer, and may read caches"), "{refused}");
}
