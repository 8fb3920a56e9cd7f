//! Tests recordings of calls that send several requests by `wasi:http`. The time at which an answer arrives is part of
//! the call: in a replay, the guest receives each answer at the same point.

#[allow(dead_code, reason = "the sandbox's own tests use the rest")]
#[path = "../../wasm/tests/support/guests.rs"]
mod guests;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use guests::{Core, wasi_http};
use tokio::sync::Semaphore;
use windlass_core::budget::fair::CpuPermit;
use windlass_core::cache::overlay::Overlay;
use windlass_core::call::http::{HttpBody, HttpResponse};
use windlass_core::call::ports::{Absent, Answer, Ask, CallContext, Ports, port_fn};
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::outcome::CallResult;
use windlass_core::queue::trigger::Triggers;
use windlass_core::rights::fence::Fenced;
use windlass_core::rights::grants::LiveGrants;
use windlass_core::rights::principal::{Principal, Role};
use windlass_core::write::settle::Hold;
use windlass_record::{CallVerdict, Comparison, RecordOptions, RecordedCall, Recordings, compare, read, replay};
use windlass_wasm::{CallLimits, Plugin, Request, Sandbox, SandboxOptions};

/// A server that answers each request for `/second` at once. It answers a request for `/first` after it has answered
/// `seconds` requests for `/second`.
fn ports(seconds: u32) -> Ports {
    let second = Arc::new(Semaphore::new(0));
    let outside = port_fn(move |_, ask| {
        let Ask::Fetch(request) = ask else { unreachable!("the guest asks nothing else") };
        let second = second.clone();
        async move {
            if request.url.ends_with("second") {
                second.add_permits(1);
            } else {
                second.acquire_many(seconds).await.expect("never closed").forget();
            }
            Answer::Fetch(Ok(HttpResponse { status: 200, headers: vec![], body: HttpBody::Text(request.url) }))
        }
        .boxed()
    });
    Ports { outside, ..Absent::ports() }
}

async fn load(reconcile: &str) -> Arc<Plugin> {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("guest.wasm");
    let component = Core::calling_http("", reconcile).with_wasi(&wasi_http("0.2.12"));
    std::fs::write(&file, component).expect("written");
    let options = SandboxOptions { threads: 2, concurrent_calls: 4, ..SandboxOptions::default() };
    Sandbox::new(options).expect("a sandbox").load(&file).await.expect("it loads")
}

fn context(plugin: &Plugin) -> Arc<CallContext> {
    Arc::new(CallContext {
        principal: Arc::new(Principal {
            role: Role::Plugin,
            plugin: plugin.name().clone(),
            digest: plugin.short_digest().into(),
            replica: "test".into(),
            grants: LiveGrants::default(),
            impersonate: None,
            fence: Fenced::default(),
        }),
        controller: "guest".into(),
        primary_kind: ObjectKind::new("v1", "ConfigMap"),
        primary_key: ObjectKey::namespaced("prod", "shop"),
        primary: None,
        triggers: Triggers::default(),
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        trace: <_>::default(),
        hold: Hold::detached(),
        overlay: Overlay::default(),
        lines: <_>::default(),
        cpu_permit: CpuPermit::default(),
        config: "{}".into(),
        reads: <_>::default(),
    })
}

/// Makes a recorded call of `plugin`, which must end with `result`.
async fn recorded(plugin: &Arc<Plugin>, ports: Ports, result: u64) -> RecordedCall {
    let directory = tempfile::tempdir().expect("a directory");
    let options = RecordOptions { directory: directory.path().to_owned(), sample: 1.0, limit: 1 << 20, redact: vec![] };
    let recordings = Recordings::start(options, "0.0.0").expect("a thread");
    let (context, limits) = (context(plugin), CallLimits::default());
    let request = Request {
        controller: context.controller.clone(),
        key: context.primary_key.clone(),
        uid: None,
        object: Some("{}".into()),
        deleting: false,
        attempt: 0,
        trace_id: context.trace_id.clone(),
    };
    let recording = recordings.of(plugin).reconcile(&request, &context, &limits).expect("each is recorded");
    let ports = recording.ports(&ports);
    let called = plugin.reconcile(request, &ports, context, limits).await;
    assert_eq!(called.result, CallResult::RequeueAfter(Duration::from_millis(result)));
    recording.reconciled(&called);
    recordings.end().await;
    let calls = read(directory.path()).expect("it is read").into_iter().flat_map(|recording| recording.calls);
    calls.last().expect("one call")
}

/// Asserts that replays of `call` do not differ from it, and that `call` conforms to the published schema.
async fn assert_replays(plugin: &Arc<Plugin>, call: &RecordedCall) {
    let schema = include_str!("../../../docs/schema/recording.schema.json");
    let schema = serde_json::from_str(schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    assert!(validator.is_valid(&serde_json::to_value(call).expect("JSON")));
    for _ in 0..2 {
        let replayed = replay(plugin, call, &[]).await.expect("it is replayed");
        assert_eq!(compare(call, &replayed, Comparison::EachImport), CallVerdict::Same, "{replayed:#?}");
    }
}

const SEND_BOTH: &str = "(global.set $a (call $send (call $to (i32.const 0))))
    (global.set $b (call $send (call $to (i32.const 1))))";
const POLL_BOTH: &str = "(call $poll-two (call $subscribe (global.get $a)) (call $subscribe (global.get $b)))";

#[tokio::test]
async fn answers_out_of_order_arrive_in_the_same_order_again() {
    // The guest sees the second answer, then waits for the first, and reads both.
    let reconcile = format!(
        "{SEND_BOTH} (local.set 0 {POLL_BOTH})
         (if (i32.ne (call $seen (global.get $b)) (i32.const 200)) (then unreachable))
         (local.set 0 (i32.add (local.get 0) (i32.mul (i32.const 100) (call $read))))
         (call $wait (call $send (call $to (i32.const 1)))) (call $wait (global.get $a))
         (if (i32.ne (call $seen (global.get $a)) (i32.const 200)) (then unreachable))
         (call $say (i32.add (local.get 0) (i32.mul (i32.const 10000) (call $read))))"
    );
    let plugin = load(&reconcile).await;
    let call = recorded(&plugin, ports(2), 262_711).await;
    assert_eq!(call.surroundings.answered, [vec![1], vec![2], vec![0]]);
    assert_replays(&plugin, &call).await;
    // Without the recorded order, the oldest answer would come first.
    let mut forgotten = call.clone();
    forgotten.surroundings.answered.clear();
    let replayed = replay(&plugin, &forgotten, &[]).await.expect("it is replayed");
    assert_ne!(compare(&forgotten, &replayed, Comparison::EachImport), CallVerdict::Same);
}

#[tokio::test]
async fn a_timer_that_fired_before_an_answer_does_so_again() {
    let waits = "(global.set $a (call $send (call $to (i32.const 0))))
        (local.set 0 (call $poll-two (call $subscribe (global.get $a)) (call $after (i64.const 1000000))))";
    // The answer never arrives.
    let plugin = load(&format!("{waits} (call $say (local.get 0))")).await;
    let call = recorded(&plugin, ports(1), 11).await;
    assert_eq!((&*call.surroundings.answered, &call.imports[0].answer), (&[vec![]][..], &None));
    assert_replays(&plugin, &call).await;
    // The answer arrives later: a poll finds it after the second request was sent.
    let later = format!(
        "{waits} (call $wait (call $send (call $to (i32.const 1)))) (call $wait (global.get $a))
         (call $say (i32.add (local.get 0) (call $seen (global.get $a))))"
    );
    let plugin = load(&later).await;
    let call = recorded(&plugin, ports(1), 211).await;
    assert_eq!(call.surroundings.answered, [vec![], vec![1], vec![0]]);
    assert_replays(&plugin, &call).await;
}

#[tokio::test]
async fn an_unawaited_answer_does_not_delay_a_replay() {
    let reconcile = "(drop (call $send (call $to (i32.const 0))))
        (global.set $b (call $send (call $to (i32.const 1)))) (call $wait (global.get $b))
        (call $say (call $seen (global.get $b)))";
    let plugin = load(reconcile).await;
    let call = recorded(&plugin, ports(9), 200).await;
    assert_eq!((&*call.surroundings.answered, &call.imports[0].answer), (&[vec![1]][..], &None));
    assert_replays(&plugin, &call).await;
}

#[tokio::test]
async fn polls_without_answers_find_none_again() {
    let reconcile = "(global.set $a (call $send (call $to (i32.const 0))))
        (local.set 0 (i32.const 3)) (loop $again
          (global.set $c (i32.add (i32.mul (global.get $c) (i32.const 2)) (call $ready (call $subscribe (global.get $a)))))
          (if (i32.eq (local.get 0) (i32.const 2)) (then (drop (call $send (call $to (i32.const 1))))))
          (br_if $again (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
        (call $say (global.get $c))";
    let plugin = load(reconcile).await;
    let call = recorded(&plugin, ports(1), 1).await;
    assert_eq!(call.surroundings.answered, [vec![], vec![], vec![0]]);
    assert_replays(&plugin, &call).await;
}

#[tokio::test]
async fn a_call_that_was_stopped_while_it_waited_is_stuck_there_again() {
    let plugin = load("(call $wait (call $send (call $to (i32.const 0))))").await;
    let mut call = recorded(
        &load("(call $wait (call $send (call $to (i32.const 1)))) (call $say (i32.const 1))").await,
        ports(1),
        1,
    )
    .await;
    // Make this the recording of a call that its deadline ended before the answer.
    call.imports[0].answer = None;
    call.imports[0].args["url"] = "https://host.example/first".into();
    call.surroundings.answered.clear();
    let replayed = replay(&plugin, &call, &[]).await.expect("it is replayed");
    assert!(matches!(replayed.stuck, Some(windlass_record::Stuck::NotAnswered(_))), "{replayed:?}");
}
