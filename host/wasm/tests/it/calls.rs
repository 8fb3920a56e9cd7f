//! Calls of well-behaved plugins: their input, the imports, and their results.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use support::guests::{Core, chameleon, webapp};
use support::ports::{FakePorts, WriteMode, quiet};
use support::{called, limits, load, patient, reconcile, reconcile_object, sandbox, trapped};
use windlass_core::queue::outcome::{CallResult, Failure};
use windlass_core::write::Operation;
use windlass_wasm::Limits;

pub(crate) const WEBAPP: &str = r#"{
    "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp",
    "metadata": {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 1, "resourceVersion": "1"},
    "spec": {"image": "nginx", "replicas": 2, "port": 8080}
}"#;

#[tokio::test]
async fn a_webapp_creates_its_children_through_the_ports() {
    let plugin = load(&sandbox(Limits::default()), "webapp", &webapp()).await.expect("it loads");
    let ports = FakePorts::with_writes(WriteMode::Echo);
    let result = reconcile_object(&plugin, &ports.ports(), Some(WEBAPP)).await;
    assert!(matches!(result, CallResult::Done | CallResult::RequeueAfter(_)), "{result:?}");
    let written = ports.written.lock().expect("not poisoned");
    for kind in ["Deployment", "Service"] {
        let applied = |operation: &Operation| matches!(operation, Operation::Apply { object, options } if object.contains(kind) && options.owned);
        assert!(written.iter().any(applied), "no {kind} in {written:?}");
    }
}

#[tokio::test]
async fn every_outcome_reaches_the_host_unchanged() {
    let sandbox = sandbox(Limits::default());
    let run = async |mode: &str| {
        let plugin = load(&sandbox, "chameleon", &chameleon(mode)).await.expect("it loads");
        reconcile(&plugin, &quiet()).await
    };
    assert_eq!(run("good").await, CallResult::Done);
    assert_eq!(run("reconcile-empty-failures").await, CallResult::Failed(vec![]));
    let transient = run("reconcile-transient").await;
    assert!(
        matches!(&transient, CallResult::Failed(all) if matches!(&all[..], [Failure::Transient(_)])),
        "{transient:?}"
    );
    let terminal = run("reconcile-terminal").await;
    assert!(matches!(&terminal, CallResult::Failed(all) if matches!(&all[..], [Failure::Terminal(_)])), "{terminal:?}");
}

#[tokio::test]
async fn a_call_costs_its_guests_processor_time_even_if_it_is_stopped() {
    let sandbox = sandbox(limits());
    let cost = async |mode: &str| {
        let plugin = load(&sandbox, "chameleon", &chameleon(mode)).await.expect("it loads");
        called(&plugin, &quiet(), None).await.cpu
    };
    let (quiet, spinning) = (cost("good").await, cost("reconcile-loops").await);
    assert!(Duration::ZERO < quiet && quiet < spinning, "{quiet:?}, {spinning:?}");
}

/// The future is moved on its way to the thread that runs the call.
#[tokio::test]
async fn the_future_of_a_call_is_small() {
    let plugin = load(&sandbox(Limits::default()), "guest", &Core::default().component()).await.expect("it loads");
    let size = std::mem::size_of_val(&called(&plugin, &quiet(), None));
    assert!(size < 4 << 10, "{size} bytes");
}

#[tokio::test]
async fn a_name_that_would_lead_elsewhere_never_reaches_a_port() {
    let import = r#"(import "windlass:plugin/cache@0.3.0" "get" (func $get (param i32 i32)))"#;
    // The reference is at 3072: only version, kind and name are set.
    let get = |name_at: u32, name_length: u32| {
        let set = [(3084, 2048), (3088, 2), (3092, 2050), (3096, 9), (3112, name_at), (3116, name_length)];
        let set = set.map(|(at, value)| format!("(i32.store (i32.const {at}) (i32.const {value}))")).concat();
        format!("{set} (call $get (i32.const 3072) (i32.const 1024))")
    };
    let sandbox = sandbox(Limits::default());
    let reads = async |name_at, name_length| {
        let guest = Core::reconciling(import, &get(name_at, name_length));
        let plugin = load(&sandbox, "guest", &guest).await.expect("it loads");
        let ports = FakePorts::with_writes(WriteMode::Echo);
        assert_eq!(reconcile(&plugin, &ports.ports()).await, CallResult::Done);
        ports.reads.lock().expect("not poisoned").len()
    };
    assert_eq!(reads(2050, 9).await, 1, "`ConfigMap` can be a name");
    assert_eq!(reads(2059, 15).await, 0, "`../../secrets/x` cannot");
    assert_eq!(reads(2059, 2).await, 0, "`..` cannot");
}

#[tokio::test]
async fn reads_of_one_call_share_one_limit_of_returned_bytes() {
    let import = r#"(import "windlass:plugin/cache@0.3.0" "get-many" (func $get (param i32 i32 i32 i32 i32 i32)))"#;
    // Reads `v1 ConfigMap` named `v1` twice; the answers are 112 bytes each, and the first byte is 1 for an error.
    let target = r"\00\00\00\00\00\00\00\00\00\00\00\00\00\08\00\00\02\00\00\00\02\08\00\00\09\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\08\00\00\02\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00";
    let read = "(call $get (i32.const 3072) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1024))
        (if (i32.load8_u (i32.load (i32.const 1024))) (then unreachable))
        (if (i32.eqz (i32.load8_u offset=112 (i32.load (i32.const 1024)))) (then unreachable))";
    let guest = Core {
        imports: import.to_owned(),
        items: format!(r#"(data (i32.const 3072) "{target}{target}")"#),
        reconcile: read.to_owned(),
        pages: 32,
        ..Core::default()
    };
    let sandbox = sandbox(Limits { response_bytes: 1000, ..Limits::default() });
    let plugin = load(&sandbox, "guest", &guest.component()).await.expect("it loads");
    let ports = Arc::new(FakePorts { object: Some("x".repeat(600).into()), ..FakePorts::default() });
    assert_eq!(reconcile(&plugin, &ports.ports()).await, CallResult::Done);
    assert_eq!(ports.reads.lock().expect("not poisoned").len(), 2);
}

#[tokio::test]
async fn a_write_in_flight_continues_after_its_call_has_ended() {
    let plugin = load(&sandbox(patient()), "webapp", &webapp()).await.expect("it loads");
    let ports = FakePorts::with_writes(WriteMode::WhenTold);
    let (reason, message) = trapped(reconcile_object(&plugin, &ports.ports(), Some(WEBAPP)).await);
    assert_eq!(reason, "waited");
    assert!(message.contains("it was waiting for `writes.apply`"), "{message}");
    assert_eq!(ports.written.lock().expect("not poisoned").len(), 0);
    ports.go_on.notify_one();
    tokio::time::timeout(Duration::from_secs(30), ports.gone_on.notified()).await.expect("it is carried out");
    assert_eq!(ports.written.lock().expect("not poisoned").len(), 1);
}

/// The answers to the chameleon's batch: an apply, a delete, an invalid operation, another apply.
async fn batched(limits: Limits) -> (Arc<FakePorts>, CallResult) {
    let plugin = load(&sandbox(limits), "chameleon", &chameleon("batch")).await.expect("it loads");
    let ports = FakePorts::with_writes(WriteMode::Echo);
    let result = reconcile(&plugin, &ports.ports()).await;
    (ports, result)
}

fn failure_summary(result: CallResult) -> String {
    match result {
        CallResult::Failed(failures) => windlass_core::queue::outcome::summary(&failures),
        other => panic!("it should fail for good, and ended with {other:?}"),
    }
}

#[tokio::test]
async fn a_batch_is_answered_in_order_and_invalid_writes_are_not_sent() {
    let (ports, result) = batched(Limits::default()).await;
    assert_eq!(failure_summary(result), "first, none, Invalid, fourth");
    assert_eq!(ports.written.lock().expect("not poisoned").len(), 3);
}

#[tokio::test]
async fn a_batch_counts_as_its_operations_before_any_of_them_is_sent() {
    let (ports, result) = batched(Limits { host_calls: 4, ..Limits::default() }).await;
    assert_eq!(trapped(result).0, "host-calls");
    assert_eq!(ports.written.lock().expect("not poisoned").len(), 0);
    let (_, result) = batched(Limits { host_calls: 5, ..Limits::default() }).await;
    assert!(matches!(result, CallResult::Failed(_)), "{result:?}");
}

#[tokio::test]
async fn a_batch_over_the_written_bytes_limit_sends_nothing() {
    let (ports, result) = batched(Limits { written_bytes: 5, ..Limits::default() }).await;
    let (reason, message) = trapped(result);
    assert_eq!(reason, "written-bytes");
    assert!(message.contains("--limit written-bytes=SIZE"), "{message}");
    assert_eq!(ports.written.lock().expect("not poisoned").len(), 0);
}

#[tokio::test]
async fn each_body_of_a_batch_and_its_answers_together_have_limits() {
    let (ports, result) = batched(Limits { write_bytes: 5, ..Limits::default() }).await;
    assert_eq!(failure_summary(result), "first, none, Invalid, RequestEntityTooLarge");
    assert_eq!(ports.written.lock().expect("not poisoned").len(), 2);
    let (ports, result) = batched(Limits { response_bytes: 8, ..Limits::default() }).await;
    assert_eq!(failure_summary(result), "first, none, Invalid, RequestEntityTooLarge");
    assert_eq!(ports.written.lock().expect("not poisoned").len(), 3);
}

#[tokio::test]
async fn a_panic_of_a_port_ends_the_call_and_nothing_else() {
    let sandbox = sandbox(Limits::default());
    let plugin = load(&sandbox, "webapp", &webapp()).await.expect("it loads");
    let broken = FakePorts::with_writes(WriteMode::Panic).ports();
    let (reason, message) = trapped(reconcile_object(&plugin, &broken, Some(WEBAPP)).await);
    assert_eq!(reason, "host", "{message}");
    assert!(message.contains("the host failed in writes."), "{message}");
    let result = reconcile_object(&plugin, &quiet(), Some(WEBAPP)).await;
    assert!(!matches!(result, CallResult::Trapped { .. }), "{result:?}");
}

#[tokio::test]
async fn calls_of_one_plugin_share_nothing() {
    let items = "(global $calls (mut i32) (i32.const 0))";
    let count = "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
        (if (i32.gt_u (global.get $calls) (i32.const 1)) (then unreachable))";
    let guest = Core { items: items.to_owned(), reconcile: count.to_owned(), ..Core::default() };
    let plugin = load(&sandbox(Limits::default()), "guest", &guest.component()).await.expect("it loads");
    for _ in 0..3 {
        assert_eq!(reconcile(&plugin, &quiet()).await, CallResult::Done);
    }
}

#[tokio::test]
async fn more_calls_than_permits_wait_and_all_end() {
    let plugin = load(&sandbox(Limits::default()), "chameleon", &chameleon("good")).await.expect("it loads");
    let ports = quiet();
    let calls = (0..100).map(|_| reconcile(&plugin, &ports));
    let results = futures::future::join_all(calls).await;
    assert!(results.iter().all(|result| *result == CallResult::Done), "{results:?}");
}

#[tokio::test]
async fn a_plugin_outlives_the_handle_of_its_sandbox() {
    let sandbox = sandbox(Limits::default());
    let plugin = load(&sandbox, "chameleon", &chameleon("good")).await.expect("it loads");
    drop(sandbox);
    assert_eq!(reconcile(&plugin, &quiet()).await, CallResult::Done);
}
