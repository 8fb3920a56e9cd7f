//! The reasons for a call, as a plugin can see them.

use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::queue::trigger::{Trigger, TriggerReason};

use super::*;
use crate::dispatch::keys::OUTAGE_WITHOUT_RETRY_MAX;

fn changed(name: &str) -> Arc<Trigger> {
    let object = ObjectRef { kind: ObjectKind::new("v1", "Secret"), key: key(name), uid: None };
    Arc::new(Trigger { reason: TriggerReason::Changed, watch: None, object: Some(object) })
}

impl Stage {
    /// Notes and queues a key as a feeder does.
    fn change(&self, name: &str, of: &str) {
        self.dispatch.keys.memory().note(&key(name), &changed(of));
        self.dispatch.keys.queue.add(key(name));
    }

    /// The triggers of the next call, which is answered with this result.
    async fn triggers(&mut self, result: CallResult) -> String {
        let call = self.call().await;
        call.answer.send(result).expect("the worker waits");
        call.triggers
    }
}

fn failed() -> CallResult {
    CallResult::Failed(vec![Failure::Transient("not yet".into())])
}

#[tokio::test(start_paused = true)]
async fn a_call_receives_all_triggers_of_its_key_since_the_last_call() {
    let mut stage = Stage::new(0);
    for name in ["one", "two", "one"] {
        stage.change("a", name);
    }
    stage.change("b", "other");
    let dispatch = stage.dispatch.clone();
    tokio::spawn(async move { dispatch.work().await });
    assert_eq!(stage.triggers(CallResult::Done).await, "Changed Secret prod/one, Changed Secret prod/two");
    assert_eq!(stage.triggers(CallResult::Done).await, "Changed Secret prod/other");
    stage.change("a", "three");
    assert_eq!(stage.triggers(CallResult::Done).await, "Changed Secret prod/three");
}

#[tokio::test(start_paused = true)]
async fn a_due_requeue_is_shown_as_the_trigger_unless_a_change_came_sooner() {
    let mut stage = Stage::new(1);
    stage.change("a", "one");
    let again = || CallResult::RequeueAfter(Duration::from_hours(1));
    assert_eq!(stage.triggers(again()).await, "Changed Secret prod/one");
    stage.change("a", "two");
    assert_eq!(stage.triggers(again()).await, "Changed Secret prod/two");
    assert_eq!(stage.triggers(failed()).await, "RequeueAfter");
    assert_eq!(stage.triggers(failed()).await, "Retry");
    stage.change("a", "three");
    assert_eq!(stage.triggers(CallResult::Done).await, "Changed Secret prod/three");
}

#[tokio::test(start_paused = true)]
async fn keys_delayed_by_an_outage_run_as_retries() {
    let mut stage = Stage::new(1);
    stage.change("a", "one");
    stage.triggers(unreachable_server()).await;
    assert!(stage.is_quiet().await);
    let began = Instant::now();
    tokio::time::advance(OUTAGE_WITHOUT_RETRY_MAX).await;
    stage.dispatch.recover(began);
    assert_eq!(stage.triggers(CallResult::Done).await, "Retry");
}

#[tokio::test(start_paused = true)]
async fn a_primary_deleted_before_the_takeover_is_reported_once_and_forgotten() {
    let mut stage = Stage::new(1);
    stage.dispatch.keys.catch_up([(key("a"), "u-7".into())], TriggerReason::Swap);
    assert_eq!(stage.triggers(CallResult::Done).await, "Deleted ConfigMap prod/a");
    assert!(stage.is_quiet().await);
    assert_eq!(stage.dispatch.keys.memory().take_triggers(&key("a")).iter().count(), 0);
}
