//! Tests write budgets and reports of writes, as seen by the API server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout};
use windlass_core::call::ports::CallContext;
use windlass_core::rights::grants::Grants;
use windlass_core::rights::principal::Role;
use windlass_core::write::{Operation, WriteOptions};
use windlass_kube::{Discovery, WriteBudget, WriteRate, Writer};

use crate::script::{Reply, Script, call, pod};

/// A writer with a burst of two and a rate of ten per second, and its reports.
fn writer(script: &Script) -> Writer {
    let budget = WriteBudget::new(WriteRate { per_second: 10, burst: 2 });
    Writer::new(script.client(), Discovery::new(script.client())).within(budget)
}

fn creates(count: usize) -> Vec<Operation> {
    let object = |at| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{at}")}});
    let create = |at| Operation::Create { object: object(at).to_string(), options: WriteOptions::default() };
    (0..count).map(create).collect()
}

fn fine() -> Script {
    Script::default().mutations([Reply::Json(201, pod("answer", "u", 7))])
}

#[tokio::test(start_paused = true)]
async fn writes_beyond_the_budget_wait_for_their_turn_and_none_fails() {
    let script = fine();
    let began = Instant::now();
    let results = writer(&script).batch(Arc::new(call()), creates(12)).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!((script.mutations_asked().len(), began.elapsed().as_millis()), (12, 1_000));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_when_its_call_ends_is_never_sent() {
    let script = fine();
    let writer = writer(&script);
    let mut creates = creates(3).into_iter();
    for create in creates.by_ref().take(2) {
        writer.write(Arc::new(call()), create).await.expect("within the burst");
    }
    let last = writer.write(Arc::new(call()), creates.next().expect("a third"));
    timeout(Duration::from_millis(50), last).await.expect_err("it waits");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(script.mutations_asked().len(), 2);
}

#[tokio::test]
async fn a_plugin_sends_two_large_writes_at_once_and_small_ones_overtake() {
    let script = Script::default().mutations([Reply::Never]);
    let budget = WriteBudget::new(WriteRate { per_second: 100, burst: 100 });
    let writer = Writer::new(script.client(), Discovery::new(script.client())).within(budget);
    let named = |name: &str, size: usize| {
        let metadata = json!({"name": name});
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "x".repeat(size)}});
        let create = Operation::Create { object: object.to_string(), options: WriteOptions::default() };
        tokio::spawn(writer.write(Arc::new(call()), create))
    };
    let mut begun: Vec<_> = (0..5).map(|at| named(&format!("large-{at}"), 100_000)).collect();
    let asked = || script.mutations_asked().iter().filter(|asked| asked.body.len() > 100_000).count();
    timeout(Duration::from_secs(20), async {
        while asked() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        begun.push(named("small", 1));
        while script.mutations_asked().len() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("they are sent");
    // Without the budget, the other writes would have been sent by now.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!((asked(), script.mutations_asked().len()), (2, 3));
    begun.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn large_writes_waiting_for_their_budget_occupy_no_threads() {
    let script = fine();
    let budget = WriteBudget::new(WriteRate { per_second: 1, burst: 1 });
    let writer = Writer::new(script.client(), Discovery::new(script.client())).within(budget.clone());
    let large = || {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"x": "x".repeat(100_000)}});
        Operation::Create { object: object.to_string(), options: WriteOptions::default() }
    };
    let waiting = [(); 60].map(|()| tokio::spawn(writer.write(Arc::new(call()), large())));
    // One after the other, they would take almost a minute.
    timeout(Duration::from_secs(25), async {
        while budget.waited() < 59 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("all but the first come as far as that");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn writes_of_the_host_for_a_plugin_do_not_use_its_budget() {
    let script = fine();
    let call = call();
    let keeper = call.principal.in_role(Role::Finalizer, Grants::default());
    keeper.grants.replace((*call.principal.grants()).clone());
    let call = Arc::new(CallContext { principal: Arc::new(keeper), ..call });
    let (writer, began) = (writer(&script), Instant::now());
    for create in creates(20) {
        writer.write(call.clone(), create).await.expect("allowed");
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn only_writes_that_were_carried_out_are_reported() {
    let refused = Reply::Json(409, json!({"reason": "AlreadyExists"}));
    let object = |version| {
        Reply::Json(
            201,
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "c0", "namespace": "prod", "uid": "u", "resourceVersion": version}}),
        )
    };
    let script = Script::default().mutations([object("7"), refused, object("8"), object("9")]);
    let reported = Arc::new(Mutex::new(Vec::new()));
    let listener = reported.clone();
    let writer = writer(&script).reporting_to(Arc::new(move |_, object, version| {
        let version = version.map(ToString::to_string);
        listener.lock().expect("no panic").push((object.to_string(), version));
    }));
    for dry_run in [false, false, true, false] {
        let Some(Operation::Create { object, .. }) = creates(1).pop() else { unreachable!("it creates") };
        let options = WriteOptions { dry_run, ..WriteOptions::default() };
        drop(writer.write(Arc::new(call()), Operation::Create { object, options }).await);
    }
    let seen = |version: &str| ("ConfigMap prod/c0".to_owned(), Some(version.to_owned()));
    assert_eq!(*reported.lock().expect("no panic"), [seen("7"), seen("9")]);
}
