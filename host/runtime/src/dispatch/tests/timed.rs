//! The key of a timer.

use windlass_core::cache::mapping::Primaries as _;
use windlass_core::timer::{DueTime, KeptProgress, TimerStep};

use super::*;
use crate::dispatch::timer::ControllerTimer;
use crate::dispatch::timer::tests::{NotedRecords, timer};

/// A dispatch whose only primary is `timer`.
fn timed(timer: ControllerTimer) -> (Stage, Arc<ControllerTimer>) {
    let timer = Arc::new(timer);
    let stores = Stores::default().or_timer(Some(timer.clone()));
    (Stage::with(1, 8, Arc::new(SystemClock::new()), stores), timer)
}

/// Loads the timer and queues its key for a due time, whose call was to be made at `planned`.
async fn run(stage: &Stage, timer: &ControllerTimer, planned: Option<Duration>) -> DueTime {
    timer.load().await.expect("read");
    let due = timer.next().expect("it is due");
    assert_eq!(timer.reach(due, planned.unwrap_or(due.since_1970())), TimerStep::Call(due));
    stage.dispatch.keys.run_timer(&timer.key);
    due
}

#[tokio::test(start_paused = true)]
async fn no_retry_follows_once_a_later_call_has_handled_the_due_time() {
    let (mut stage, timer) = timed(timer("once", &NotedRecords::default()));
    run(&stage, &timer, None).await;
    let failed = CallResult::Failed(vec![Failure::Transient("not yet".to_owned())]);
    stage.call().await.answer.send(failed).expect("the worker waits");
    assert!(stage.is_quiet().await);
    stage.dispatch.keys.run_timer(&timer.key);
    stage.call().await.answer.send(CallResult::Done).expect("the worker waits");
    tokio::time::sleep(Duration::from_hours(2)).await;
    assert!(!timer.is_pending() && stage.is_quiet().await, "its backoff leads to no call without a due time");
}

#[tokio::test(start_paused = true)]
async fn a_due_time_whose_key_waited_for_too_long_is_skipped() {
    let (records, now) = (NotedRecords::default(), windlass_world::now());
    let last = DueTime::at(now.saturating_sub(Duration::from_mins(62)));
    let kept = KeptProgress { rule: "every 3600s".to_owned(), begun: last, last: Some(last), tried: None };
    *records.kept.lock().expect("no panic") = Some(kept);
    let (mut stage, timer) = timed(timer("skip", &records));
    let due = run(&stage, &timer, Some(now)).await;
    assert!(timer.is_pending() && stage.is_quiet().await);
    assert!(!timer.is_pending() && timer.to_json()["lastDueTime"] == due.to_string(), "{}", timer.to_json());
}

#[tokio::test(start_paused = true)]
async fn a_muted_start_calls_a_timer_only_if_changes_call_it() {
    for follows_changes in [true, false] {
        let (mut stage, timer) = timed(timer("once", &NotedRecords::default()).following_changes(follows_changes));
        timer.load().await.expect("read");
        stage.dispatch.keys.catch_up([], TriggerReason::Start);
        assert_eq!(!stage.is_quiet().await, follows_changes);
    }
}

/// Such a call would not know when the timer was due last.
#[tokio::test(start_paused = true)]
async fn a_change_calls_no_timer_before_its_progress_is_read() {
    for follows_changes in [true, false] {
        let (stage, timer) = timed(timer("once", &NotedRecords::default()).following_changes(follows_changes));
        let primaries = &stage.dispatch.keys.primaries;
        assert!(primaries.all().is_empty());
        timer.load().await.expect("read");
        assert_eq!(timer.was_wanted(), follows_changes);
        assert_eq!((primaries.all(), timer.was_wanted()), (vec![timer.key.clone()], false));
    }
}
