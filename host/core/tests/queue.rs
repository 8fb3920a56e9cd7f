//! The workqueue against the simplest model of client-go's semantics, and what its workers wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use proptest::prelude::*;
use windlass_core::clock::{Clock, Moment};
use windlass_core::outcome::Retry;
use windlass_core::queue::{ItemExponential, Queue};

/// A clock that a test moves. Its timers never fire by themselves: the tests poll.
#[derive(Default)]
struct ManualClock(Mutex<Moment>);

impl ManualClock {
    fn advance(&self, by: Duration) {
        let mut now = self.0.lock().expect("not poisoned");
        *now = *now + by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        *self.0.lock().expect("not poisoned")
    }

    fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
        futures::future::pending().boxed()
    }
}

/// Tokio's clock, which a paused test moves by itself.
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        Moment(self.0.elapsed())
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        tokio::time::sleep_until(self.0 + moment.0).boxed()
    }
}

fn manual() -> (Queue<u8>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Queue::new(clock.clone(), ItemExponential::default()), clock)
}

fn paused() -> Queue<u8> {
    Queue::new(Arc::new(TokioClock(tokio::time::Instant::now())), ItemExponential::default())
}

/// What a worker gets without waiting.
fn poll(queue: &Queue<u8>) -> Poll<Option<u8>> {
    queue.get().now_or_never().map_or(Poll::Pending, Poll::Ready)
}

#[test]
fn a_key_added_twice_is_handed_out_once() {
    let (queue, _) = manual();
    queue.add(1);
    queue.add(1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    assert_eq!(poll(&queue), Poll::Pending);
}

#[test]
fn a_key_added_while_a_worker_has_it_comes_back_when_the_worker_is_done() {
    let (queue, _) = manual();
    queue.add(1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    queue.add(1);
    assert_eq!(poll(&queue), Poll::Pending);
    queue.done(&1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
}

#[test]
fn of_two_delays_the_sooner_wins() {
    for delays in [[10, 20], [20, 10]] {
        let (queue, clock) = manual();
        for delay in delays {
            queue.add_after(1, Duration::from_secs(delay));
        }
        clock.advance(Duration::from_secs(10));
        assert_eq!(poll(&queue), Poll::Ready(Some(1)));
        queue.done(&1);
        clock.advance(Duration::from_secs(10));
        assert_eq!(poll(&queue), Poll::Pending, "the later of {delays:?} must be gone");
    }
}

#[test]
fn failures_double_the_delay_until_they_are_forgotten() {
    let (queue, _) = manual();
    let fail = || queue.add_rate_limited(1, Retry::Counted, None).as_millis();
    assert_eq!([fail(), fail(), fail()], [5, 10, 20]);
    queue.forget(&1);
    assert_eq!(fail(), 5);
}

#[test]
fn an_uncounted_failure_lengthens_the_backoff_and_costs_no_attempt() {
    let (queue, _) = manual();
    queue.add_rate_limited(1, Retry::Uncounted, None);
    assert_eq!(queue.num_requeues(&1), 0);
    assert_eq!(queue.add_rate_limited(1, Retry::Counted, None), Duration::from_millis(10));
    assert_eq!(queue.num_requeues(&1), 1);
}

#[test]
fn what_the_server_asked_for_is_waited_for_at_least() {
    let (queue, _) = manual();
    let asked = Duration::from_secs(3);
    assert_eq!(queue.add_rate_limited(1, Retry::Uncounted, Some(asked)), asked);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_wakes_when_a_delay_ends() {
    let queue = paused();
    queue.add_after(1, Duration::from_mins(1));
    queue.add_after(2, Duration::from_secs(1));
    assert_eq!(queue.get().await, Some(2));
    assert_eq!(queue.get().await, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_sooner_key_wakes_a_worker_that_waits_for_a_later_one() {
    let queue = paused();
    queue.add_after(1, Duration::from_hours(1));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await }
    });
    tokio::task::yield_now().await;
    queue.add_after(2, Duration::from_secs(1));
    assert_eq!(worker.await.expect("the worker ends"), Some(2));
}

#[tokio::test(start_paused = true)]
async fn keys_that_become_due_together_wake_as_many_workers() {
    let queue = paused();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await })
        })
        .collect();
    tokio::task::yield_now().await;
    for key in 0..3 {
        queue.add_after(key, Duration::from_secs(1));
    }
    let mut got = BTreeSet::new();
    for worker in workers {
        got.insert(worker.await.expect("the worker ends"));
    }
    assert_eq!(got, (0..3).map(Some).collect());
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_watches_the_time_while_another_works() {
    let queue = paused();
    let worker = || {
        let queue = queue.clone();
        tokio::spawn(async move { queue.get().await })
    };
    let (first, second) = (worker(), worker());
    tokio::task::yield_now().await;
    queue.add_after(1, Duration::from_secs(1));
    queue.add_after(2, Duration::from_secs(2));
    // Neither is ever done, so each worker gets one key.
    let both = async { [first.await.expect("no panic"), second.await.expect("no panic")] };
    let mut keys = tokio::time::timeout(Duration::from_secs(3), both).await.expect("both keys are due");
    keys.sort_unstable();
    assert_eq!(keys, [Some(1), Some(2)]);
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_workers_and_then_ends_them() {
    let queue = paused();
    queue.add(1);
    queue.add_after(2, Duration::from_secs(1));
    let key = queue.get().await.expect("queued");
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    tokio::task::yield_now().await;
    assert!(!drained.is_finished(), "a worker still has a key");
    queue.add(3);
    queue.done(&key);
    drained.await.expect("the drain ends");
    assert_eq!(queue.get().await, None, "delayed and late keys are dropped");
}

/// One step of a random interleaving.
#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    AddAfter(u8, u64),
    Get,
    Done(usize),
    Advance(u64),
    ShutDown,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..5_u8).prop_map(Step::Add),
        4 => (0..5_u8, 0..10_u64).prop_map(|(key, delay)| Step::AddAfter(key, delay)),
        6 => Just(Step::Get),
        6 => (0..4_usize).prop_map(Step::Done),
        3 => (1..6_u64).prop_map(Step::Advance),
        1 => Just(Step::ShutDown),
    ]
}

/// client-go's semantics without any cleverness.
#[derive(Default)]
struct Model {
    now: u64,
    queue: Vec<u8>,
    dirty: BTreeSet<u8>,
    processing: Vec<u8>,
    delayed: BTreeMap<u8, u64>,
    shut_down: bool,
}

impl Model {
    fn add(&mut self, key: u8) {
        if !self.shut_down && self.dirty.insert(key) && !self.processing.contains(&key) {
            self.queue.push(key);
        }
    }

    fn add_after(&mut self, key: u8, delay: u64) {
        if delay == 0 {
            return self.add(key);
        }
        if !self.shut_down {
            let at = self.now + delay;
            let due = self.delayed.entry(key).or_insert(at);
            *due = at.min(*due);
        }
    }

    fn get(&mut self) -> Poll<Option<u8>> {
        let mut due: Vec<_> = self.delayed.iter().map(|(key, at)| (*at, *key)).collect();
        due.sort_unstable();
        for (at, key) in due {
            if at <= self.now {
                self.delayed.remove(&key);
                self.add(key);
            }
        }
        if self.queue.is_empty() {
            return if self.shut_down { Poll::Ready(None) } else { Poll::Pending };
        }
        let key = self.queue.remove(0);
        self.dirty.remove(&key);
        self.processing.push(key);
        Poll::Ready(Some(key))
    }

    fn done(&mut self, index: usize) -> Option<u8> {
        if self.processing.is_empty() {
            return None;
        }
        let key = self.processing.remove(index % self.processing.len());
        if self.dirty.contains(&key) {
            self.queue.push(key);
        }
        Some(key)
    }

    fn shut_down(&mut self) {
        self.shut_down = true;
        self.delayed.clear();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_the_model_does(steps in proptest::collection::vec(step(), 1..120)) {
        let (queue, clock) = manual();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Add(key) => { queue.add(key); model.add(key); }
                Step::AddAfter(key, delay) => {
                    queue.add_after(key, Duration::from_secs(delay));
                    model.add_after(key, delay);
                }
                Step::Get => {
                    let got = poll(&queue);
                    prop_assert_eq!(got, model.get());
                    let held: BTreeSet<_> = model.processing.iter().collect();
                    prop_assert_eq!(held.len(), model.processing.len(), "two workers have one key");
                }
                Step::Done(index) => {
                    if let Some(key) = model.done(index) {
                        queue.done(&key);
                    }
                }
                Step::Advance(seconds) => {
                    clock.advance(Duration::from_secs(seconds));
                    model.now += seconds;
                }
                Step::ShutDown => { queue.shut_down(); model.shut_down(); }
            }
            prop_assert_eq!(queue.len(), model.queue.len());
        }
    }
}
