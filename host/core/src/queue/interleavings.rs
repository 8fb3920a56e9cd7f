//! Tests the queue with shuttle: properties that hold in whatever order threads take its lock. A thread that waits
//! forever fails the test, so a lost wake-up does too. `tests/queue_model.rs` tests single steps.

use std::sync::Mutex as Plain;
use std::sync::PoisonError;
use std::task::Waker;

use futures::FutureExt;
use shuttle::future::block_on;
use shuttle::thread::{JoinHandle, spawn};

use super::*;

const RACED_KEYS: u8 = 2;
const QUEUE_ITERATIONS: usize = 600;

/// Tries random orders, and orders with only a few unlucky switches.
fn explore(scenario: fn()) {
    shuttle::check_random(scenario, QUEUE_ITERATIONS);
    shuttle::check_pct(scenario, QUEUE_ITERATIONS, 3);
}

/// A clock that a thread advances.
#[derive(Clone, Default)]
struct Hand(Arc<Plain<(u64, Vec<Waker>)>>);

impl Hand {
    fn with<R>(&self, work: impl FnOnce(&mut (u64, Vec<Waker>)) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn advance(&self, to: Duration) {
        let timers = self.with(|(now, timers)| {
            *now = nanoseconds(Moment(to));
            std::mem::take(timers)
        });
        timers.into_iter().for_each(Waker::wake);
    }
}

impl Clock for Hand {
    fn now(&self) -> Moment {
        Moment(Duration::from_nanos(self.with(|(now, _)| *now)))
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let hand = self.clone();
        let sleep = move |context: &mut Context<'_>| {
            hand.with(|(now, timers)| {
                if *now >= nanoseconds(moment) {
                    return Poll::Ready(());
                }
                timers.push(context.waker().clone());
                Poll::Pending
            })
        };
        poll_fn(sleep).boxed()
    }
}

/// The threads' common knowledge about one key.
#[derive(Clone, Copy, Default)]
struct Known {
    adds: usize,
    takes: usize,
    /// Whether the key was added, and no worker has looked at it since.
    is_wanted: bool,
    is_held: bool,
    /// How often the key was woken. `parked_at` is the value of `wakes` when the last worker that parked the key had
    /// got the key.
    wakes: usize,
    parked_at: Option<usize>,
    /// Whether the condition that the key waits for has become true.
    is_free: bool,
}

/// A queue and the knowledge about its keys, recorded before any operation that lets other threads act on it.
#[derive(Clone)]
struct Bench {
    queue: Queue<u8>,
    keys: Arc<Plain<[Known; RACED_KEYS as usize]>>,
}

impl Bench {
    fn new(clock: Hand) -> Self {
        Self { queue: Queue::new(Arc::new(clock), ItemExponential::default()), keys: Arc::default() }
    }

    fn note<R>(&self, key: u8, note: impl FnOnce(&mut Known) -> R) -> R {
        note(&mut self.keys.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(key)])
    }

    fn every(&self, test: impl Fn(&Known) -> bool) -> bool {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).iter().all(test)
    }

    fn produce(&self) -> JoinHandle<()> {
        let this = self.clone();
        spawn(move || {
            for key in 0..RACED_KEYS {
                this.note(key, |it| (it.adds, it.is_wanted) = (it.adds + 1, true));
                this.queue.add(key);
                let metrics = this.queue.metrics();
                assert!(metrics.depth + metrics.parked <= usize::from(RACED_KEYS), "a key is pending twice");
            }
        })
    }

    /// Works until the queue is shut down. Parks keys that are not free, as the gate would.
    fn work(&self) -> JoinHandle<()> {
        let this = self.clone();
        spawn(move || {
            while let Some(key) = block_on(this.queue.get()) {
                this.take(key);
                let wakes = this.note(key, |it| it.wakes);
                let is_free = this.note(key, |it| it.is_free);
                shuttle::thread::yield_now();
                this.note(key, |it| it.is_held = false);
                if is_free {
                    this.queue.done(&key);
                } else {
                    this.note(key, |it| it.parked_at = Some(wakes));
                    this.queue.park(&key);
                }
            }
        })
    }

    fn take(&self, key: u8) {
        self.note(key, |it| {
            assert!(!std::mem::replace(&mut it.is_held, true), "two workers have one key");
            assert!(it.parked_at.take().is_none_or(|wakes| it.wakes > wakes), "a parked key was handed out");
            it.takes += 1;
            it.is_wanted = false;
        });
    }

    fn free_all(&self) {
        for key in 0..RACED_KEYS {
            self.note(key, |it| (it.is_free, it.wakes) = (true, it.wakes + 1));
            self.queue.wake(&key);
        }
    }
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

#[test]
fn no_added_key_is_lost_and_no_two_workers_have_one() {
    explore(|| {
        let bench = Bench::new(Hand::default());
        bench.free_all();
        let workers = [bench.work(), bench.work()];
        join([bench.produce(), bench.produce()]);
        bench.queue.shut_down();
        join(workers);
        assert!(bench.every(|it| !it.is_wanted && it.takes <= it.adds));
    });
}

#[test]
fn a_shutdown_amid_additions_and_parked_keys_ends_every_worker() {
    explore(|| {
        let bench = Bench::new(Hand::default());
        let threads = [bench.work(), bench.work(), bench.produce()];
        bench.queue.shut_down();
        join(threads);
    });
}

#[test]
fn a_drain_returns_when_every_key_that_was_parked_is_done() {
    explore(|| {
        let bench = Bench::new(Hand::default());
        let workers = [bench.work(), bench.work()];
        let waker = spawn({
            let bench = bench.clone();
            move || bench.free_all()
        });
        join([bench.produce()]);
        block_on(bench.queue.shut_down_with_drain());
        assert!(bench.every(|it| !it.is_wanted && !it.is_held), "the drain ended too early");
        join(workers.into_iter().chain([waker]));
    });
}

#[test]
fn every_worker_and_the_drain_end_when_the_rest_is_dropped() {
    explore(|| {
        let bench = Bench::new(Hand::default());
        let threads = [bench.work(), bench.work(), bench.produce()];
        let drain = spawn({
            let queue = bench.queue.clone();
            move || {
                block_on(queue.shut_down_with_drain());
            }
        });
        bench.queue.change(QueueState::drain);
        let _ = bench.queue.drop_ready();
        join(threads.into_iter().chain([drain]));
    });
}

/// A worker that gives up after one look and returns any key that it got.
fn give_up(queue: &Queue<u8>) -> JoinHandle<()> {
    let queue = queue.clone();
    spawn(move || {
        let mut get = queue.get();
        let seen = block_on(poll_fn(|context| Poll::Ready(get.poll_unpin(context))));
        shuttle::thread::yield_now();
        drop(get);
        if let Poll::Ready(Some(key)) = seen {
            queue.add(key);
            queue.done(&key);
        }
    })
}

fn take_one(queue: &Queue<u8>) -> JoinHandle<()> {
    let queue = queue.clone();
    spawn(move || assert!(block_on(queue.get()).is_some()))
}

#[test]
fn a_worker_that_gives_up_passes_its_wake_up_on() {
    explore(|| {
        let queue = Bench::new(Hand::default()).queue;
        let threads = [give_up(&queue), take_one(&queue), take_one(&queue)];
        (0..RACED_KEYS).for_each(|key| queue.add(key));
        join(threads);
    });
}

#[test]
fn a_delayed_key_finds_a_worker_whichever_watches_the_time() {
    explore(|| {
        let hand = Hand::default();
        let queue = Bench::new(hand.clone()).queue;
        let threads = [give_up(&queue), take_one(&queue), take_one(&queue)];
        // When the second, shorter delay begins, a worker may watch the first delay already, or no worker may be there
        // yet.
        queue.add_after(0, Duration::from_nanos(2));
        queue.add_after(1, Duration::from_nanos(1));
        hand.advance(Duration::from_nanos(1));
        hand.advance(Duration::from_nanos(2));
        join(threads);
    });
}
