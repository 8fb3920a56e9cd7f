//! Tests of the state that is kept for a key between two calls: its failures, until their cause is fixed, and the UID
//! of a deleted primary.

use windlass_core::object::{Header, Object};
use windlass_core::queue::outcome::{Retry, WAITED};
use windlass_core::queue::trigger::TriggerReason;

use super::*;
use crate::dispatch::memory::KeyMemory;

fn header(generation: i64, version: &str) -> Header {
    Header { generation, ..Header::bare(key("a"), "u", version) }
}

/// Whether failures at the state `left` of the primary are forgotten once it is in the state `found`.
fn are_forgotten(left: Option<&Header>, found: Option<Header>) -> bool {
    let mut memory = KeyMemory::default();
    memory.fails(&key("a"), left.map(SlowMark::of));
    memory.begins(&key("a"), found.map(|header| Object::new(header, "{}")).as_ref())
}

#[test]
fn failures_are_forgotten_when_another_client_changes_the_primary() {
    let left = header(3, "10");
    assert!(!are_forgotten(Some(&left), Some(header(3, "10"))));
    assert!(!are_forgotten(Some(&left), Some(header(3, "11"))), "a status is not a desired state");
    assert!(are_forgotten(Some(&left), Some(header(4, "11"))));
    assert!(are_forgotten(Some(&left), Some(Header { deleting: true, ..header(3, "11") })));
    assert!(are_forgotten(Some(&left), Some(Header { uid: "v".into(), ..header(3, "11") })), "another of its name");
    assert!(are_forgotten(Some(&left), None), "it is gone");
    assert!(!are_forgotten(None, None), "it has been gone");
    assert!(
        are_forgotten(Some(&header(0, "10")), Some(header(0, "11"))),
        "for a kind without generations, any change counts"
    );
}

#[test]
fn a_key_that_has_not_failed_has_nothing_to_forget() {
    let mut memory = KeyMemory::default();
    assert!(!memory.begins(&key("a"), None));
    memory.fails(&key("a"), None);
    memory.ends(&key("a"));
    assert!(!memory.begins(&key("a"), Some(&Object::new(header(1, "1"), "{}"))));
    assert!(memory.forget_failed().is_empty());
}

fn transient() -> CallResult {
    CallResult::Failed(vec![Failure::Transient("not yet".to_owned())])
}

/// This happens with another configuration, and with another version of the plugin.
#[tokio::test(start_paused = true)]
async fn a_fresh_start_forgets_earlier_failures() {
    let mut stage = Stage::new(1);
    stage.dispatch.keys.queue.add(key("a"));
    for attempt in 0..=stage.dispatch.max_retries {
        let call = stage.call().await;
        assert_eq!(call.request.attempt, attempt);
        call.answer.send(transient()).expect("the worker waits");
    }
    assert!(stage.is_quiet().await);
    assert_eq!(stage.dispatch.status.given_up(), 1);
    stage.dispatch.keys.start_afresh(TriggerReason::Configuration);
    assert_eq!(stage.dispatch.status.given_up(), 0);
    stage.dispatch.keys.queue.add(key("a"));
    let call = stage.call().await;
    assert_eq!(call.request.attempt, 0);
    let began = Instant::now();
    call.answer.send(unreachable_server()).expect("the worker waits");
    stage.answer("a", CallResult::Done).await;
    assert_eq!(began.elapsed(), Duration::from_mins(1), "the first backoff");
}

/// The annotation does not change the generation, so the primary looks as it did when the key failed.
#[tokio::test(start_paused = true)]
async fn a_requested_run_has_all_its_retries_at_once() {
    let mut stage = Stage::new(1);
    stage.dispatch.keys.queue.add(key("a"));
    for _ in 0..=stage.dispatch.max_retries {
        stage.answer("a", transient()).await;
    }
    assert!(stage.is_quiet().await);
    assert_eq!(stage.dispatch.status.given_up(), 1);
    let began = Instant::now();
    let requested = Arc::new(TriggerReason::RunRequested.into());
    stage.dispatch.keys.memory().note(&key("a"), &requested);
    stage.dispatch.keys.queue.add(key("a"));
    let call = stage.call().await;
    assert_eq!((call.request.attempt, stage.dispatch.status.given_up()), (0, 0));
    assert_eq!((call.triggers.as_str(), began.elapsed()), ("RunRequested", Duration::ZERO));
    // A paused object is not called, so the request applies to the next call.
    call.answer.send(CallResult::NotCalled { again: None }).expect("the worker waits");
    stage.dispatch.keys.queue.add(key("a"));
    let call = stage.call().await;
    assert_eq!(call.triggers, "RunRequested");
    call.answer.send(transient()).expect("the worker waits");
    let call = stage.call().await;
    assert_eq!((call.request.attempt, call.triggers.as_str()), (1, "Retry"), "the request applied to one call");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_receives_a_deleted_primarys_uid_until_it_succeeds() {
    let mut stage = Stage::new(1);
    stage.dispatch.keys.memory().goes(key("a"), "u-7".into());
    for (result, uid) in [(transient(), Some("u-7")), (CallResult::Done, Some("u-7")), (CallResult::Done, None)] {
        stage.dispatch.keys.queue.add(key("a"));
        let call = stage.call().await;
        assert_eq!(call.request.uid.as_deref(), uid);
        call.answer.send(result).expect("the worker waits");
        assert!(stage.is_quiet().await);
    }
}

#[test]
fn a_recreated_primary_does_not_count_as_deleted() {
    let mut memory = KeyMemory::default();
    memory.goes(key("a"), "u-7".into());
    memory.begins(&key("a"), Some(&Object::new(header(1, "1"), "{}")));
    assert_eq!(memory.uid_of_gone(&key("a")), None);
}

/// Traps for the key `live`, and has nothing to do for any other key.
struct OnlyOneLives;

impl Reconcile for OnlyOneLives {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let is_live = &*call.request.key.name == "live";
        let trapped = || CallResult::Trapped { reason: "trap", message: "unreachable".to_owned() };
        async move {
            if is_live { Called::made(trapped(), Duration::ZERO) } else { Called::not_made(CallResult::Done) }
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_generation_does_not_pass_its_probation_on_calls_that_were_never_made() {
    let mut stage = Stage::with_clock(0, 1, Arc::new(SystemClock::new()));
    Arc::get_mut(&mut stage.dispatch).expect("no worker has it yet").callee.plugin = Box::new(OnlyOneLives);
    let record = stage.dispatch.record.clone();
    record.begin_probation(probation::CallCounts { calls: 100, failures: 0 });
    let running = Running::new(stage.dispatch.clone(), &stage.phases.clone());
    running.work();
    for terminating in 0..120 {
        stage.dispatch.keys.queue.add(key(&format!("gone-{terminating}")));
    }
    assert!(stage.is_quiet().await);
    assert_eq!(record.judged().now_or_never(), None, "no call was made yet");
    for _ in 0..probation::PROBATION_FAILURES_MIN {
        stage.dispatch.keys.queue.add(key("live"));
        assert!(stage.is_quiet().await);
    }
    assert!(matches!(record.judged().now_or_never(), Some(Judged::Failed(_))));
    assert_eq!(stage.dispatch.keys.queue.add_rate_limited(key("other"), Retry::Counted, None), Duration::from_mins(1));
}

/// Reports a failure for `old` and `new`, and times out for `slow`.
struct Unlucky;

impl Reconcile for Unlucky {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let result = match &*call.request.key.name {
            "slow" => CallResult::Trapped { reason: WAITED, message: "for an answer".to_owned() },
            _ => CallResult::Failed(vec![Failure::Transient("not yet".to_owned())]),
        };
        async move { Called::made(result, Duration::ZERO) }.boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn old_failures_and_waits_for_servers_do_not_cause_a_rollback() {
    let mut stage = Stage::with_clock(0, 1, Arc::new(SystemClock::new()));
    Arc::get_mut(&mut stage.dispatch).expect("no worker has it yet").callee.plugin = Box::new(Unlucky);
    let (dispatch, record) = (stage.dispatch.clone(), stage.dispatch.record.clone());
    let running = Running::new(stage.dispatch.clone(), &stage.phases.clone());
    running.work();
    dispatch.keys.queue.add(key("old"));
    assert!(stage.is_quiet().await);
    dispatch.keys.take_over([]);
    record.begin_probation(probation::CallCounts { calls: 100, failures: 0 });
    for name in ["old", "slow"] {
        for _ in 0..probation::PROBATION_FAILURES_MIN {
            dispatch.keys.queue.add(key(name));
            assert!(stage.is_quiet().await);
        }
        assert_eq!(record.judged().now_or_never(), None, "{name}");
    }
    for _ in 0..probation::PROBATION_FAILURES_MIN {
        dispatch.keys.queue.add(key("new"));
        assert!(stage.is_quiet().await);
    }
    assert!(matches!(record.judged().now_or_never(), Some(Judged::Failed(_))));
}
