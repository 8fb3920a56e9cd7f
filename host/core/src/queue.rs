//! The workqueue, one per controller: client-go's semantics (`util/workqueue`), with an injected clock, priorities, and
//! keys that the gate holds.
//!
//! One concern a file: `dirty` knows each key's state, `priority` the order of those that are ready, `delay` those that
//! wait for their time, `limiter` how long a failing key backs off, `metrics` what all of it costs, `waiters` whom to wake.
//! `state` puts them together under one lock (`sync`); this file is what callers see.

pub mod aggregate;
pub mod breaker;
mod delay;
mod dirty;
pub mod hot_loop;
#[cfg(test)]
mod interleavings;
pub mod key_state;
mod limiter;
mod metrics;
pub mod outcome;
mod priority;
mod state;
pub(crate) mod sync;
pub mod trigger;
mod waiters;

use std::fmt::Debug;
use std::future::poll_fn;
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use hashbrown::DefaultHashBuilder;

use self::delay::nanoseconds;
pub use self::dirty::DirtyStage;
use self::dirty::KeyHash;
pub use self::limiter::{
    ITEM_BACKOFF_MAX, ITEM_BACKOFF_MIN, ItemExponential, Limiter, MaxOf, RETRIES_BURST, RETRIES_PER_SECOND, TokenBucket,
};
pub use self::metrics::{BUCKETS, Histogram, QueueMetrics};
pub use self::priority::{AGE_PER_POINT, Priority};
use self::state::QueueState;
use self::sync::StateLock;
use self::waiters::{GetTicket, NextKey};
use crate::clock::{Clock, Moment};
use crate::queue::outcome::Retry;

/// A key that can be queued.
pub trait Key: Clone + Debug + Eq + Hash + Send + 'static {}
impl<K: Clone + Debug + Eq + Hash + Send + 'static> Key for K {}

/// A queue of keys that deduplicates, never hands one key to two workers, and never loses one that is added while a
/// worker has it. Cheap to clone; all clones are the same queue.
#[derive(Clone)]
pub struct Queue<K: Key> {
    shared: Arc<QueueShared<K>>,
}

/// The part that the queue knows of one key, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedKey {
    pub stage: DirtyStage,
    /// How long it has been ready or parked, or a worker has had it. Zero for one that is idle.
    pub waited: Duration,
    /// After which time it is added. None: it does not wait for its time.
    pub due_in: Option<Duration>,
    /// Failures since it was last forgotten, at most one a backoff, and at most 255.
    pub failures: u32,
    /// Those of them that count against it.
    pub counted: u32,
}

struct QueueShared<K: Key> {
    state: StateLock<QueueState<K>>,
    hasher: DefaultHashBuilder,
    clock: Arc<dyn Clock>,
}

impl<K: Key> Queue<K> {
    /// An empty queue whose failing keys back off as `limiter` says.
    pub fn new(clock: Arc<dyn Clock>, limiter: impl Limiter) -> Self {
        let state = StateLock::new(QueueState::new(limiter));
        Self { shared: Arc::new(QueueShared { state, hasher: DefaultHashBuilder::default(), clock }) }
    }

    /// Queues `key` as somebody's change: see [`Queue::add_with`].
    pub fn add(&self, key: K) {
        self.add_with(key, Priority::CHANGE);
    }

    /// Queues `key`. If it is queued already, the higher priority of the two holds. One that a worker has is queued again
    /// when the worker is done with it; one that is parked stays so.
    pub fn add_with(&self, key: K, priority: Priority) {
        let hash = self.hash(&key);
        self.change(|state| state.add(hash, key, priority, || self.now()));
    }

    /// Queues `key` once `delay` has passed, with the priority that it had: it becomes no more urgent by being tried again.
    /// One that has not been queued before is somebody's change. Of two delays for one key the one that ends sooner wins.
    pub fn add_after(&self, key: K, delay: Duration) {
        let (hash, now) = (self.hash(&key), self.shared.clock.now());
        self.change(|state| state.add_after(hash, key, delay, now));
    }

    /// Queues `key`, as [`Queue::add_after`] does, after the backoff that its failures so far have earned, or after
    /// `at_least` if that is longer, and notes one more failure. Returns the delay.
    ///
    /// A failure while the key [backs off](Queue::backs_off) is not noted: the key is queued when that backoff ends, or
    /// sooner, after a backoff of the same length. client-go counts such failures too, so that ten events during an outage
    /// use up ten retries (kubernetes/kubernetes#132805).
    pub fn add_rate_limited(&self, key: K, retry: Retry, at_least: Option<Duration>) -> Duration {
        let (hash, now) = (self.hash(&key), self.shared.clock.now());
        self.change(|state| state.fail(hash, key, retry, at_least.unwrap_or_default(), now))
    }

    /// Forgets the failures of `key`.
    pub fn forget(&self, key: &K) {
        let hash = self.hash(key);
        self.change(|state| state.forget(hash, key));
    }

    /// How many failures counted against `key` since it was last forgotten, at most one a backoff; at most 65,535.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        let hash = self.hash(key);
        self.change(|state| state.num_requeues(hash, key))
    }

    /// Whether the backoff of the last failure of `key` is not over yet. True of a key that a worker has: an event has
    /// queued it before its time.
    #[must_use]
    pub fn backs_off(&self, key: &K) -> bool {
        let (hash, now) = (self.hash(key), self.now());
        self.shared.state.with(|state| state.backs_off(hash, key, now))
    }

    /// Whether `key` has failed since it was last forgotten, whoever is to blame.
    #[must_use]
    pub fn has_failed(&self, key: &K) -> bool {
        let hash = self.hash(key);
        self.shared.state.with(|state| state.has_failed(hash, key))
    }

    /// Whether `key`, which [`Queue::get`] returned, had waited for a time that has come, of [`Queue::add_after`] or of a
    /// backoff. It may have been added besides.
    #[must_use]
    pub fn was_due(&self, key: &K) -> bool {
        let hash = self.hash(key);
        self.shared.state.with(|state| state.was_due(hash, key))
    }

    /// Waits for a key. Until [`Queue::done`] or [`Queue::park`] is called with it, no other worker gets it. None: the
    /// queue is shut down, and nothing is left that could become ready.
    ///
    /// Dropping the future loses nothing.
    #[must_use = "a future does nothing unless polled"]
    pub fn get(&self) -> Get<'_, K> {
        Get { queue: self, ticket: None, timer: None }
    }

    /// Ends the work on `key`, which [`Queue::get`] returned. If it was added meanwhile, it is queued now.
    pub fn done(&self, key: &K) {
        let (hash, now) = (self.hash(key), self.now());
        self.change(|state| state.done(hash, key, now));
    }

    /// Instead of [`Queue::done`]: holds `key`, which [`Queue::get`] returned, until [`Queue::wake`]. No worker gets it,
    /// and additions only raise its priority. It keeps its age, and no failure is noted. If it was woken since the worker
    /// got it, it is queued at once: what it was to wait for has come already. A queue that is shut down drops it instead.
    pub fn park(&self, key: &K) {
        let (hash, now) = (self.hash(key), self.now());
        self.change(|state| state.park(hash, key, now));
    }

    /// Queues `key` again, with the priority and age that it had, if it is parked; else, if a worker has it, sees to it
    /// that the worker cannot park it. Does nothing for other keys.
    pub fn wake(&self, key: &K) {
        let hash = self.hash(key);
        self.change(|state| state.wake(hash, key));
    }

    /// Wakes all parked keys, for a gate that takes the place of another: the new gate cannot wake keys that it has not
    /// held itself. Workers ask it about each key, and park again those that it holds.
    pub fn wake_parked(&self) {
        self.change(QueueState::wake_parked);
    }

    /// The parked keys, in no order. The number is the key's turn: it differs each time that the key is parked.
    #[must_use]
    pub fn parked(&self) -> Vec<(K, u32)> {
        self.shared.state.with(QueueState::parked)
    }

    /// Instead of [`Queue::done`]: gives `key`, which [`Queue::get`] returned, back as it was. It keeps its priority
    /// and its age, and no failure is noted: nothing has been done with it. A queue that is shut down drops it instead.
    pub fn give_back(&self, key: &K) {
        let (hash, now) = (self.hash(key), self.now());
        self.change(|state| state.give_back(hash, key, now));
    }

    /// From now on, keys that fail back off as `limiter` says. Those that wait already wait as long as they were told.
    pub fn limit_by(&self, limiter: impl Limiter) {
        self.change(|state| state.limit_by(limiter));
    }

    /// How long ago `key`, which [`Queue::get`] returned, was added: the time parked is part of it, and a backoff before is
    /// not.
    #[must_use]
    pub fn age(&self, key: &K) -> Duration {
        let (hash, now) = (self.hash(key), self.now());
        self.shared.state.with(|state| state.age(hash, key, now))
    }

    /// The part of `key` that is known now. None: nothing is, as of keys that have nothing to do.
    #[must_use]
    pub fn look(&self, key: &K) -> Option<QueuedKey> {
        let (hash, now) = (self.hash(key), self.now());
        self.shared.state.with(|state| state.look(hash, key, now))
    }

    /// All keys of which anything is known, in no order. It holds the queue up while they are copied: some milliseconds
    /// for a hundred thousand.
    #[must_use]
    pub fn known(&self) -> Vec<(K, QueuedKey)> {
        let now = self.now();
        self.shared.state.with(|state| state.known(now))
    }

    /// The keys that workers have, in no order.
    #[must_use]
    pub fn processing(&self) -> Vec<K> {
        self.shared.state.with(QueueState::processing)
    }

    /// How many keys are ready for a worker.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.state.with(|state| state.len())
    }

    /// Whether no key is ready for a worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The figures at this moment.
    #[must_use]
    pub fn metrics(&self) -> QueueMetrics {
        let now = self.now();
        self.shared.state.with(|state| state.metrics(now))
    }

    /// Refuses further keys and drops those that wait for their time or are parked. Workers get what is ready, then None.
    pub fn shut_down(&self) {
        self.change(QueueState::shut_down);
    }

    /// Refuses further keys, drops those that wait for their time, and waits until the workers have done everything that
    /// was ready or parked.
    pub async fn shut_down_with_drain(&self) {
        self.change(QueueState::drain);
        poll_fn(|context| {
            let is_over = self.change(|state| state.wait_for_drain(context.waker()));
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Drops the keys that are ready or parked, and returns how many there were. For a shut-down whose time is over: the
    /// next start queues every key again.
    #[must_use = "what was dropped belongs in the log"]
    pub fn drop_ready(&self) -> usize {
        self.change(QueueState::drop_waiting)
    }

    /// Changes the state, and wakes those to whom this matters.
    fn change<R>(&self, change: impl FnOnce(&mut QueueState<K>) -> R) -> R {
        let (result, woken) = self.shared.state.with(|state| (change(state), state.whom_to_wake()));
        for waker in woken {
            waker.wake();
        }
        result
    }

    fn hash(&self, key: &K) -> KeyHash {
        KeyHash::new(self.shared.hasher.hash_one(key))
    }

    fn now(&self) -> u64 {
        nanoseconds(self.shared.clock.now())
    }
}

/// A worker that waits for a key: see [`Queue::get`].
#[must_use = "a future does nothing unless polled"]
pub struct Get<'a, K: Key> {
    queue: &'a Queue<K>,
    ticket: Option<GetTicket>,
    timer: Option<BoxFuture<'static, ()>>,
}

impl<K: Key> Future for Get<'_, K> {
    type Output = Option<K>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<K>> {
        let Self { queue, ticket, timer } = &mut *self;
        loop {
            let now = queue.now();
            let due = match queue.change(|state| state.next(ticket.take(), context.waker(), now)) {
                NextKey::Key(key) => return Poll::Ready(Some(key)),
                NextKey::ShutDown => return Poll::Ready(None),
                NextKey::Wait(new, due) => {
                    *ticket = Some(new);
                    due
                }
            };
            *timer = due.map(|due| queue.shared.clock.sleep_until(Moment(Duration::from_nanos(due))));
            let is_due = timer.as_mut().is_some_and(|timer| timer.as_mut().poll(context).is_ready());
            if !is_due {
                return Poll::Pending;
            }
        }
    }
}

impl<K: Key> Drop for Get<'_, K> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.queue.change(|state| state.leave(ticket));
        }
    }
}
