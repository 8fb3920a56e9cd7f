//! The workqueue, one per controller: client-go's semantics (`util/workqueue`), with an injected clock.
//!
//! One concern a file: `dirty` holds which keys are queued and which are with a worker, `delay` the keys that wait for
//! their time, `limiter` how long a failing key backs off. This file puts them behind one lock and lets workers wait.
//! Priorities and parked keys (§3.3) come with the gate; they change what `dirty` hands out, not this interface.

mod delay;
mod dirty;
mod limiter;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

pub use self::limiter::ItemExponential;
use self::{delay::Delayed, dirty::Dirty};
use crate::clock::{Clock, Moment};
use crate::outcome::Retry;

/// What can be queued.
pub trait Key: Clone + Debug + Eq + Hash + Ord + Send + 'static {}
impl<K: Clone + Debug + Eq + Hash + Ord + Send + 'static> Key for K {}

/// A queue of keys that deduplicates, never hands one key to two workers, and never loses one that is added while a
/// worker has it. Cheap to clone; all clones are the same queue.
#[derive(Clone)]
pub struct Queue<K: Key> {
    shared: Arc<Shared<K>>,
}

struct Shared<K: Key> {
    state: Mutex<State<K>>,
    /// Told once for each key that becomes ready, each sooner deadline, and each shut-down.
    changed: Notify,
    clock: Arc<dyn Clock>,
}

struct State<K: Key> {
    dirty: Dirty<K>,
    delayed: Delayed<K>,
    limiter: ItemExponential<K>,
    shutting_down: bool,
}

/// What a worker that asks for a key is told.
enum Next<K> {
    Key(K),
    WaitUntil(Option<Moment>),
    ShutDown,
}

impl<K: Key> Queue<K> {
    /// An empty queue whose failing keys back off as `limiter` says.
    pub fn new(clock: Arc<dyn Clock>, limiter: ItemExponential<K>) -> Self {
        let state = State { dirty: Dirty::default(), delayed: Delayed::default(), limiter, shutting_down: false };
        let shared = Shared { state: Mutex::new(state), changed: Notify::new(), clock };
        Self { shared: Arc::new(shared) }
    }

    /// Queues `key`. A key that is queued already stays where it is; one that a worker has is queued again when the
    /// worker is done with it.
    pub fn add(&self, key: K) {
        let ready = {
            let mut state = self.state();
            !state.shutting_down && state.dirty.add(key)
        };
        if ready {
            self.shared.changed.notify_one();
        }
    }

    /// Queues `key` once `delay` has passed. Of two delays for one key the one that ends sooner wins.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let at = self.shared.clock.now() + delay;
        let sooner = {
            let mut state = self.state();
            !state.shutting_down && state.delayed.insert(key, at)
        };
        if sooner {
            self.shared.changed.notify_one();
        }
    }

    /// Queues `key` after the backoff that its failures so far have earned, or after `at_least` if that is longer, and
    /// notes one more failure. Returns the delay.
    pub fn add_rate_limited(&self, key: K, retry: Retry, at_least: Option<Duration>) -> Duration {
        let backoff = self.state().limiter.when(&key, retry);
        let delay = backoff.max(at_least.unwrap_or_default());
        self.add_after(key, delay);
        delay
    }

    /// Forgets the failures of `key`.
    pub fn forget(&self, key: &K) {
        self.state().limiter.forget(key);
    }

    /// How many failures counted against `key` since it was last forgotten.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.state().limiter.num_requeues(key)
    }

    /// Waits for a key. Until [`Queue::done`] is called with it, no other worker gets it. None: the queue is shut down
    /// and empty.
    ///
    /// Dropping the future loses nothing.
    pub async fn get(&self) -> Option<K> {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registered before the state is looked at: a key that is added in between wakes this worker.
            changed.as_mut().enable();
            match self.next() {
                Next::Key(key) => return Some(key),
                Next::ShutDown => return None,
                Next::WaitUntil(None) => changed.await,
                Next::WaitUntil(Some(deadline)) => {
                    let timer = self.shared.clock.sleep_until(deadline);
                    futures::future::select(changed, timer).await;
                }
            }
        }
    }

    /// Ends the work on `key`, which [`Queue::get`] returned. If it was added meanwhile, it is queued now.
    pub fn done(&self, key: &K) {
        let (ready, drained) = {
            let mut state = self.state();
            let ready = state.dirty.done(key);
            (ready, state.shutting_down && state.dirty.is_idle())
        };
        if ready {
            self.shared.changed.notify_one();
        }
        if drained {
            self.shared.changed.notify_waiters();
        }
    }

    /// How many keys are ready for a worker.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().dirty.len()
    }

    /// Whether no key is ready for a worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses further keys and drops those that wait for their time. Workers get what is ready, then None.
    pub fn shut_down(&self) {
        {
            let mut state = self.state();
            state.shutting_down = true;
            state.delayed.clear();
        }
        self.shared.changed.notify_waiters();
    }

    /// Drops the keys that are ready and not with a worker, and returns how many there were. For a shut-down whose time
    /// is over: the next start queues every key again.
    #[must_use = "what was dropped belongs in the log"]
    pub fn drop_ready(&self) -> usize {
        let dropped = self.state().dirty.drop_ready();
        self.shared.changed.notify_waiters();
        dropped
    }

    /// Shuts down and waits until the workers have done everything that was ready.
    pub async fn shut_down_with_drain(&self) {
        self.shut_down();
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state().dirty.is_idle() {
                return;
            }
            changed.await;
        }
    }

    fn next(&self) -> Next<K> {
        let now = self.shared.clock.now();
        let (next, more) = {
            let mut state = self.state();
            while let Some(key) = state.delayed.pop_due(now) {
                state.dirty.add(key);
            }
            match state.dirty.get() {
                Some(key) => (Next::Key(key), state.dirty.len() > 0 || state.delayed.next_due().is_some()),
                None if state.shutting_down => (Next::ShutDown, false),
                None => (Next::WaitUntil(state.delayed.next_due()), false),
            }
        };
        // One timer may make many keys ready, and only the worker that it woke knows. And this one may have been the only
        // one that watched the time: another has to, while it works.
        if more {
            self.shared.changed.notify_one();
        }
        next
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        // Nothing under this lock can panic half-way through a change, so a poisoned state is still a whole one.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
