//! Tests the gate with caches that a test fills: each case of what a cache may show, and when.

mod fake;
mod tokio_clock;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use windlass_core::object::progress::Stamp;
use windlass_core::object::{Object, ObjectKey};
use windlass_core::queue::{ItemExponential, Queue};
use windlass_core::write::expectations::{Cache, Effect, Shown};
use windlass_core::write::gate::{Gate, Interest};

use fake::{FakeCache, key, object, terminating};
use tokio_clock::TokioClock;

/// The gate of one controller, with its queue and caches.
struct Bench {
    caches: Vec<Arc<FakeCache>>,
    gate: Arc<Gate>,
    queue: Queue<ObjectKey>,
}

impl Bench {
    fn of(caches: Vec<Arc<FakeCache>>, is_filtered: bool) -> Self {
        let clock = TokioClock::new();
        let queue = Queue::new(clock.clone(), ItemExponential::default());
        let cache = |progress: &Arc<FakeCache>| Cache { progress: progress.clone(), is_filtered };
        let gate = Gate::new(caches.iter().map(cache).collect(), queue.clone(), clock);
        Self { caches, gate, queue }
    }

    fn new(is_comparable: bool) -> Self {
        Self::of(vec![FakeCache::new(is_comparable)], false)
    }

    fn filtered(is_comparable: bool) -> Self {
        Self::of(vec![FakeCache::new(is_comparable)], true)
    }

    fn cache(&self) -> &FakeCache {
        &self.caches[0]
    }

    /// Sends a write to `name`.
    fn send(&self, name: &str) -> Interest {
        let all: Vec<_> = (0..self.caches.len()).collect();
        self.gate.open(&web(), &key(name), all).expect("there are caches")
    }

    /// Makes a complete write; its response comes before any event.
    fn write(&self, left: &Object) {
        self.send(&left.header.key.name).ended(&wrote(left));
    }

    fn holds(&self) -> bool {
        self.gate.holds(&web())
    }

    /// Has a worker get the key and find it held.
    fn park(&self) {
        self.queue.add(web());
        assert_eq!(self.queue.get().now_or_never().flatten(), Some(web()));
        assert!(self.holds(), "it is not held");
        self.queue.park(&web());
    }

    fn has_woken(&self) -> bool {
        !self.queue.is_empty()
    }
}

/// The key that makes the writes.
fn web() -> ObjectKey {
    key("web")
}

fn left(object: &Object, is_new: bool, shown: Shown) -> Effect {
    let header = &object.header;
    Effect::Left { uid: header.uid.clone(), version: header.version.clone(), is_new, shown: vec![shown; 4] }
}

fn wrote(object: &Object) -> Effect {
    left(object, false, Shown::Yes)
}

fn removed(uid: &str) -> Effect {
    Effect::Removed { uid: Some(uid.into()), for_good: false }
}

/// Removes the last finalizer of a terminating object.
fn released(uid: &str) -> Effect {
    Effect::Removed { uid: Some(uid.into()), for_good: true }
}

const BOTH: [bool; 2] = [true, false];

#[tokio::test]
async fn a_key_without_writes_runs() {
    let bench = Bench::new(true);
    assert!(!bench.holds());
    bench.send("a").ended(&Effect::Nothing);
    assert!(!bench.holds() && bench.gate.is_empty());
}

#[tokio::test]
async fn a_key_is_held_until_the_cache_shows_its_write() {
    for is_comparable in BOTH {
        let bench = Bench::new(is_comparable);
        let created = object("a", "u", "5");
        bench.write(&created);
        bench.park();
        bench.cache().applied(&object("other", "o", "4"));
        assert!(!bench.has_woken());
        bench.cache().applied(&created);
        assert!(bench.has_woken() && !bench.holds() && bench.gate.is_empty());
        assert_eq!((bench.gate.counts().held, bench.gate.counts().satisfied), (1, 1));
    }
}

#[tokio::test]
async fn a_write_holds_no_other_key() {
    let bench = Bench::new(true);
    bench.write(&object("a", "u", "5"));
    assert!(bench.holds() && !bench.gate.holds(&key("other")));
}

#[tokio::test]
async fn an_event_before_the_response_counts() {
    for is_comparable in BOTH {
        let bench = Bench::new(is_comparable);
        let sent = bench.send("a");
        bench.cache().applied(&object("a", "u", "5"));
        // By the time of the response, another client's write has replaced this state.
        bench.cache().applied(&object("a", "u", "6"));
        sent.ended(&wrote(&object("a", "u", "5")));
        assert!(!bench.holds() && bench.gate.is_empty());
        assert_eq!((bench.gate.counts().observed, bench.gate.counts().raised), (1, 0));
    }
}

#[tokio::test]
async fn a_later_version_is_no_proof_if_versions_do_not_compare() {
    let bench = Bench::new(false);
    bench.write(&object("a", "u", "5"));
    bench.cache().applied(&object("a", "u", "9"));
    assert!(bench.holds(), "the two versions cannot be ordered");
    bench.cache().applied(&object("a", "u", "5"));
    assert!(!bench.holds());
}

#[tokio::test]
async fn a_bookmark_is_enough_if_versions_compare() {
    let bench = Bench::new(true);
    bench.write(&object("a", "u", "5"));
    bench.cache().bookmark("4");
    assert!(bench.holds());
    bench.cache().bookmark("5");
    assert!(!bench.holds());
}

#[tokio::test]
async fn an_object_deleted_before_the_cache_saw_it_frees_its_key() {
    for is_comparable in BOTH {
        let bench = Bench::new(is_comparable);
        let created = object("a", "u", "5");
        bench.write(&created);
        bench.send("a").ended(&removed("u"));
        assert!(bench.holds());
        bench.cache().applied(&created);
        assert!(bench.holds(), "the cache still shows what the key has deleted");
        bench.cache().deleted(&object("a", "u", "6"));
        assert!(!bench.holds() && bench.gate.is_empty());
    }
}

#[tokio::test]
async fn the_deletion_of_an_object_not_yet_shown_is_awaited() {
    for is_comparable in BOTH {
        let bench = Bench::new(is_comparable);
        bench.send("a").ended(&removed("u"));
        assert!(bench.holds());
        bench.cache().applied(&object("a", "u", "5"));
        assert!(bench.holds());
        bench.cache().applied(&terminating("a", "u", "6"));
        assert!(!bench.holds() && bench.gate.is_empty(), "terminating is enough");
    }
}

#[tokio::test]
async fn a_deletion_event_before_the_response_counts() {
    for is_comparable in BOTH {
        let bench = Bench::new(is_comparable);
        bench.cache().applied(&object("a", "u", "5"));
        let sent = bench.send("a");
        bench.cache().deleted(&object("a", "u", "6"));
        sent.ended(&removed("u"));
        assert!(!bench.holds() && bench.gate.is_empty());
    }
}

#[tokio::test]
async fn releasing_a_terminating_object_holds_until_it_is_gone() {
    for is_comparable in BOTH {
        let bench = Bench::new(is_comparable);
        bench.cache().applied(&terminating("a", "u", "5"));
        bench.send("a").ended(&released("u"));
        bench.park();
        assert!(bench.gate.waiting(1).0[0].what.ends_with("(u) gone"), "{:?}", bench.gate.waiting(1));
        bench.cache().applied(&terminating("a", "u", "6"));
        assert!(!bench.has_woken(), "it was terminating before the write");
        bench.cache().deleted(&terminating("a", "u", "7"));
        assert!(bench.has_woken() && !bench.holds() && bench.gate.is_empty());
    }
}

#[tokio::test]
async fn the_end_of_a_released_object_before_the_response_counts() {
    for is_comparable in BOTH {
        let bench = Bench::new(is_comparable);
        bench.cache().applied(&terminating("a", "u", "5"));
        let sent = bench.send("a");
        bench.cache().deleted(&terminating("a", "u", "7"));
        bench.cache().applied(&object("a", "next", "8"));
        sent.ended(&released("u"));
        assert!(!bench.holds() && bench.gate.is_empty());
    }
}

#[tokio::test]
async fn a_released_object_that_was_only_hidden_holds_when_it_reappears() {
    for is_comparable in BOTH {
        let bench = Bench::filtered(is_comparable);
        bench.cache().applied(&terminating("a", "u", "3"));
        let sent = bench.send("a");
        bench.cache().deleted(&terminating("a", "u", "4"));
        sent.ended(&released("u"));
        assert!(!bench.holds(), "its selector may hide it until it is gone");
        bench.cache().applied(&terminating("a", "u", "5"));
        assert!(bench.holds(), "it is not gone yet");
        bench.cache().deleted(&terminating("a", "u", "6"));
        assert!(!bench.holds());
    }
}

#[tokio::test]
async fn a_new_object_of_the_same_name_does_not_count_as_the_deleted_one() {
    let bench = Bench::new(true);
    bench.cache().applied(&object("a", "old", "3"));
    bench.send("a").ended(&removed("u"));
    bench.cache().deleted(&object("a", "old", "4"));
    assert!(bench.holds());
    bench.cache().applied(&object("a", "u", "5"));
    bench.cache().deleted(&object("a", "u", "6"));
    assert!(!bench.holds());
}

#[tokio::test]
async fn filtered_caches_guard_against_deleted_objects_not_yet_shown() {
    let bench = Bench::filtered(true);
    bench.send("a").ended(&removed("u"));
    assert!(!bench.holds(), "its selector may hide the object for ever");
    assert_eq!(bench.gate.len(), 1, "and it may not");
    bench.cache().applied(&object("a", "u", "5"));
    assert!(bench.holds());
    // The object was hidden for a while, then shown again and deleted.
    bench.cache().deleted(&object("a", "u", "6"));
    assert!(!bench.holds());
    bench.cache().applied(&object("a", "u", "7"));
    assert!(bench.holds());
    bench.cache().applied(&terminating("a", "u", "8"));
    assert!(!bench.holds() && bench.gate.is_empty());
}

#[tokio::test]
async fn a_write_without_effect_holds_nothing() {
    for is_comparable in BOTH {
        let bench = Bench::new(is_comparable);
        bench.cache().applied(&object("a", "u", "5"));
        bench.cache().applied(&object("b", "v", "9"));
        bench.write(&object("a", "u", "5"));
        assert!(!bench.holds() && bench.gate.is_empty());
    }
}

#[tokio::test]
async fn an_object_outside_the_selector_blocks_until_it_disappears() {
    for is_comparable in BOTH {
        let bench = Bench::filtered(is_comparable);
        bench.cache().applied(&object("a", "u", "3"));
        bench.send("a").ended(&left(&object("a", "u", "5"), false, Shown::No));
        assert!(bench.holds());
        bench.cache().deleted(&object("a", "u", "5"));
        assert!(!bench.holds());
    }
}

#[tokio::test]
async fn a_hidden_object_blocks_if_its_old_state_turns_up() {
    let bench = Bench::filtered(true);
    bench.send("a").ended(&left(&object("a", "u", "5"), false, Shown::No));
    assert!(!bench.holds());
    bench.cache().applied(&object("a", "u", "3"));
    assert!(bench.holds());
    bench.cache().bookmark("5");
    assert!(!bench.holds() && bench.gate.is_empty());
}

#[tokio::test]
async fn an_object_created_hidden_is_not_expected() {
    let bench = Bench::filtered(true);
    bench.send("a").ended(&left(&object("a", "u", "5"), true, Shown::No));
    assert!(!bench.holds() && bench.gate.is_empty());
}

#[tokio::test]
async fn an_object_that_enters_the_selector_is_awaited() {
    for is_comparable in BOTH {
        let bench = Bench::filtered(is_comparable);
        bench.write(&object("a", "u", "5"));
        assert!(bench.holds());
        bench.cache().applied(&object("a", "u", "5"));
        assert!(!bench.holds());
    }
}

#[tokio::test]
async fn a_temporarily_hidden_object_may_still_show_the_write() {
    let bench = Bench::filtered(false);
    let sent = bench.send("a");
    // Another client had moved the object out of the selector before the key brought it back.
    bench.cache().deleted(&object("a", "u", "4"));
    sent.ended(&wrote(&object("a", "u", "5")));
    assert!(bench.holds());
    bench.cache().applied(&object("a", "u", "5"));
    assert!(!bench.holds());
}

#[tokio::test]
async fn every_cache_of_the_kind_has_to_show_it() {
    let bench = Bench::of(vec![FakeCache::new(true), FakeCache::new(true)], false);
    let created = object("a", "u", "5");
    bench.write(&created);
    bench.park();
    bench.caches[1].applied(&created);
    assert!(!bench.has_woken());
    bench.caches[0].applied(&created);
    assert!(bench.has_woken());
}

#[tokio::test]
async fn a_list_that_began_after_the_answer_shows_everything() {
    for is_comparable in BOTH {
        for effect in [wrote(&object("a", "u", "5")), removed("u"), Effect::Unknown] {
            let bench = Bench::new(is_comparable);
            let early = Stamp::take();
            bench.send("a").ended(&effect);
            bench.park();
            bench.cache().list(early, "4", []);
            assert!(!bench.has_woken(), "it began before the answer came: {effect:?}");
            bench.cache().list(Stamp::take(), "7", []);
            assert!(bench.has_woken() && bench.gate.is_empty(), "{effect:?}");
        }
    }
}

#[tokio::test]
async fn the_contents_of_a_list_count_even_if_it_began_early() {
    for is_comparable in BOTH {
        let bench = Bench::new(is_comparable);
        let early = Stamp::take();
        bench.write(&object("a", "u", "5"));
        bench.cache().list(early, "6", [object("a", "u", "5")]);
        assert!(!bench.holds());
    }
}

#[tokio::test]
async fn versions_that_move_backwards_turn_expectations_into_proofs() {
    let bench = Bench::new(true);
    let early = Stamp::take();
    bench.write(&object("a", "u", "50"));
    bench.cache().list_anew(early, "20", []);
    bench.cache().bookmark("60");
    assert!(bench.holds(), "60 of this epoch is not 50 of the other");
    bench.gate.proven(0, Stamp::take());
    assert!(!bench.holds() && bench.gate.is_empty());
}

#[tokio::test]
async fn a_write_after_an_unnoticed_restore_needs_a_proof() {
    let bench = Bench::new(true);
    bench.cache().bookmark("100");
    bench.write(&object("a", "u", "50"));
    assert!(bench.holds(), "100 was of the state before the restore");
    bench.cache().list_anew(Stamp::take(), "51", [object("a", "u", "50")]);
    assert!(!bench.holds());
}

#[tokio::test]
async fn a_deletion_undone_by_a_restore_does_not_count() {
    for is_comparable in BOTH {
        for effect in [removed("u"), released("u")] {
            let bench = Bench::new(is_comparable);
            bench.cache().applied(&object("a", "u", "5"));
            let sent = bench.send("a");
            bench.cache().deleted(&terminating("a", "u", "6"));
            bench.cache().list_anew(Stamp::take(), "5", [object("a", "u", "5")]);
            sent.ended(&effect);
            assert!(bench.holds(), "the cache shows what the key has deleted: {effect:?}");
            bench.gate.proven(0, Stamp::take());
            assert!(!bench.holds() && bench.gate.is_empty());
        }
    }
}

#[tokio::test]
async fn a_recreated_crd_begins_a_new_epoch() {
    for is_comparable in BOTH {
        let bench = Bench::new(is_comparable);
        let early = Stamp::take();
        bench.write(&object("a", "u", "50"));
        bench.cache().lose();
        assert!(bench.holds());
        bench.cache().list_anew(early, "60", []);
        assert!(bench.holds());
        bench.cache().list(Stamp::take(), "61", []);
        assert!(!bench.holds());
    }
}

#[tokio::test]
async fn a_later_proof_settles_an_unknown_write() {
    let bench = Bench::new(true);
    let early = Stamp::take();
    bench.send("a").ended(&Effect::Unknown);
    bench.park();
    bench.cache().bookmark("1000");
    bench.gate.proven(0, early);
    assert!(!bench.has_woken());
    bench.gate.proven(0, Stamp::take());
    assert!(bench.has_woken());
}

#[tokio::test]
async fn a_write_whose_task_dies_has_an_unknown_outcome() {
    let bench = Bench::new(true);
    drop(bench.send("a"));
    assert!(bench.holds());
}

#[tokio::test]
async fn a_deletion_without_a_uid_needs_a_proof() {
    let bench = Bench::new(true);
    bench.cache().applied(&object("a", "u", "5"));
    bench.send("a").ended(&Effect::Removed { uid: None, for_good: false });
    bench.cache().deleted(&object("a", "u", "6"));
    assert!(bench.holds(), "the evicted one may be its successor");
    bench.gate.proven(0, Stamp::take());
    assert!(!bench.holds());
}

#[tokio::test]
async fn a_hundred_writes_of_one_call_need_one_version() {
    let bench = Bench::new(true);
    for version in 2..102 {
        bench.write(&object(&format!("a{version}"), &format!("u{version}"), &version.to_string()));
    }
    bench.cache().bookmark("100");
    assert!(bench.holds());
    bench.cache().bookmark("101");
    assert!(!bench.holds());
    assert_eq!(bench.gate.counts().satisfied, 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_cache_is_probed_and_then_reported() {
    let bench = Bench::new(true);
    bench.write(&object("a", "u", "5"));
    bench.park();
    let began = tokio::time::Instant::now();
    let due = bench.gate.due().await;
    assert_eq!((due.probes.into_iter().collect::<Vec<_>>(), due.expired.len()), (vec![0], 0));
    assert_eq!(began.elapsed(), Duration::from_secs(30));
    let expired = loop {
        let due = bench.gate.due().await;
        if !due.expired.is_empty() {
            break due.expired;
        }
    };
    assert_eq!((began.elapsed(), expired[0].key.clone()), (Duration::from_mins(5), web()));
    assert!(expired[0].what.contains("version 5"), "{}", expired[0].what);
    assert!(bench.holds() && !bench.has_woken(), "it stays held");
    assert!(bench.gate.due().await.expired.is_empty(), "it is reported once");
    bench.gate.give_up(vec![web()]);
    assert!(bench.has_woken() && bench.gate.is_empty());
    assert_eq!(bench.gate.counts().expired, 1);
    let counts = bench.gate.counts();
    assert_eq!((counts.satisfied, counts.wait.count), (0, 0), "no cache has shown it");
    // The given-up expectation does not matter any more.
    bench.write(&object("a", "u", "5"));
    bench.cache().applied(&object("a", "u", "5"));
    assert_eq!((bench.gate.counts().satisfied, bench.gate.is_empty()), (1, true));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_write_is_probed_at_once_and_an_idle_gate_sleeps() {
    let bench = Bench::new(true);
    let mut due = std::pin::pin!(bench.gate.due());
    assert!(due.as_mut().now_or_never().is_none());
    tokio::time::advance(Duration::from_hours(1)).await;
    assert!(due.as_mut().now_or_never().is_none());
    bench.send("a").ended(&Effect::Unknown);
    assert!(due.now_or_never().is_some_and(|due| due.probes.contains(&0)));
}

#[tokio::test(start_paused = true)]
async fn an_old_state_that_never_turns_up_is_forgotten() {
    let bench = Bench::filtered(true);
    bench.send("a").ended(&removed("u"));
    let mut due = std::pin::pin!(bench.gate.due());
    assert!(due.as_mut().now_or_never().is_none());
    tokio::time::advance(Duration::from_mins(5)).await;
    assert!(due.now_or_never().is_none(), "there is nothing to do about it");
    assert!(bench.gate.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_may_lack_the_write_leads_to_a_probe() {
    let bench = Bench::new(false);
    let early = Stamp::take();
    bench.write(&object("a", "u", "5"));
    bench.cache().list(early, "9", [object("a", "u", "9")]);
    let began = tokio::time::Instant::now();
    assert!(bench.gate.due().await.probes.contains(&0));
    assert!(began.elapsed() <= Duration::from_secs(1));
}

#[tokio::test]
async fn waiting_keys_are_listed_with_their_expectations() {
    let bench = Bench::new(true);
    bench.write(&object("a", "u", "5"));
    bench.park();
    let (waiting, _) = bench.gate.waiting(10);
    assert_eq!((waiting.len(), waiting[0].key.clone(), waiting[0].cache), (1, web(), 0));
    assert!(waiting[0].held.is_some());
}
