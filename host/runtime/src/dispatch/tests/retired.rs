//! A generation whose queue passes to another one.

use std::future::pending;
use std::sync::Weak;

use super::*;

fn phases() -> Phases {
    Phases::of(CancellationToken::new())
}

/// The next generation, with the queue of `stage` and one worker.
fn successor(stage: &Stage, clock: Arc<dyn Clock>) -> (Stage, Running) {
    let mut next = Stage::with_clock(0, 1, clock);
    let dispatch = Arc::get_mut(&mut next.dispatch).expect("no worker has it yet");
    dispatch.keys.queue = stage.dispatch.keys.queue.clone();
    let running = Running::new(next.dispatch.clone(), &phases());
    running.work();
    (next, running)
}

/// A generation with one worker, and one permit.
fn at_work() -> (Stage, Running, Arc<SystemClock>) {
    let clock = Arc::new(SystemClock::new());
    let stage = Stage::with_clock(0, 1, clock.clone());
    let running = Running::new(stage.dispatch.clone(), &phases());
    running.work();
    (stage, running, clock)
}

fn relieved() -> CancellationToken {
    let relieved = CancellationToken::new();
    relieved.cancel();
    relieved
}

#[tokio::test(start_paused = true)]
async fn a_key_without_a_permit_yet_goes_to_the_next_generation_unretried() {
    let (mut stage, running, clock) = at_work();
    let permit = stage.other.acquire().await;
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    assert_eq!(stage.dispatch.keys.queue.processing(), [key("a")]);
    let (mut next, _at_work) = successor(&stage, clock);
    stage.dispatch.shutdown.retired.cancel();
    let call = next.call().await;
    assert_eq!((call.request.key.clone(), call.request.attempt), (key("a"), 0));
    running.retire(&relieved(), || ()).await;
    permit.finish(Duration::ZERO);
    assert!(stage.is_quiet().await);
    call.answer.send(CallResult::Done).expect("the worker waits");
    assert!(next.is_quiet().await, "it was one key");
    assert_eq!(stage.phases.all_dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_running_call_ends_in_its_generation_and_keeps_its_key_meanwhile() {
    let (mut stage, running, clock) = at_work();
    stage.dispatch.keys.queue.add(key("a"));
    let call = stage.call().await;
    stage.dispatch.shutdown.retired.cancel();
    let (mut next, _at_work) = successor(&stage, clock);
    let retiring = tokio::spawn(async move { running.retire(&relieved(), || ()).await });
    for name in ["a", "b"] {
        stage.dispatch.keys.queue.add_with(key(name), windlass_core::queue::Priority::BACKGROUND);
    }
    next.answer("b", CallResult::Done).await;
    assert!(next.is_quiet().await && !retiring.is_finished(), "the call of the previous generation still runs");
    let failed = CallResult::Failed(vec![Failure::Transient("not yet".into())]);
    call.answer.send(failed).expect("the worker waits");
    let again = next.call().await;
    assert_eq!((again.request.key.clone(), again.request.attempt), (key("a"), 1), "its failure is remembered");
    again.answer.send(CallResult::Done).expect("the worker waits");
    retiring.await.expect("no panic");
    assert!(stage.is_quiet().await && next.is_quiet().await);
    assert_eq!(stage.dispatch.record.record().failures, 1);
    assert_eq!((next.dispatch.record.record().calls, next.dispatch.record.record().failures), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_generation_is_freed_with_its_last_call() {
    let (mut stage, running, clock) = at_work();
    stage.dispatch.keys.queue.add(key("a"));
    let call = stage.call().await;
    stage.dispatch.shutdown.retired.cancel();
    let (next, _at_work) = successor(&stage, clock);
    let Stage { dispatch, mut calls, .. } = stage;
    let generation: Weak<Dispatch> = Arc::downgrade(&dispatch);
    drop(dispatch);
    let retiring = tokio::spawn(async move { running.retire(&relieved(), || ()).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(generation.upgrade().is_some(), "its call runs");
    call.answer.send(CallResult::Done).expect("the worker waits");
    retiring.await.expect("no panic");
    assert!(generation.upgrade().is_none());
    assert!(calls.recv().await.is_none(), "the plugin is freed too");
    assert!(!next.dispatch.keys.queue.processing().contains(&key("a")));
}

/// This is how a feeder ends: its first poll queues the changes that it still holds.
#[tokio::test(start_paused = true)]
async fn changes_held_by_a_retiring_feeder_become_keys_without_a_running_call() {
    // Repeat the test: if the order were not fixed, chance would decide which end is seen first.
    for _ in 0..50 {
        let (mut stage, mut running, _) = at_work();
        let queue = stage.dispatch.keys.queue.clone();
        running.keep(async move {
            queue.add(key("a"));
            pending().await
        });
        stage.dispatch.shutdown.retired.cancel();
        let relieved = CancellationToken::new();
        let relieving = relieved.clone();
        let retiring = tokio::spawn(async move { running.retire(&relieving, || ()).await });
        assert!(stage.is_quiet().await);
        relieved.cancel();
        retiring.await.expect("no panic");
        assert_eq!(stage.dispatch.keys.queue.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retired_round_does_not_shut_down_the_queue_of_its_successor() {
    let (stage, running, clock) = at_work();
    stage.dispatch.shutdown.retired.cancel();
    // This also happens after a panic.
    drop(running);
    let (mut next, _at_work) = successor(&stage, clock);
    stage.dispatch.keys.queue.add(key("a"));
    next.answer("a", CallResult::Done).await;
}

#[tokio::test(start_paused = true)]
async fn only_failures_by_the_plugins_own_fault_count_against_a_generation() {
    let mut stage = Stage::new(1);
    let results = [
        unreachable_server(),
        CallResult::Failed(vec![Failure::Terminal("the object is wrong".into())]),
        CallResult::Failed(vec![Failure::Transient("mine".into())]),
        CallResult::Trapped { reason: "trap", message: "unreachable".into() },
        CallResult::Done,
    ];
    for (at, result) in results.into_iter().enumerate() {
        let name = format!("key-{at}");
        stage.dispatch.keys.queue.add(key(&name));
        stage.answer(&name, result).await;
    }
    assert!(stage.is_quiet().await);
    let record = stage.dispatch.record.record();
    assert_eq!((record.calls, record.failures), (5, 2));
}
