//! Tests successive gates: a swap to a generation with other watches creates a new gate over the same queue.

#[allow(dead_code, reason = "the other cases use more of it")]
mod fake;
mod tokio_clock;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use windlass_core::object::ObjectKey;
use windlass_core::object::progress::Stamp;
use windlass_core::queue::{ItemExponential, Queue};
use windlass_core::write::expectations::{Cache, DoubtfulKey, Effect, Shown};
use windlass_core::write::gate::{Gate, ParkedAudit};

use fake::{FakeCache, key};
use tokio_clock::TokioClock;

/// A queue, and the caches of the running generation.
struct Bench {
    clock: Arc<TokioClock>,
    queue: Queue<ObjectKey>,
    cache: Arc<FakeCache>,
}

impl Bench {
    fn new() -> Self {
        let clock = TokioClock::new();
        let queue = Queue::new(clock.clone(), ItemExponential::default());
        Self { clock, queue, cache: FakeCache::new(true) }
    }

    fn gate(&self, caches: usize) -> Arc<Gate> {
        let cache = Cache { progress: self.cache.clone(), is_filtered: false };
        Gate::new(vec![cache; caches], self.queue.clone(), self.clock.clone())
    }

    /// The key writes, and a worker then finds that `gate` holds it.
    fn park(&self, gate: &Arc<Gate>) {
        let interest = gate.open(&web(), &key("child"), [0]).expect("a cache sees it");
        interest.ended(&Effect::Left { uid: "u".into(), version: "5".into(), is_new: true, shown: vec![Shown::Yes] });
        self.park_held(gate);
    }

    fn park_held(&self, gate: &Gate) {
        self.queue.add(web());
        assert_eq!(self.get(), Some(web()));
        assert!(gate.holds(&web()));
        self.queue.park(&web());
    }

    fn get(&self) -> Option<ObjectKey> {
        self.queue.get().now_or_never().flatten()
    }
}

fn web() -> ObjectKey {
    key("web")
}

fn prove(gate: &Gate, caches: usize) {
    (0..caches).for_each(|cache| gate.proven(cache, Stamp::take()));
}

#[tokio::test]
async fn a_key_parked_before_a_swap_waits_for_proofs_of_the_new_caches() {
    for caches in [0, 1, 2] {
        let bench = Bench::new();
        let old = bench.gate(1);
        bench.park(&old);
        let new = bench.gate(caches);
        new.doubt(old.unseen());
        bench.queue.wake_parked();
        drop(old);
        if caches > 0 {
            bench.park_held(&new);
            assert_eq!(bench.get(), None, "it is parked again");
            prove(&new, caches);
        }
        assert_eq!(bench.get(), Some(web()), "after a swap to {caches} caches");
        assert!(!new.holds(&web()));
    }
}

#[tokio::test(start_paused = true)]
async fn the_hold_time_of_a_key_survives_swaps() {
    let bench = Bench::new();
    let mut gate = bench.gate(1);
    bench.park(&gate);
    for _ in 0..3 {
        tokio::time::advance(Duration::from_mins(5) / 3).await;
        let next = bench.gate(1);
        next.doubt(gate.unseen());
        bench.queue.wake_parked();
        bench.park_held(&next);
        gate = next;
    }
    assert_eq!(gate.longest_wait(), Duration::from_mins(5));
    let due = gate.due().await;
    assert!(due.expired.is_empty() && due.probes.contains(&0), "its own cache has its chance first: {due:?}");
    let expired = gate.due().await.expired;
    assert_eq!(expired.iter().map(|it| &it.key).collect::<Vec<_>>(), [&web()], "three swaps do not silence the alert");
    let (held, now) = gate.waits_for(&web()).expect("it waits");
    assert_eq!(
        held.held.map(|since| now.0.saturating_sub(since.0)),
        Some(Duration::from_mins(5) + Duration::from_secs(30))
    );
    assert_eq!(held.cache_version, Some("1".into()));
}

#[tokio::test]
async fn the_audit_wakes_a_key_found_parked_and_unknown_twice() {
    let bench = Bench::new();
    let (old, mut audit) = (bench.gate(1), ParkedAudit::default());
    bench.park(&old);
    for _ in 0..3 {
        assert_eq!(old.wake_lost(&mut audit), [], "the gate would wake it");
    }
    // Simulates a defect: the new gate does not know the key, and nothing has woken it.
    let (new, mut audit) = (bench.gate(1), ParkedAudit::default());
    assert_eq!(new.wake_lost(&mut audit), [], "one look is not enough");
    assert_eq!((new.wake_lost(&mut audit), bench.get()), (vec![web()], Some(web())));
    assert_eq!(new.wake_lost(&mut audit), [], "it is not parked any more");
}

#[tokio::test]
async fn the_audit_ignores_a_key_that_was_parked_anew() {
    let bench = Bench::new();
    let (old, mut audit) = (bench.gate(1), ParkedAudit::default());
    bench.park(&old);
    let new = bench.gate(1);
    assert_eq!(new.wake_lost(&mut audit), []);
    bench.queue.wake_parked();
    bench.park_held(&old);
    assert_eq!(new.wake_lost(&mut audit), [], "it has run or been asked for since the last look");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_proof_is_due_again_at_once() {
    let bench = Bench::new();
    let gate = bench.gate(2);
    gate.doubt([DoubtfulKey::new(web())]);
    assert_eq!(gate.due().await.probes.into_iter().collect::<Vec<_>>(), [0, 1]);
    let early = Duration::from_secs(1);
    assert!(tokio::time::timeout(early, gate.due()).await.is_err(), "both are under way");
    gate.proof_abandoned(1);
    let due = tokio::time::timeout(early, gate.due()).await.expect("it is due");
    assert_eq!(due.probes.into_iter().collect::<Vec<_>>(), [1]);
}
