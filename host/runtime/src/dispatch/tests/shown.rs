//! The states of a dispatch's keys, as the status shows them.

use serde_json::{Value, json};

use super::*;
use crate::observe::status::ControllerState;

/// A dispatch whose status shows its keys.
fn shown(workers: usize, permits: u32) -> Stage {
    let stage = Stage::with_clock(workers, permits, Arc::new(SystemClock::new()));
    let status = &stage.dispatch.status;
    status.begins(stage.dispatch.keys.queue.clone());
    let source = Arc::downgrade(&stage.dispatch);
    status.dispatched_by(source);
    status.set(ControllerState::Running, None);
    stage
}

fn story(stage: &Stage, name: &str) -> Value {
    stage.dispatch.status.key(&key(name)).expect("something is known of it")
}

fn state(stage: &Stage, name: &str) -> String {
    story(stage, name)["state"].as_str().expect("one").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_key_is_seen_on_its_whole_way() {
    let mut stage = shown(1, 1);
    stage.switch.begin();
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    assert_eq!(state(&stage, "a"), "api-server-unreachable");
    let permit = stage.other.acquire().await;
    stage.switch.end();
    assert!(stage.is_quiet().await);
    stage.dispatch.keys.queue.add(key("b"));
    assert_eq!([state(&stage, "a"), state(&stage, "b")], ["waiting-for-permit", "queued"]);
    permit.unused();
    let call = stage.call().await;
    assert_eq!(state(&stage, "a"), "running");
    call.answer.send(CallResult::Failed(vec![Failure::Transient("no image".to_owned())])).expect("the worker waits");
    stage.answer("b", CallResult::Done).await;
    assert!(stage.is_quiet().await);
    let story = story(&stage, "a");
    assert_eq!((&story["state"], &story["lastError"]["error"]), (&json!("backoff"), &json!("no image")), "{story}");
    assert_eq!((&story["failures"], &story["calls"][0]["outcome"]), (&json!(1), &json!("failed")));
    assert_eq!(state(&stage, "b"), "done");
    assert!(stage.dispatch.status.metrics.cpu.get() > 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_only_a_change_will_rerun_names_that_change() {
    let mut stage = shown(1, 1);
    let denied = Failure::Api(ApiError::refused(ApiReason::NotGranted, "get", "secrets", None, "may not"));
    for (name, result, expected) in [
        ("for-good", CallResult::Failed(vec![Failure::Terminal("never".to_owned())]), "failed"),
        ("denied", CallResult::Failed(vec![denied]), "denied"),
        ("paused", CallResult::NotCalled { again: None }, "paused"),
        ("later", CallResult::RequeueAfter(Duration::from_hours(1)), "scheduled"),
        ("backs-off", CallResult::RequeueBackoff, "scheduled"),
    ] {
        stage.dispatch.keys.queue.add(key(name));
        stage.answer(name, result).await;
        assert!(stage.is_quiet().await);
        assert_eq!(state(&stage, name), expected);
    }
}
