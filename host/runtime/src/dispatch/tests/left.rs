//! Keys that an abandoned round leaves to the next one.

use std::future::pending;

use windlass_core::queue::Priority;
use windlass_core::queue::trigger::Trigger;

use super::filled::Filled;
use super::*;

/// A round without workers whose plugin may decide which primaries count, with one permit.
fn round(primaries: Stores, filters_primaries: bool) -> (Stage, Running) {
    let mut stage = Stage::with(0, 1, Arc::new(SystemClock::new()), primaries);
    let dispatch = Arc::get_mut(&mut stage.dispatch).expect("no worker has it yet");
    dispatch.keys.rescans = Rescans::new(filters_primaries);
    let running = Running::new(stage.dispatch.clone(), &stage.phases);
    (stage, running)
}

/// The names of the keys that `stage` has left, if all primaries in `primaries` exist.
fn left(stage: &Stage, primaries: &Stores) -> Vec<String> {
    let left = stage.dispatch.shutdown.left.take(&stage.dispatch.keys.primary, primaries);
    left.into_iter().map(|(key, _)| key.name.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_round_leaves_all_keys_that_are_to_run() {
    let names = ["called", "delayed", "fed", "held", "permitless", "queued"];
    let cache = Filled::with(&names);
    let (mut stage, mut running) = round(cache.primaries(), true);
    let queue = stage.dispatch.keys.queue.clone();
    queue.add(key("held"));
    let held = queue.get().await.expect("it is ready");
    queue.park(&held);
    running.work();
    running.work();
    queue.add(key("called"));
    let call = stage.call().await;
    queue.add(key("permitless"));
    assert!(stage.is_quiet().await);
    queue.add_after(key("delayed"), Duration::from_hours(1));
    queue.add_with(key("queued"), Priority::BACKGROUND);
    let feeder = queue.clone();
    running.keep(async move {
        feeder.add(key("fed"));
        pending().await
    });
    let abandoned = tokio::spawn(running.abandon());
    assert!(stage.is_quiet().await);
    // The queue takes no more keys, so this request would be lost with it.
    call.answer.send(CallResult::RequeueAfter(Duration::from_hours(1))).expect("the worker waits");
    abandoned.await.expect("no panic");
    assert_eq!(left(&stage, &cache.primaries()), names);
    assert!(left(&stage, &cache.primaries()).is_empty(), "they are taken once");
}

/// A feeder that queues a last key when it ends.
struct FeedsLast(Queue<ObjectKey>);

impl Drop for FeedsLast {
    fn drop(&mut self) {
        self.0.add(key("last"));
    }
}

#[tokio::test(start_paused = true)]
async fn idle_workers_do_not_take_the_last_keys_of_an_abandoned_round() {
    let cache = Filled::with(&["fed", "last"]);
    let (mut stage, mut running) = round(cache.primaries(), true);
    let queue = stage.dispatch.keys.queue.clone();
    running.work();
    let of_feeder = queue.clone();
    running.feed("feeder", move || {
        let feeder = FeedsLast(of_feeder.clone());
        async move {
            let _feeder = feeder;
            pending::<()>().await;
        }
    });
    running.keep(async move {
        queue.add(key("fed"));
        pending().await
    });
    assert!(stage.is_quiet().await, "the worker waits for a key");
    running.abandon().await;
    assert_eq!(left(&stage, &cache.primaries()), ["fed", "last"]);
}

#[tokio::test(start_paused = true)]
async fn keys_are_not_lost_if_a_cache_is_empty_when_they_are_taken() {
    let (_informers, subscription) = unfilled().await;
    let primaries = Stores::new([subscription.store().clone()]);
    let (stage, running) = round(primaries.clone(), true);
    stage.dispatch.keys.queue.add_after(key("a"), Duration::from_hours(1));
    running.abandon().await;
    assert_eq!(left(&stage, &primaries), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_round_that_panics_leaves_its_keys() {
    let cache = Filled::with(&["a"]);
    let (stage, running) = round(cache.primaries(), true);
    stage.dispatch.keys.queue.add_after(key("a"), Duration::from_hours(1));
    drop(running);
    assert_eq!(left(&stage, &cache.primaries()), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn keys_without_work_and_of_unknown_primaries_are_not_left() {
    let cache = Filled::with(&["done"]);
    let (mut stage, running) = round(cache.primaries(), true);
    running.work();
    for name in ["done", "unknown"] {
        stage.dispatch.keys.queue.add(key(name));
        stage.answer(name, CallResult::Done).await;
    }
    stage.dispatch.keys.queue.add_after(key("unknown"), Duration::from_hours(1));
    running.abandon().await;
    assert!(left(&stage, &cache.primaries()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_primary_is_left_with_its_uid_by_any_controller() {
    for filters_primaries in [true, false] {
        let (stage, running) = round(Stores::default(), filters_primaries);
        stage.dispatch.keys.memory().goes(key("a"), "u-1".into());
        stage.dispatch.keys.queue.add(key("a"));
        running.abandon().await;
        let next = Stage::new(0);
        let left = stage.dispatch.shutdown.left.take(&stage.dispatch.keys.primary, &Stores::default());
        next.dispatch.keys.queue_left(left, TriggerReason::Start);
        assert_eq!(next.dispatch.keys.queue.len(), 1);
        assert_eq!(next.dispatch.keys.memory().uid_of_gone(&key("a")).as_deref(), Some("u-1"));
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_primaries_of_one_name_the_last_that_was_deleted_is_told() {
    let (older, newer) = (Arc::<str>::from("u-1"), Arc::<str>::from("u-2"));
    let (stage, running) = round(Stores::default(), false);
    let Dispatch { keys, shutdown, .. } = &*stage.dispatch;
    let uid = || keys.memory().uid_of_gone(&key("a"));
    // The feeders run before the deletions of earlier rounds are queued.
    keys.memory().goes(key("a"), newer.clone());
    keys.catch_up([(key("a"), older.clone())], TriggerReason::Start);
    assert_eq!(uid(), Some(newer.clone()));
    shutdown.left.add(&keys.primary, [(key("a"), Some(older.clone()))]);
    stage.dispatch.queue_left(TriggerReason::Start);
    assert_eq!(uid(), Some(newer.clone()));

    shutdown.left.add(&keys.primary, [(key("a"), Some(older.clone())), (key("b"), Some(older.clone()))]);
    keys.queue.add(key("b"));
    running.abandon().await;
    let left = shutdown.left.take(&keys.primary, &Stores::default());
    assert_eq!(left.into_iter().map(|(_, left)| left.gone).collect::<Vec<_>>(), [Some(newer), Some(older)]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_a_user_has_requested_is_still_one_in_the_next_round() {
    let cache = Filled::with(&["a"]);
    let (stage, running) = round(cache.primaries(), true);
    let requested = Arc::new(Trigger::from(TriggerReason::RunRequested));
    stage.dispatch.keys.memory().note(&key("a"), &requested);
    stage.dispatch.keys.queue.add(key("a"));
    running.abandon().await;
    let (mut next, at_work) = round(cache.primaries(), true);
    at_work.work();
    let left = stage.dispatch.shutdown.left.take(&stage.dispatch.keys.primary, &cache.primaries());
    next.dispatch.keys.queue.add_with(key("other"), Priority::BACKGROUND);
    next.dispatch.keys.queue_left(left, TriggerReason::Start);
    let call = next.call().await;
    assert_eq!((call.request.key.clone(), call.triggers.as_str()), (key("a"), "RunRequested, Start"));
    call.answer.send(CallResult::Done).expect("the worker waits");
}

#[tokio::test(start_paused = true)]
async fn keys_are_not_left_to_primaries_of_another_kind() {
    let cache = Filled::with(&["a"]);
    let (stage, running) = round(cache.primaries(), true);
    stage.dispatch.keys.queue.add(key("a"));
    running.abandon().await;
    let other = PrimaryKind { kind: ObjectKind::new("v1", "Secret"), namespaced: true };
    assert!(stage.dispatch.shutdown.left.take(&other, &cache.primaries()).is_empty());
    assert!(left(&stage, &cache.primaries()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_round_without_keys_does_not_drop_those_of_another_kind() {
    let (stage, running) = round(Stores::default(), true);
    let other = PrimaryKind { kind: ObjectKind::new("v1", "Secret"), namespaced: true };
    stage.dispatch.shutdown.left.add(&other, [(key("a"), Some("u-1".into()))]);
    drop(running);
    assert_eq!(stage.dispatch.shutdown.left.take(&other, &Stores::default()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_was_deleted_before_a_round_could_begin_keeps_its_uid() {
    let (stage, _round) = round(Stores::default(), false);
    let (left, primary) = (&stage.dispatch.shutdown.left, &stage.dispatch.keys.primary);
    left.add(primary, [(key("a"), Some("u-1".into()))]);
    left.add(primary, [(key("a"), None), (key("moved"), None)]);
    let taken = left.take(primary, &Stores::default());
    let taken: Vec<_> = taken.iter().map(|(key, left)| (&*key.name, left.gone.as_deref())).collect();
    assert_eq!(taken, [("a", Some("u-1"))], "the other primary does not exist");
    left.add(primary, [(key("a"), Some("u-1".into()))]);
    left.forget_gone();
    assert!(left.take(primary, &Stores::default()).is_empty(), "its kind has gone");
}
