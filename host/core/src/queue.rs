//! The workqueue, one per controller: client-go's semantics (`util/workqueue`) with an injected clock, priorities,
//! and keys that the gate parks.
//!
//! One concern per file: `dirty` holds each key's state, `priority` orders the ready keys, `delay` holds the delayed
//! keys, `limiter` computes backoffs, `metrics` measures, and `waiters` knows whom to wake. `state` combines them
//! under one lock (`sync`). This file is the public interface.

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
use self::dirty::{BackoffCause, KeyHash};
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

/// A queue of keys that deduplicates, never gives one key to two workers, and never loses a key that is added while a
/// worker has it. Clones are the same queue.
#[derive(Clone)]
pub struct Queue<K: Key> {
    shared: Arc<QueueShared<K>>,
}

/// The queue's knowledge about one key at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedKey {
    pub stage: DirtyStage,
    /// How long the key has been ready or parked, or with a worker. Zero for an idle key.
    pub waited: Duration,
    /// The delay after which the key is added. `None` if it is not delayed.
    pub due_in: Option<Duration>,
    /// The number of failures since the key was last forgotten. Each backoff counts at most one failure, and the number
    /// stays at 255 at most.
    pub failures: u32,
    /// The number of failures that count against the key.
    pub counted: u32,
}

struct QueueShared<K: Key> {
    state: StateLock<QueueState<K>>,
    hasher: DefaultHashBuilder,
    clock: Arc<dyn Clock>,
}

impl<K: Key> Queue<K> {
    /// An empty queue with the backoffs of `limiter`.
    pub fn new(clock: Arc<dyn Clock>, limiter: impl Limiter) -> Self {
        let state = StateLock::new(QueueState::new(limiter));
        Self { shared: Arc::new(QueueShared { state, hasher: DefaultHashBuilder::default(), clock }) }
    }

    /// Queues `key` with the priority of a change: see [`Queue::add_with`].
    pub fn add(&self, key: K) {
        self.add_with(key, Priority::CHANGE);
    }

    /// Queues `key`. If it is queued already, the higher of the two priorities applies. A key that a worker has is
    /// queued again when the worker is done; a parked key stays parked.
    ///
    /// The key [must be called](Queue::must_call).
    pub fn add_with(&self, key: K, priority: Priority) {
        let hash = self.hash(&key);
        self.change(|state| state.add(hash, key, priority, true, || self.now()));
    }

    /// As [`Queue::add_with`], because an object has changed. If that is the only reason, the key need not be called
    /// if nothing that its last call read has changed.
    pub fn add_for_change(&self, key: K, priority: Priority) {
        let hash = self.hash(&key);
        self.change(|state| state.add(hash, key, priority, false, || self.now()));
    }

    /// Queues `key` once `delay` has passed, with the priority that the key had: a retry is no more urgent than the
    /// first try. A new key gets the priority of a change. Of two delays for one key, the one that ends sooner wins.
    pub fn add_after(&self, key: K, delay: Duration) {
        let (hash, now) = (self.hash(&key), self.shared.clock.now());
        self.change(|state| state.add_after(hash, key, delay, now));
    }

    /// Queues `key` as [`Queue::add_after`] does, after `delay`, or after `at_least` if that is longer. `at_least` is
    /// what a server asked for with `Retry-After`, so an earlier delay of the key that would end sooner is postponed. A
    /// change still queues the key at once.
    pub fn add_after_at_least(&self, key: K, delay: Duration, at_least: Option<Duration>) {
        let (hash, now) = (self.hash(&key), self.shared.clock.now());
        self.change(|state| state.add_after_at_least(hash, key, delay, at_least.unwrap_or_default(), now));
    }

    /// Queues `key` as [`Queue::add_after_at_least`] does, after the backoff for its failures so far, and records a
    /// failure. Returns the delay.
    ///
    /// A failure while the key [backs off](Queue::backs_off) is not recorded: the key is queued when that backoff ends,
    /// or sooner, after a backoff of the same length, but not before `at_least` has passed. client-go counts such
    /// failures too, so that ten events during an outage use up ten retries (kubernetes/kubernetes#132805).
    pub fn add_rate_limited(&self, key: K, retry: Retry, at_least: Option<Duration>) -> Duration {
        let (hash, now) = (self.hash(&key), self.shared.clock.now());
        let cause = BackoffCause::Failure(retry);
        self.change(|state| state.back_off(hash, key, cause, at_least.unwrap_or_default(), now))
    }

    /// Queues `key` as [`Queue::add_after`] does, after a backoff that grows with each requeue in a row, and forgets
    /// the key's failures. Returns the delay. A failure, or [`Queue::forget`], begins the backoff anew.
    ///
    /// A requeue before the backoff of the previous requeue has ended does not lengthen the backoff. The same holds for
    /// failures.
    pub fn requeue_rate_limited(&self, key: K) -> Duration {
        let (hash, now) = (self.hash(&key), self.shared.clock.now());
        self.change(|state| state.back_off(hash, key, BackoffCause::Requeue, Duration::ZERO, now))
    }

    /// Forgets the failures and the requeues of `key`.
    pub fn forget(&self, key: &K) {
        let hash = self.hash(key);
        self.change(|state| state.forget(hash, key));
    }

    /// How many failures counted against `key` since it was last forgotten, at most one per backoff; at most 65,535.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        let hash = self.hash(key);
        self.change(|state| state.num_requeues(hash, key))
    }

    /// Whether the backoff of the last failure of `key` is not over yet. If a worker has such a key, an event queued
    /// it early.
    #[must_use]
    pub fn backs_off(&self, key: &K) -> bool {
        let (hash, now) = (self.hash(key), self.now());
        self.shared.state.with(|state| state.backs_off(hash, key, now))
    }

    /// Whether `key` has failed since it was last forgotten, whether or not the failure counts.
    #[must_use]
    pub fn has_failed(&self, key: &K) -> bool {
        let hash = self.hash(key);
        self.shared.state.with(|state| state.has_failed(hash, key))
    }

    /// Whether `key`, which [`Queue::get`] returned, was queued because a delay or a backoff ended. It may have been
    /// added for another reason as well.
    #[must_use]
    pub fn was_due(&self, key: &K) -> bool {
        let hash = self.hash(key);
        self.shared.state.with(|state| state.was_due(hash, key))
    }

    /// Whether `key`, which [`Queue::get`] returned, must be called, whatever its last call read: it was added for
    /// another reason than a change, it was woken, or a delay or a backoff has ended. True if no worker has the key.
    #[must_use]
    pub fn must_call(&self, key: &K) -> bool {
        let hash = self.hash(key);
        self.shared.state.with(|state| state.must_call(hash, key))
    }

    /// If `key`, which [`Queue::get`] returned, [must be called](Queue::must_call), it must also be called the next
    /// time, because no call is made now.
    pub fn keep_must_call(&self, key: &K) {
        let hash = self.hash(key);
        self.change(|state| state.keep_must_call(hash, key));
    }

    /// Waits for a key. No other worker gets it until [`Queue::done`] or [`Queue::park`] is called with it. `None`
    /// once the queue is shut down and no key can become ready any more.
    ///
    /// Dropping the future loses nothing.
    #[must_use = "a future does nothing unless polled"]
    pub fn get(&self) -> Get<'_, K> {
        Get { queue: self, ticket: None, timer: None }
    }

    /// Ends the work on `key`, which [`Queue::get`] returned. If the key was added in the meantime, it is queued now.
    pub fn done(&self, key: &K) {
        let (hash, now) = (self.hash(key), self.now());
        self.change(|state| state.done(hash, key, now));
    }

    /// Instead of [`Queue::done`]: parks `key`, which [`Queue::get`] returned, until [`Queue::wake`]. No worker gets
    /// it, and additions only raise its priority. It keeps its age, and no failure is recorded. If it was woken since
    /// the worker got it, it is queued at once. A queue that is shut down drops it instead.
    pub fn park(&self, key: &K) {
        let (hash, now) = (self.hash(key), self.now());
        self.change(|state| state.park(hash, key, now));
    }

    /// Queues `key` again with its priority and age if it is parked. If a worker has it, the worker's next
    /// [`Queue::park`] queues it at once. Does nothing for other keys.
    pub fn wake(&self, key: &K) {
        let hash = self.hash(key);
        self.change(|state| state.wake(hash, key));
    }

    /// Wakes all parked keys, for a gate that replaces another: the new gate cannot wake keys that it did not park.
    /// Workers ask it about each key and park the keys that it holds again.
    pub fn wake_parked(&self) {
        self.change(QueueState::wake_parked);
    }

    /// The parked keys, in no order, each with a number. The number differs each time the key is parked.
    #[must_use]
    pub fn parked(&self) -> Vec<(K, u32)> {
        self.shared.state.with(QueueState::parked)
    }

    /// Instead of [`Queue::done`]: returns `key`, which [`Queue::get`] returned, without having worked on it. It
    /// keeps its priority and age, and no failure is recorded. A queue that is shut down drops it instead: then this
    /// returns `false`.
    #[must_use = "a key that is dropped must be counted"]
    pub fn give_back(&self, key: &K) -> bool {
        let (hash, now) = (self.hash(key), self.now());
        self.change(|state| state.give_back(hash, key, now))
    }

    /// Replaces the limiter. Delays that have begun stay as they are.
    pub fn limit_by(&self, limiter: impl Limiter) {
        self.change(|state| state.limit_by(limiter));
    }

    /// The time since `key`, which [`Queue::get`] returned, was added. Includes time parked, but not an earlier
    /// backoff.
    #[must_use]
    pub fn age(&self, key: &K) -> Duration {
        let (hash, now) = (self.hash(key), self.now());
        self.shared.state.with(|state| state.age(hash, key, now))
    }

    /// The queue's knowledge about `key` now. `None` if it knows nothing, as about a key without work or failures.
    #[must_use]
    pub fn look(&self, key: &K) -> Option<QueuedKey> {
        let (hash, now) = (self.hash(key), self.now());
        self.shared.state.with(|state| state.look(hash, key, now))
    }

    /// All keys about which anything is known, in no order. Blocks the queue while they are copied: some milliseconds
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

    /// Whether the queue refuses further keys.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.state.with(|state| state.is_shutting_down())
    }

    /// Refuses further keys and drops delayed and parked ones. Workers get the ready keys, then `None`.
    pub fn shut_down(&self) {
        self.change(QueueState::shut_down);
    }

    /// Refuses further keys, drops delayed ones, and waits until workers have finished all ready and parked keys.
    pub async fn shut_down_with_drain(&self) {
        self.change(QueueState::drain);
        poll_fn(|context| {
            let is_over = self.change(|state| state.wait_for_drain(context.waker()));
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Drops the ready and parked keys and returns their number. For a shutdown that runs out of time: the next start
    /// queues every key again.
    #[must_use = "what was dropped belongs in the log"]
    pub fn drop_ready(&self) -> usize {
        self.change(QueueState::drop_waiting)
    }

    /// Changes the state and wakes the affected waiters.
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
