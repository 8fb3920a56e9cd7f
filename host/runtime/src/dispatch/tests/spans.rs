//! The spans of a key.

use serde_json::Value;
use windlass_core::object::progress::Reached;
use windlass_core::write::expectations::{Cache, Effect, Shown};
use windlass_core::write::gate::Gate;

use super::*;
use crate::traces::tests::collected;

/// A stage with one worker, one permit, keys that are held until a cache shows their writes, and a tracer that samples
/// this share of calls.
fn traced(sampling: f64) -> (Stage, Arc<Reached>, Running, mpsc::UnboundedReceiver<Value>) {
    let clock = Arc::new(SystemClock::new());
    let mut stage = Stage::with_clock(0, 1, clock.clone());
    let cache = Arc::new(Reached::at("1"));
    let caches = vec![Cache { progress: cache.clone(), is_filtered: false }];
    let gate = Gate::new(caches, stage.dispatch.keys.queue.clone(), clock);
    gate.time_holds();
    let (tracer, requests) = collected(sampling);
    let dispatch = Arc::get_mut(&mut stage.dispatch).expect("no worker has it yet");
    (dispatch.keys.gate, dispatch.tracer) = (Some(gate), Some(tracer));
    let running = Running::new(stage.dispatch.clone(), &Phases::of(CancellationToken::new()));
    running.work();
    (stage, cache, running, requests)
}

/// The spans of an export request: name, whether it is the root, its duration in whole seconds, its error.
fn shown(request: &Value) -> Vec<(String, bool, u64, Option<String>)> {
    let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans");
    let time =
        |span: &Value, field: &str| span[field].as_str().and_then(|text| text.parse::<u64>().ok()).expect("a time");
    let describe = |span: &Value| {
        let took = time(span, "endTimeUnixNano") - time(span, "startTimeUnixNano");
        let error = span["status"]["message"].as_str().map(str::to_owned);
        let name = span["name"].as_str().expect("a name").to_owned();
        (name, span.get("parentSpanId").is_none(), took / 1_000_000_000, error)
    };
    spans.iter().map(describe).collect()
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    let all = span["attributes"].as_array().expect("attributes");
    all.iter().find(|it| it["key"] == name).map_or(&Value::Null, |it| &it["value"]["stringValue"])
}

#[tokio::test(start_paused = true)]
async fn a_calls_trace_shows_what_its_key_waited_for() {
    let (mut stage, cache, _running, mut requests) = traced(1.0);
    let gate = stage.dispatch.keys.gate.clone().expect("a gate");
    let effect = Effect::Left { uid: "u".into(), version: "5".into(), is_new: true, shown: vec![Shown::Yes] };
    gate.open(&key("a"), &key("child"), [0]).expect("there is a cache").ended(&effect);
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    tokio::time::advance(Duration::from_secs(3)).await;
    let permit = stage.other.acquire().await;
    cache.reach("5");
    assert!(stage.is_quiet().await);
    tokio::time::advance(Duration::from_secs(2)).await;
    permit.finish(Duration::ZERO);
    let call = stage.call().await;
    tokio::time::advance(Duration::from_secs(4)).await;
    call.answer.send(unreachable_server()).expect("the worker waits");
    let request = requests.recv().await.expect("spans");
    let all: Vec<_> = shown(&request);
    let names = all.iter().map(|(name, is_root, seconds, _)| (name.as_str(), *is_root, *seconds));
    let wanted =
        [("queue", false, 0), ("gate", false, 3), ("queue", false, 0), ("permit", false, 2), ("reconcile", true, 9)];
    assert_eq!(names.collect::<Vec<_>>(), wanted);
    let errors: Vec<_> = all.iter().map(|(.., error)| error.is_some()).collect();
    assert_eq!(errors, [false, false, false, false, true], "{all:?}");
    let root = &request["resourceSpans"][0]["scopeSpans"][0]["spans"][4];
    for (name, value) in [
        ("windlass.plugin", "a"),
        ("windlass.key", "prod/a"),
        ("k8s.namespace.name", "prod"),
        ("windlass.object.name", "a"),
        ("windlass.outcome", "failed"),
        ("error.type", "failed"),
    ] {
        assert_eq!(attribute(root, name), value, "{name}");
    }
    assert_eq!(root["traceId"].as_str(), Some(&*call.request.trace_id), "as in the log");
}

#[tokio::test(start_paused = true)]
async fn a_key_put_down_uncalled_has_no_span_until_it_is_called() {
    let (mut stage, _cache, running, mut requests) = traced(1.0);
    let permit = stage.other.acquire().await;
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    stage.dispatch.shutdown.retired.cancel();
    assert!(stage.is_quiet().await, "the next generation has the key");
    permit.finish(Duration::ZERO);
    stage.dispatch.tracer.clone().expect("a tracer").end().await;
    assert!(requests.recv().await.is_none());
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_sampled_has_no_span_and_its_requests_say_so() {
    let (mut stage, _cache, _running, mut requests) = traced(0.0);
    stage.dispatch.keys.queue.add(key("a"));
    let call = stage.call().await;
    assert!(call.traceparent.is_some_and(|parent| parent.ends_with("-00")));
    call.answer.send(CallResult::Done).expect("the worker waits");
    assert!(stage.is_quiet().await);
    stage.dispatch.tracer.clone().expect("a tracer").end().await;
    assert!(requests.recv().await.is_none());
}
