//! The circuit breaker as seen from the queue: which keys are called when, and that none is lost.

use windlass_core::queue::breaker::BreakerState;

use super::*;
use crate::observe::status::{KeySource as _, ResumedController};

fn trapped() -> CallResult {
    CallResult::Trapped { reason: "trap", message: "the plugin trapped: unreachable".into() }
}

/// A stage whose circuit has just opened, and whose keys `a0` to `a4` have a backoff of a minute.
async fn opened(workers: usize) -> Stage {
    let mut stage = Stage::new(workers);
    for number in 0..5 {
        let name = format!("a{number}");
        stage.dispatch.keys.queue.add(key(&name));
        stage.answer(&name, trapped()).await;
    }
    assert!(stage.is_quiet().await);
    assert_eq!(stage.dispatch.permits.call_gate.breaker(), BreakerState::Open);
    stage
}

#[tokio::test(start_paused = true)]
async fn after_five_keys_trap_calls_pause_ten_seconds_and_no_key_is_lost() {
    let mut stage = opened(3).await;
    let began = Instant::now();
    for name in ["b", "c", "d", "e"] {
        stage.dispatch.keys.queue.add(key(name));
    }
    assert!(stage.is_quiet().await);
    assert_eq!(stage.dispatch.keys.queue.len(), 4, "no worker takes a key");
    let permits: Vec<_> = (0..8).map_while(|_| stage.other.acquire().now_or_never()).collect();
    assert_eq!(permits.len(), 6, "another plugin has all that one may have");
    permits.into_iter().for_each(CallPermit::unused);
    let probe = stage.call().await;
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(9) && waited <= Duration::from_secs(10), "{waited:?}");
    assert!(stage.is_quiet().await, "one trial call at a time");
    assert_eq!((probe.request.key, probe.request.attempt), (key("b"), 0));
    probe.answer.send(CallResult::Done).expect("the worker waits");
    let mut called = [stage.call().await, stage.call().await, stage.call().await].map(|call| call.request.key);
    called.sort();
    assert_eq!(called, [key("c"), key("d"), key("e")], "once the trial succeeds, all waiting keys run");
    assert_eq!(stage.dispatch.keys.queue.num_requeues(&key("a0")), 1, "waiting is no failure");
}

#[tokio::test(start_paused = true)]
async fn each_probe_that_traps_opens_it_for_twice_as_long() {
    let mut stage = opened(1).await;
    stage.dispatch.keys.queue.add(key("b"));
    let mut last = Instant::now();
    let mut waits = vec![];
    for _ in 0..7 {
        let probe = stage.call().await;
        waits.push(last.elapsed().as_secs_f64().round());
        last = Instant::now();
        probe.answer.send(trapped()).expect("the worker waits");
        // The queue never runs out of keys: those that trapped come back, and new ones arrive.
        stage.dispatch.keys.queue.add(key("c"));
    }
    assert_eq!(waits, [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]);
    let probe = stage.call().await;
    probe.answer.send(CallResult::Done).expect("the worker waits");
    assert!(stage.call().await.answer.send(CallResult::Done).is_ok(), "the next follows at once");
    assert!(last.elapsed() < Duration::from_secs(301));
}

#[tokio::test(start_paused = true)]
async fn one_key_that_traps_repeatedly_does_not_open_the_circuit() {
    let mut stage = Stage::new(1);
    for _ in 0..14 {
        stage.dispatch.keys.queue.add(key("bad"));
        stage.answer("bad", trapped()).await;
    }
    assert_eq!(stage.dispatch.permits.call_gate.breaker(), BreakerState::Closed);
    stage.dispatch.keys.queue.add(key("good"));
    stage.answer("good", CallResult::Done).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_the_plugin_reports_is_an_answer() {
    let mut stage = Stage::new(1);
    for number in 0..20 {
        let name = format!("a{number}");
        stage.dispatch.keys.queue.add(key(&name));
        let failed = CallResult::Failed(vec![Failure::Transient("as the test says".into())]);
        stage.answer(&name, if number % 5 == 4 { failed } else { trapped() }).await;
    }
    assert!(stage.is_quiet().await);
    assert_eq!(stage.dispatch.permits.call_gate.breaker(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_probe_without_a_result_is_followed_by_another() {
    let mut stage = opened(2).await;
    stage.dispatch.keys.queue.add(key("b"));
    stage.dispatch.keys.queue.add(key("c"));
    // The host panics here, which says nothing about the plugin.
    drop(stage.call().await);
    let next = stage.call().await;
    assert_eq!(next.request.key, key("c"));
    next.answer.send(CallResult::Done).expect("the worker waits");
    assert!(stage.is_quiet().await);
    assert_eq!(stage.dispatch.permits.call_gate.breaker(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn keys_that_workers_have_when_it_opens_wait_with_them() {
    let mut stage = Stage::with_clock(7, 7, Arc::new(SystemClock::new()));
    let names: Vec<_> = (0..7).map(|number| format!("a{number}")).collect();
    for name in &names {
        stage.dispatch.keys.queue.add(key(name));
    }
    let mut calls = vec![];
    for _ in 0..5 {
        calls.push(stage.call().await);
    }
    let began = Instant::now();
    for call in calls {
        call.answer.send(trapped()).expect("the worker waits");
    }
    let mut late = vec![];
    for _ in 0..2 {
        let call = stage.call().await;
        late.push((call.request.key.clone(), call.request.attempt));
        call.answer.send(CallResult::Done).expect("the worker waits");
    }
    late.sort();
    assert_eq!(late, [(key("a5"), 0), (key("a6"), 0)], "none is lost: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_resumed_plugin_makes_one_trial_call_then_retries_all_failed_keys() {
    let mut stage = opened(3).await;
    let began = Instant::now();
    let resumed = stage.dispatch.resume();
    assert_eq!(resumed, ResumedController { failed_keys: 5, had_open_circuit: true });
    let probe = stage.call().await;
    assert_eq!((probe.request.attempt, probe.triggers.as_str()), (0, "RunRequested"), "its failures are forgotten");
    assert!(stage.is_quiet().await, "one trial call at a time");
    probe.answer.send(CallResult::Done).expect("the worker waits");
    for _ in 0..4 {
        stage.call().await.answer.send(CallResult::Done).expect("the worker waits");
    }
    // The check that it is quiet takes a moment.
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(stage.dispatch.resume(), ResumedController::default(), "there is nothing more");
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_circuit_is_open_does_not_wait() {
    let stage = opened(1).await;
    let phases = Phases::of(CancellationToken::new());
    let running = Running::new(stage.dispatch.clone(), &phases);
    running.work();
    stage.dispatch.keys.queue.add(key("b"));
    let began = Instant::now();
    assert_eq!(stop(running, &phases).await, ControllerEnd::Clean);
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
}
