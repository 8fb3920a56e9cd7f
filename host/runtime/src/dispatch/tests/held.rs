//! Keys that the gate holds.

use windlass_core::object::progress::{Reached, Stamp};
use windlass_core::write::expectations::{Cache, Effect, Shown};
use windlass_core::write::gate::Gate;

use super::*;

fn phases() -> Phases {
    Phases::of(CancellationToken::new())
}

/// A stage whose keys are held until a cache shows their writes.
fn gated(permits: u32) -> (Stage, Arc<Reached>, Arc<Gate>, Running) {
    let clock = Arc::new(SystemClock::new());
    let mut stage = Stage::with_clock(0, permits, clock.clone());
    let cache = Arc::new(Reached::at("1"));
    let caches = vec![Cache { progress: cache.clone(), is_filtered: false }];
    let gate = Gate::new(caches, stage.dispatch.keys.queue.clone(), clock);
    Arc::get_mut(&mut stage.dispatch).expect("no worker has it yet").keys.gate = Some(gate.clone());
    let running = Running::new(stage.dispatch.clone(), &phases());
    running.work();
    (stage, cache, gate, running)
}

fn write(gate: &Arc<Gate>, name: &str, version: &str) {
    let shown = vec![Shown::Yes];
    let effect = Effect::Left { uid: "u".into(), version: version.into(), is_new: true, shown };
    gate.open(&key(name), &key("child"), [0]).expect("there is a cache").ended(&effect);
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_writes_no_cache_shows_yet_is_not_called() {
    let (mut stage, cache, gate, _running) = gated(1);
    write(&gate, "a", "5");
    stage.dispatch.keys.queue.add(key("a"));
    stage.dispatch.keys.queue.add(key("b"));
    stage.answer("b", CallResult::Done).await;
    assert!(stage.is_quiet().await);
    assert_eq!(stage.dispatch.keys.queue.metrics().parked, 1);
    assert!(stage.other.acquire().now_or_never().is_some(), "a held key holds no permit");
    cache.reach("5");
    stage.answer("a", CallResult::Done).await;
    assert!(stage.is_quiet().await);
    assert_eq!((stage.dispatch.keys.queue.num_requeues(&key("a")), gate.counts().held), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_becomes_held_while_waiting_for_its_permit_is_not_called() {
    let (mut stage, cache, gate, _running) = gated(1);
    let permit = stage.other.acquire().await;
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    write(&gate, "a", "5");
    permit.finish(Duration::ZERO);
    assert!(stage.is_quiet().await);
    cache.reach("5");
    stage.answer("a", CallResult::Done).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_a_held_key_while_it_drains() {
    let (mut stage, cache, gate, running) = gated(1);
    write(&gate, "a", "5");
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    let end = tokio::spawn(running.end());
    assert!(stage.is_quiet().await);
    cache.reach("5");
    stage.answer("a", CallResult::Done).await;
    assert_eq!(end.await.expect("no panic"), ControllerEnd::Clean);
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_cache_must_prove_itself_still_wakes_while_the_queue_drains() {
    let (mut stage, cache, gate, running) = gated(1);
    write(&gate, "a", "5");
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    let proven = cache.clone();
    running.attend("proof", move || {
        let cache = proven.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cache.reach("5");
        }
    });
    let end = tokio::spawn(running.end());
    stage.answer("a", CallResult::Done).await;
    assert_eq!(end.await.expect("no panic"), ControllerEnd::Clean);
}

#[tokio::test(start_paused = true)]
async fn a_primary_missing_from_the_new_cache_is_gone_once_caches_prove_it() {
    let (mut stage, _cache, gate, _running) = gated(1);
    stage.dispatch.keys.doubt_missing(vec![(key("a"), "u1".into())]);
    assert!(stage.is_quiet().await, "it may not have arrived yet");
    gate.proven(0, Stamp::take());
    let PlayedCall { request, .. } = stage.call().await;
    assert_eq!((request.uid.as_deref(), request.object), (Some("u1"), None));
}
