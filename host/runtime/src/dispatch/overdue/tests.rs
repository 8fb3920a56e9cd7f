//! Keys that wait long, with caches that prove themselves when the test lets them.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use windlass_core::object::progress::Reached;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::{ItemExponential, Queue};
use windlass_core::write::expectations::{Cache, Effect, Shown};

use super::*;
use crate::clock::SystemClock;

#[derive(Clone)]
struct Played {
    proofs: Arc<Semaphore>,
    asked: Arc<Mutex<Vec<&'static str>>>,
}

impl Played {
    fn note(&self, what: &'static str) {
        self.asked.lock().expect("not poisoned").push(what);
    }

    fn asked(&self) -> Vec<&'static str> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

impl Caches for Played {
    async fn prove(&self, _: &WatchSpec) -> bool {
        self.note("prove");
        self.proofs.acquire().await.expect("open").forget();
        true
    }

    fn relist(&self, _: &WatchSpec) {
        self.note("relist");
    }
}

/// A key that has written something, the watchdog that watches over it, and its reports.
struct Stage {
    queue: Queue<ObjectKey>,
    gate: Arc<Gate>,
    caches: Played,
    warned_of: Arc<Mutex<Vec<HeldKey>>>,
    lost: Arc<Mutex<Vec<ObjectKey>>>,
    watchdog: Option<JoinHandle<()>>,
    began: Instant,
}

fn key() -> ObjectKey {
    ObjectKey::namespaced("prod", "web")
}

impl Stage {
    fn new(timeout: ExpectationTimeout) -> Self {
        let clock = Arc::new(SystemClock::new());
        let queue = Queue::new(clock.clone(), ItemExponential::default());
        let cache = Cache { progress: Arc::new(Reached::at("1")), is_filtered: false };
        let gate = Gate::new(vec![cache], queue.clone(), clock);
        let caches = Played { proofs: Arc::new(Semaphore::new(0)), asked: Arc::default() };
        let (warned_of, lost, began) = (Arc::default(), Arc::default(), Instant::now());
        let mut stage = Self { queue, gate, caches, warned_of, lost, watchdog: None, began };
        stage.watch(timeout);
        stage
    }

    /// Starts a watchdog, which replaces the current one.
    fn watch(&mut self, timeout: ExpectationTimeout) {
        let watches = vec![WatchSpec::all(ObjectKind::new("v1", "ConfigMap"))];
        let overdue = Overdue { gate: self.gate.clone(), watches, caches: self.caches.clone(), timeout };
        let (warned, found) = (self.warned_of.clone(), self.lost.clone());
        let watchdog = tokio::spawn(async move {
            let warn = |waiting: &HeldKey, _: &WatchSpec, _: &str| warned.lock().expect("fine").push(waiting.clone());
            overdue.watch(warn, |lost| found.lock().expect("fine").extend_from_slice(lost)).await;
        });
        if let Some(before) = self.watchdog.replace(watchdog) {
            before.abort();
        }
    }

    fn write(&self, effect: &Effect) {
        let object = ObjectKey::namespaced("prod", "child");
        self.gate.open(&key(), &object, [0]).expect("there is a cache").ended(effect);
    }

    fn warned_of(&self) -> usize {
        self.warned_of.lock().expect("fine").len()
    }

    async fn released(&self) -> Duration {
        while self.gate.holds(&key()) {
            sleep(Duration::from_millis(100)).await;
        }
        self.began.elapsed()
    }
}

fn created() -> Effect {
    Effect::Left { uid: "u".into(), version: "5".into(), is_new: true, shown: vec![Shown::Yes] }
}

#[tokio::test(start_paused = true)]
async fn a_late_cache_is_asked_for_a_proof_which_releases_the_key() {
    let stage = Stage::new(ExpectationTimeout::Probe);
    stage.write(&created());
    stage.caches.proofs.add_permits(1);
    let released = stage.released().await;
    assert!(
        (Duration::from_secs(30)..Duration::from_secs(30) + Duration::from_secs(1)).contains(&released),
        "{released:?}"
    );
    assert_eq!((stage.caches.asked(), stage.warned_of()), (vec!["prove"], 0));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_write_is_proven_at_once() {
    let stage = Stage::new(ExpectationTimeout::Probe);
    stage.write(&Effect::Unknown);
    stage.caches.proofs.add_permits(1);
    assert!(stage.released().await < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_proof_that_began_before_the_answer_is_followed_by_another() {
    let stage = Stage::new(ExpectationTimeout::Probe);
    stage.write(&Effect::Unknown);
    sleep(Duration::from_secs(1)).await;
    stage.write(&Effect::Unknown);
    sleep(Duration::from_secs(1)).await;
    stage.caches.proofs.add_permits(1);
    sleep(Duration::from_secs(1)).await;
    assert!(stage.gate.holds(&key()), "the proof does not cover the second write");
    stage.caches.proofs.add_permits(1);
    assert!(stage.released().await < Duration::from_secs(4), "and does not wait for the next round");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_for_five_minutes_is_reported_and_stays_held() {
    let stage = Stage::new(ExpectationTimeout::Probe);
    stage.write(&created());
    sleep(Duration::from_mins(5) * 3).await;
    assert_eq!((stage.warned_of(), stage.gate.counts().expired), (1, 1));
    assert!(stage.gate.holds(&key()));
    assert!(stage.caches.asked().contains(&"relist"));
}

#[tokio::test(start_paused = true)]
async fn the_manifest_may_have_it_run_instead() {
    let stage = Stage::new(ExpectationTimeout::Run);
    stage.write(&created());
    let released = stage.released().await;
    assert!(
        (Duration::from_mins(5)..Duration::from_mins(5) + Duration::from_secs(1)).contains(&released),
        "{released:?}"
    );
    assert_eq!((stage.warned_of(), stage.gate.counts().expired), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_proof_that_ends_with_its_watchdog_is_begun_again_by_the_next() {
    let mut stage = Stage::new(ExpectationTimeout::Probe);
    stage.write(&Effect::Unknown);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.caches.asked(), ["prove"]);
    stage.watch(ExpectationTimeout::Probe);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.caches.asked(), ["prove", "prove"], "another would come with the next round of probes only");
    stage.caches.proofs.add_permits(1);
    assert!(stage.released().await < Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_parked_key_that_its_gate_does_not_know_is_found_reported_and_woken() {
    let stage = Stage::new(ExpectationTimeout::Probe);
    stage.queue.add(key());
    let taken = stage.queue.get().await.expect("it is queued");
    stage.queue.park(&taken);
    assert_eq!(stage.queue.get().await, Some(key()), "nothing but the audit wakes it");
    assert_eq!(*stage.lost.lock().expect("fine"), [key()]);
    assert_eq!(stage.began.elapsed(), 2 * Duration::from_secs(15));
}
