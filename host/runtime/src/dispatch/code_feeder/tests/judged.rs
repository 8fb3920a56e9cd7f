//! Changes about which the plugin's own code decides.

use windlass_core::queue::trigger::TriggerReason;

use super::super::judge::{ASKING_PAUSE, AskingPause, FAILED_CALLS_TIME_MAX, FAILURES_IN_A_ROW_MAX};
use super::scene::{FINALIZER, Scene};
use super::*;

/// A predicate of texts: `keep` counts, and `fail` makes it fail.
fn scene() -> Scene {
    Scene::new(|(_, new)| match new {
        "fail" => Err("no idea".to_owned()),
        new => Ok(new.starts_with("keep")),
    })
}

fn texts(asked: &[Vec<String>]) -> Vec<Vec<&str>> {
    asked.iter().map(|call| call.iter().map(String::as_str).collect()).collect()
}

#[tokio::test(start_paused = true)]
async fn only_changes_that_the_code_lets_pass_become_keys() {
    let mut scene = scene();
    scene.set("a", "keep", false);
    scene.set("b", "drop", false);
    scene.set("c", "drop", false);
    scene.set("c", "keep it", false);
    scene.goes_on();
    assert_eq!(texts(&scene.asked()), [["keep", "drop", "drop", "keep it"]]);
    assert_eq!((scene.queued(), scene.filtered()), (vec!["a".to_owned(), "c".to_owned()], 2));
    // The object matched before, but the predicate drops this change.
    scene.set("a", "drop", false);
    scene.goes_on();
    assert_eq!((scene.queued(), scene.filtered()), (vec![], 3));
}

#[tokio::test(start_paused = true)]
async fn what_declared_predicates_filter_out_is_not_put_to_the_code() {
    let mut scene = scene();
    scene.feeder.sink.route.predicates = [Predicate::Generation].into();
    scene.set("a", "drop", false);
    scene.goes_on();
    scene.asked();
    scene.set("a", "keep", false);
    scene.goes_on();
    assert_eq!((texts(&scene.asked()), scene.queued()), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn deletions_become_keys_without_a_question() {
    let mut scene = scene();
    for name in ["a", "b"] {
        scene.set(name, "drop", false);
    }
    scene.goes_on();
    scene.asked();
    let waits = format!(r#"{{"metadata":{{"finalizers":["{FINALIZER}"]}}}}"#);
    scene.set("a", &waits, true);
    scene.remove("b");
    scene.goes_on();
    assert_eq!((texts(&scene.asked()), scene.queued()), (vec![], vec!["a".to_owned(), "b".to_owned()]));
    let memory = scene.memory.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(memory.uid_of_gone(&ObjectKey::namespaced("prod", "b")).as_deref(), Some("b"));
    drop(memory);
    scene.set("a", &format!("{waits} "), true);
    scene.goes_on();
    assert_eq!((texts(&scene.asked()), scene.queued()), (vec![], vec!["a".to_owned()]), "its clean-up waits");
}

#[tokio::test(start_paused = true)]
async fn hidden_objects_are_not_put_to_the_code() {
    let mut scene = scene();
    let new = Object::new(pod("windlass", "keep", 1).header.clone(), "keep");
    scene.happens(WatchEvent::Applied { old: None, new, initial: false });
    scene.goes_on();
    assert_eq!((texts(&scene.asked()), scene.queued()), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_rescan_queues_what_matches_now_in_the_background_and_says_why() {
    let mut scene = scene();
    for (name, text) in [("a", "keep"), ("b", "drop"), ("c", "keep"), ("d", "keep")] {
        scene.set(name, text, false);
    }
    scene.goes_on();
    scene.asked();
    scene.queued();
    scene.rescan(TriggerReason::Resync);
    scene.rescan(TriggerReason::Configuration);
    scene.set("c", "drop", false);
    scene.remove("d");
    scene.goes_on();
    assert_eq!(texts(&scene.asked()), [["drop", "keep", "drop", "drop"]], "the change, and then each object once");
    scene.queue.add(ObjectKey::namespaced("prod", "urgent"));
    let first = scene.queue.get().now_or_never().flatten().expect("it is queued");
    assert_eq!(&*first.name, "d", "it is gone");
    scene.queue.done(&first);
    let next = scene.queue.get().now_or_never().flatten().expect("it is queued");
    assert_eq!(&*next.name, "urgent");
    scene.queue.done(&next);
    let triggers = scene.memory.lock().expect("no panic").take_triggers(&ObjectKey::namespaced("prod", "a"));
    assert!(triggers.to_string().ends_with("Configuration"), "{triggers}");
    assert_eq!(scene.queued(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn events_before_the_caches_are_filled_are_left_to_the_rescan() {
    let mut scene = scene();
    scene.fill(false);
    scene.set("a", "drop", false);
    scene.set("a", "keep", false);
    scene.set("b", "keep", false);
    scene.remove("b");
    scene.rescan(TriggerReason::Configuration);
    scene.goes_on();
    assert_eq!((texts(&scene.asked()), scene.queued()), (vec![], vec![]));
    scene.fill(true);
    scene.rescan(TriggerReason::Start);
    let new = Object::new(pod("prod", "a", 1).header.clone(), "keep");
    scene.happens(WatchEvent::Applied { old: None, new, initial: true });
    scene.goes_on();
    let queued = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!((texts(&scene.asked()), scene.queued()), (vec![vec!["keep"]], queued), "a deletion needs no question");
}

#[tokio::test(start_paused = true)]
async fn a_run_requested_before_the_caches_are_filled_is_not_lost() {
    let mut scene = scene();
    scene.fill(false);
    for name in ["requested", "changed"] {
        scene.set(name, "drop", false);
    }
    let requested = r#"{"metadata":{"annotations":{"windlass.dev/run-requested-at":"now"}}}"#;
    scene.set("requested", requested, false);
    scene.set("changed", "drop it", false);
    scene.goes_on();
    scene.fill(true);
    scene.rescan(TriggerReason::Start);
    scene.goes_on();
    let trigger = scene.memory.lock().expect("no panic").take_triggers(&ObjectKey::namespaced("prod", "requested"));
    assert!(trigger.has_run_request(), "{trigger}");
    assert_eq!(scene.queued(), ["requested"]);
}

#[tokio::test(start_paused = true)]
async fn a_child_deleted_before_the_caches_are_filled_runs_its_parent_then() {
    let mut scene = scene();
    let code = CodePredicate { finalizer: FINALIZER.into(), is_primary: false, deletions: true };
    let route = &mut scene.feeder.sink.route;
    // Only existing primaries count for this mapping, so they must be known.
    (route.code_predicate, route.mapping) = (Some(code), Mapping::ReferencedBy("by-app".into()));
    scene.fill(false);
    scene.set("web", "drop", false);
    scene.remove("web");
    scene.goes_on();
    let cache = Filled::with(&["x", "y"]);
    let index = Index { name: "by-app".into(), source: Filled::by_app() };
    scene.feeder.sink.primaries = cache.primaries().found_by([index]);
    scene.fill(true);
    scene.goes_on();
    assert_eq!(scene.queued(), ["x", "y"]);
}

#[tokio::test(start_paused = true)]
async fn a_feeder_begins_with_the_changes_that_were_kept_for_it() {
    let mut scene = scene();
    let mut kept = WaitingChanges::default();
    for (namespace, name) in [("prod", "a"), ("windlass", "hidden")] {
        let last = Object::new(pod(namespace, name, 1).header.clone(), "drop");
        assert!(kept.hold(WatchEvent::Deleted(Tombstone { last, final_state_unknown: false }), false).is_none());
    }
    scene.feeder = scene.feeder.beginning_with(kept);
    scene.goes_on();
    assert_eq!(scene.queued(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_changes_does_not_hold_up_a_rescan() {
    let mut scene = scene();
    // This object's name sorts before all others.
    scene.set("-", "keep listed", false);
    scene.goes_on();
    scene.asked();
    scene.rescan(TriggerReason::Resync);
    scene.predicate.turns.forget_permits(100_000);
    scene.predicate.turns.add_permits(1);
    for at in 0..2 * CODE_CALL_CHANGES_MAX {
        scene.set(&format!("{at:04}"), "drop", false);
    }
    scene.goes_on();
    let first = scene.asked().swap_remove(0);
    assert!(first.len() == CODE_CALL_CHANGES_MAX && first.contains(&"keep listed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_change_waits_for_one_call_of_a_rescan_at_most() {
    let scene = scene();
    for at in 0..3 * CODE_CALL_CHANGES_MAX {
        scene.set(&format!("{at:04}"), "drop", false);
    }
    let Scene { mut feeder, predicate, rescans, queue, .. } = scene;
    // The rescan finds the objects. Their events would only add to it.
    let (events, source) = mpsc::unbounded_channel();
    feeder.source = source;
    predicate.turns.forget_permits(100_000);
    rescans.request(TriggerReason::Start);
    let mut run = std::pin::pin!(tokio::task::unconstrained(feeder.run()));
    assert!(run.as_mut().now_or_never().is_none());
    let new = Object::new(pod("prod", "new", 1).header.clone(), "keep");
    events.send(WatchEvent::Applied { old: None, new, initial: false }).expect("it is read");
    predicate.turns.add_permits(2);
    assert!(run.as_mut().now_or_never().is_none());
    assert_eq!(queue.len(), 1, "the second call was about the change");
}

#[tokio::test(start_paused = true)]
async fn a_change_over_which_the_code_fails_counts_and_the_others_are_judged() {
    let mut scene = scene();
    for (name, text) in [("a", "drop"), ("b", "fail"), ("c", "keep"), ("d", "drop")] {
        scene.set(name, text, false);
    }
    scene.goes_on();
    let sizes: Vec<_> = scene.asked().iter().map(Vec::len).collect();
    assert_eq!(sizes, [4, 2, 1, 2, 1, 2]);
    assert_eq!((scene.queued(), scene.filtered()), (vec!["b".to_owned(), "c".to_owned()], 2));
}

#[tokio::test(start_paused = true)]
async fn code_that_keeps_failing_is_not_asked_for_a_while() {
    let mut scene = scene();
    for at in 0..100 {
        scene.set(&format!("{at:02}"), "fail", false);
    }
    scene.goes_on();
    let single = scene.asked().iter().filter(|call| call.len() == 1).count();
    assert_eq!((single, scene.queued().len()), (FAILURES_IN_A_ROW_MAX, 100));
    scene.set("a", "drop", false);
    scene.goes_on();
    assert_eq!((texts(&scene.asked()), scene.queued()), (vec![], vec!["a".to_owned()]));
    tokio::time::advance(ASKING_PAUSE).await;
    scene.set("a", "drop", false);
    scene.goes_on();
    assert_eq!((texts(&scene.asked()), scene.queued()), (vec![vec!["drop"]], vec![]));
}

#[tokio::test(start_paused = true)]
async fn code_that_is_too_slow_for_each_second_object_does_not_hold_up_a_list() {
    let mut scene = scene();
    let deadline = Duration::from_secs(30);
    scene.feeder.mapper.failure_takes = deadline;
    for at in 0..100 {
        scene.set(&format!("{at:02}"), if at % 2 == 0 { "fail" } else { "drop" }, false);
    }
    let _ = tokio::time::timeout(FAILED_CALLS_TIME_MAX + deadline, scene.feeder.run()).await;
    let queued = scene.queued().len();
    assert!(queued > 90, "{queued} of 100: those that are not asked about count");
    scene.asked();
    tokio::time::advance(ASKING_PAUSE).await;
    scene.set("a", "drop", false);
    scene.goes_on();
    assert_eq!((texts(&scene.asked()), scene.queued()), (vec![vec!["drop"]], vec![]));
}

#[tokio::test(start_paused = true)]
async fn quick_failures_between_answers_do_not_stop_the_questions() {
    let mut scene = scene();
    scene.feeder.mapper.failure_takes = Duration::from_millis(1);
    for at in 0..200 {
        scene.set(&format!("{at:03}"), if at % 2 == 0 { "fail" } else { "drop" }, false);
    }
    let _ = tokio::time::timeout(Duration::from_mins(1), scene.feeder.run()).await;
    assert_eq!((scene.queued().len(), scene.filtered()), (100, 100));
}

#[tokio::test(start_paused = true)]
async fn failed_calls_may_take_a_tenth_of_the_time() {
    let took = FAILED_CALLS_TIME_MAX / 10;
    let begins_a_pause = async |between: Duration| {
        let mut pause = AskingPause::default();
        for _ in 0..50 {
            tokio::time::advance(took).await;
            if pause.fails(took, true) {
                return true;
            }
            pause.answers();
            tokio::time::advance(between).await;
        }
        false
    };
    assert!(!begins_a_pause(10 * took).await);
    assert!(begins_a_pause(5 * took).await);
}

#[tokio::test(start_paused = true)]
async fn in_a_flood_the_oldest_changes_count_without_a_question() {
    let mut scene = scene();
    for at in 0..WAITING_EVENTS_MAX + 2 {
        let new = Object::new(pod("prod", &format!("{at:04}"), 1).header.clone(), "drop");
        scene.feeder.hold(WatchEvent::Applied { old: None, new, initial: false });
    }
    assert_eq!((scene.feeder.waiting.len(), scene.queued()), (WAITING_EVENTS_MAX, vec!["0000".into(), "0001".into()]));
    scene.goes_on();
    assert_eq!((scene.queued(), scene.filtered()), (vec![], WAITING_EVENTS_MAX));
}

#[tokio::test(start_paused = true)]
async fn a_retiring_generation_counts_what_is_left_without_a_question() {
    let mut scene = scene();
    scene.predicate.turns.forget_permits(100_000);
    for name in ["listed", "in-hand"] {
        scene.set(name, "drop", false);
    }
    scene.rescan(TriggerReason::Start);
    scene.goes_on();
    assert_eq!(texts(&scene.asked()), [["drop"; 4]]);
    scene.set("waiting", "drop", false);
    scene.feeder.finish();
    assert_eq!((texts(&scene.asked()), scene.queued().len()), (vec![], 3));
    scene.feeder.finish();
    assert!(scene.queued().is_empty());
}

#[tokio::test(start_paused = true)]
async fn many_changes_that_concern_every_primary_queue_them_once() {
    let cache = Filled::with(&["x", "y"]);
    let mut scene = scene();
    let sink = &mut scene.feeder.sink;
    (sink.route.mapping, sink.primaries) = (Mapping::All, cache.primaries());
    scene.goes_on();
    let flood = |scene: &mut Scene, changes: usize| {
        for at in 0..changes {
            let new = Object::new(pod("prod", &format!("{at:04}"), 1).header.clone(), "keep");
            scene.feeder.hold(WatchEvent::Applied { old: None, new, initial: false });
        }
    };
    flood(&mut scene, WAITING_EVENTS_MAX + 10);
    assert_eq!((scene.queued().len(), scene.feeder.waiting.len()), (0, 9));
    scene.goes_on();
    assert_eq!(scene.queued(), ["x", "y"]);
    let (memory, x) = (scene.memory.clone(), ObjectKey::namespaced("prod", "x"));
    let triggers = || memory.lock().unwrap_or_else(PoisonError::into_inner).take_triggers(&x).iter().count();
    assert!(triggers() > 0);
    flood(&mut scene, 9);
    scene.feeder.finish();
    assert_eq!((triggers(), scene.queued().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_hidden_primary_that_is_deleted_is_not_remembered() {
    let mut scene = scene();
    for namespace in ["prod", "windlass"] {
        let last = Object::new(pod(namespace, "a", 1).header.clone(), "keep");
        scene.feeder.hold(WatchEvent::Deleted(Tombstone { last, final_state_unknown: false }));
    }
    let memory = scene.memory.lock().unwrap_or_else(PoisonError::into_inner);
    let remembered = ["prod", "windlass"].map(|it| memory.uid_of_gone(&ObjectKey::namespaced(it, "a")).is_some());
    assert_eq!(remembered, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_rescan_that_has_not_ended_is_left_to_the_next_generation() {
    let mut scene = scene();
    scene.set("a", "drop", false);
    scene.goes_on();
    scene.predicate.turns.forget_permits(100_000);
    scene.rescan(TriggerReason::Start);
    scene.goes_on();
    scene.feeder.finish();
    assert!(scene.queued().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_in_hand_during_a_panic_counts() {
    let mut scene = scene();
    scene.predicate.turns.forget_permits(100_000);
    scene.set("a", "drop", false);
    scene.remove("a");
    scene.goes_on();
    assert!(scene.queued().is_empty());
    // This is what happens after a panic.
    scene.goes_on();
    assert_eq!((scene.queued(), scene.feeder.waiting.missed), (vec!["a".to_owned()], false));
}

#[tokio::test(start_paused = true)]
async fn a_rescan_of_a_watch_without_a_predicate_maps_all_its_objects() {
    let mut scene = scene();
    let route = &mut scene.feeder.sink.route;
    (route.code_predicate, route.mapping) = (None, Mapping::SameName);
    for name in ["a", "b"] {
        scene.set(name, "drop", false);
    }
    scene.goes_on();
    assert_eq!(scene.queued(), ["a", "b"]);
    scene.rescan(TriggerReason::Swap);
    scene.goes_on();
    assert_eq!((texts(&scene.asked()), scene.queued()), (vec![], vec!["a".to_owned(), "b".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_changes_that_concern_every_primary_runs_them_once() {
    let mut scene = scene();
    let cache = Filled::with(&["x", "y"]);
    scene.feeder.sink.route.mapping = Mapping::All;
    scene.feeder.sink.primaries = cache.primaries();
    for name in ["a", "b", "c"] {
        scene.set(name, "keep", false);
    }
    scene.goes_on();
    assert_eq!((scene.queued(), scene.queue.metrics().adds), (vec!["x".to_owned(), "y".to_owned()], 2));
    scene.set("a", "drop", false);
    scene.goes_on();
    assert!(scene.queued().is_empty());
}
