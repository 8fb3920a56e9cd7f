//! Measures the gate: `make bench`. Covers a key without expectations, a key of another controller, and the time from
//! the event that frees a held key until a worker has it. Runs each case several times and prints the median.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod wall_clock;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::object::ObjectKey;
use windlass_core::object::compact::Version;
use windlass_core::object::progress::Reached;
use windlass_core::queue::{ItemExponential, Queue};
use windlass_core::write::expectations::{Cache, Effect, Shown};
use windlass_core::write::gate::Gate;

use wall_clock::WallClock;

const ROUNDS: usize = 5;
const CHECKS: usize = 1_000_000;
const WAKES: usize = 1_000;

fn key(number: usize) -> ObjectKey {
    ObjectKey::namespaced("namespace", format!("name-{number}"))
}

fn gate() -> (Arc<Gate>, Queue<ObjectKey>, Arc<Reached>) {
    let (clock, cache) = (WallClock::new(), Arc::new(Reached::at("0")));
    let queue = Queue::new(clock.clone(), ItemExponential::default());
    let caches = vec![Cache { progress: cache.clone(), is_filtered: false }];
    (Gate::new(caches, queue.clone(), clock), queue, cache)
}

fn write(gate: &Arc<Gate>, primary: &ObjectKey, version: u64) {
    let version = Version::from(&*version.to_string());
    let effect = Effect::Left { uid: "u".into(), version, is_new: true, shown: vec![Shown::Yes] };
    gate.open(primary, &key(0), [0]).expect("there is a cache").ended(&effect);
}

fn median(mut run: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS).map(|_| run()).collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

fn checks(gate: &Arc<Gate>, key: &ObjectKey) -> Duration {
    median(|| {
        let start = Instant::now();
        for _ in 0..CHECKS {
            assert!(!black_box(gate).holds(black_box(key)));
        }
        start.elapsed()
    })
}

fn report(what: &str, count: usize, time: Duration) {
    println!("{what:<64} {:>10.0} ns each", time.as_secs_f64() * 1e9 / count as f64);
}

/// The time from the event until another thread's worker has the parked key.
fn wake(queue: &Queue<ObjectKey>, gate: &Arc<Gate>, cache: &Arc<Reached>, first: u64) -> Vec<Duration> {
    let held = key(1);
    let (taken, times) = std::sync::mpsc::channel();
    let worker = std::thread::spawn({
        let (queue, gate) = (queue.clone(), gate.clone());
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(async {
                while let Some(key) = queue.get().await {
                    if gate.holds(&key) {
                        queue.park(&key);
                    } else {
                        taken.send(Instant::now()).expect("it listens");
                        queue.done(&key);
                    }
                }
            });
        }
    });
    let mut waits = Vec::new();
    for version in (first..).take(WAKES) {
        write(gate, &held, version);
        queue.add(held.clone());
        while queue.metrics().parked == 0 {
            std::thread::yield_now();
        }
        let event = Instant::now();
        cache.reach(&version.to_string());
        waits.push(times.recv().expect("the worker goes on") - event);
    }
    queue.shut_down();
    worker.join().expect("no panic");
    waits.sort_unstable();
    waits
}

fn main() {
    let (idle, ..) = gate();
    report("a key, with no expectations in the gate", CHECKS, checks(&idle, &key(1)));
    let (busy, ..) = gate();
    for number in 2..10_000 {
        write(&busy, &key(number), number as u64);
    }
    report("a key without expectations, while 10,000 others have some", CHECKS, checks(&busy, &key(1)));

    let (gate, queue, cache) = gate();
    let waits = wake(&queue, &gate, &cache, 2);
    println!("{:<64} {:>10.0?} median", "a held key, from the event to the worker", waits[WAKES / 2]);
    println!("{:<64} {:>10.0?} 99th percentile", "", waits[WAKES * 99 / 100]);

    let all: Vec<_> = (10_u64..).take(10_000).collect();
    let (many, _, cache) = gate_of(&all);
    let start = Instant::now();
    for version in &all {
        cache.reach(&version.to_string());
    }
    report("an event that frees one of 10,000 keys", all.len(), start.elapsed());
    assert!(many.is_empty());
}

/// A gate with one key that waits for each of `versions`.
fn gate_of(versions: &[u64]) -> (Arc<Gate>, Queue<ObjectKey>, Arc<Reached>) {
    let all = gate();
    for version in versions {
        write(&all.0, &key(usize::try_from(*version).unwrap_or(usize::MAX)), *version);
    }
    all
}
