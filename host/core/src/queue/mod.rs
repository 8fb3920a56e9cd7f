//! The workqueue, one per controller: client-go's semantics (`util/workqueue`), with an injected clock, priorities, and
//! keys that the gate holds.
//!
//! One concern a file: `dirty` knows each key's state, `priority` the order of those that are ready, `delay` those that
//! wait for their time, `limiter` how long a failing key backs off, `metrics` what all of it costs. `state` puts them
//! together under one lock; this file lets workers wait.

mod delay;
mod dirty;
mod limiter;
mod metrics;
mod priority;
mod state;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use self::delay::nanoseconds;
pub use self::limiter::{ItemExponential, Limiter, MaxOf, TokenBucket};
pub use self::metrics::{BUCKETS, Histogram, Metrics};
pub use self::priority::{AGE_PER_POINT, Priority};
use self::state::{Next, State};
use crate::clock::{Clock, Moment};
use crate::outcome::Retry;

/// What can be queued.
pub trait Key: Clone + Debug + Eq + Hash + Send + 'static {}
impl<K: Clone + Debug + Eq + Hash + Send + 'static> Key for K {}

/// A queue of keys that deduplicates, never hands one key to two workers, and never loses one that is added while a
/// worker has it. Cheap to clone; all clones are the same queue.
#[derive(Clone)]
pub struct Queue<K: Key> {
    shared: Arc<Shared<K>>,
}

struct Shared<K: Key> {
    state: Mutex<State<K>>,
    /// Told once for each key that becomes ready and each sooner deadline, for one worker; and at a shut-down, for all.
    changed: Notify,
    /// Told when nothing is left to drain. Not `changed`: who waits for the drain would take a worker's notice.
    drained: Notify,
    clock: Arc<dyn Clock>,
}

impl<K: Key> Queue<K> {
    /// An empty queue whose failing keys back off as `limiter` says.
    pub fn new(clock: Arc<dyn Clock>, limiter: impl Limiter) -> Self {
        let state = Mutex::new(State::new(limiter));
        let shared = Shared { state, changed: Notify::new(), drained: Notify::new(), clock };
        Self { shared: Arc::new(shared) }
    }

    /// Queues `key` as somebody's change: see [`Queue::add_with`].
    pub fn add(&self, key: K) {
        self.add_with(key, Priority::CHANGE);
    }

    /// Queues `key`. If it is queued already, the higher priority of the two holds. One that a worker has is queued again
    /// when the worker is done with it; one that is parked stays so.
    pub fn add_with(&self, key: K, priority: Priority) {
        let now = self.now();
        if self.state().add(key, priority, now) {
            self.shared.changed.notify_one();
        }
    }

    /// Queues `key`, as [`Queue::add`] does, once `delay` has passed. Of two delays for one key the one that ends sooner
    /// wins.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let at = nanoseconds(self.shared.clock.now() + delay);
        if self.state().add_at(key, at) {
            self.shared.changed.notify_one();
        }
    }

    /// Queues `key` after the backoff that its failures so far have earned, or after `at_least` if that is longer, and
    /// notes one more failure. Returns the delay.
    pub fn add_rate_limited(&self, key: K, retry: Retry, at_least: Option<Duration>) -> Duration {
        let backoff = self.state().fail(&key, retry, self.shared.clock.now());
        let delay = backoff.max(at_least.unwrap_or_default());
        self.add_after(key, delay);
        delay
    }

    /// Forgets the failures of `key`.
    pub fn forget(&self, key: &K) {
        self.state().forget(key);
    }

    /// How many failures counted against `key` since it was last forgotten.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.state().num_requeues(key)
    }

    /// Waits for a key. Until [`Queue::done`] or [`Queue::park`] is called with it, no other worker gets it. None: the
    /// queue is shut down, and nothing is left that could become ready.
    ///
    /// Dropping the future loses nothing.
    pub async fn get(&self) -> Option<K> {
        loop {
            match self.next() {
                Next::Key { key, .. } => return Some(key),
                Next::ShutDown => return None,
                Next::Wait(_) => {}
            }
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registered before the state is looked at again: a key that is added in between wakes this worker.
            changed.as_mut().enable();
            match self.next() {
                Next::Key { key, .. } => return Some(key),
                Next::ShutDown => return None,
                Next::Wait(None) => changed.await,
                Next::Wait(Some(due)) => {
                    let timer = self.shared.clock.sleep_until(Moment(Duration::from_nanos(due)));
                    futures::future::select(changed, timer).await;
                }
            }
        }
    }

    /// Ends the work on `key`, which [`Queue::get`] returned. If it was added meanwhile, it is queued now.
    pub fn done(&self, key: &K) {
        let now = self.now();
        let mut state = self.state();
        let is_ready = state.done(key, now);
        let is_drained = state.is_shutting_down() && state.is_idle();
        drop(state);
        self.tell(is_ready, is_drained);
    }

    /// Instead of [`Queue::done`]: holds `key`, which [`Queue::get`] returned, until [`Queue::wake`]. No worker gets it,
    /// and additions only raise its priority. It keeps its age, and no failure is noted. If it was woken since the worker
    /// got it, it is queued at once: what it was to wait for has come already.
    pub fn park(&self, key: &K) {
        let now = self.now();
        let is_ready = self.state().park(key, now);
        self.tell(is_ready, false);
    }

    /// Queues `key` again, with the priority and age that it had, if it is parked; else, if a worker has it, sees to it
    /// that the worker cannot park it. Does nothing for other keys.
    pub fn wake(&self, key: &K) {
        let is_ready = self.state().wake(key);
        self.tell(is_ready, false);
    }

    /// How many keys are ready for a worker.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().len()
    }

    /// Whether no key is ready for a worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The figures at this moment.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let now = self.now();
        self.state().metrics(now)
    }

    /// Refuses further keys and drops those that wait for their time or are parked. Workers get what is ready, then None.
    pub fn shut_down(&self) {
        let mut state = self.state();
        state.shut_down();
        state.drop_parked();
        drop(state);
        self.all_may_end();
    }

    /// Refuses further keys, drops those that wait for their time, and waits until the workers have done everything that
    /// was ready or parked.
    pub async fn shut_down_with_drain(&self) {
        self.state().shut_down();
        self.shared.changed.notify_waiters();
        loop {
            let drained = self.shared.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if self.state().is_idle() {
                return;
            }
            drained.await;
        }
    }

    /// Drops the keys that are ready or parked, and returns how many there were. For a shut-down whose time is over: the
    /// next start queues every key again.
    #[must_use = "what was dropped belongs in the log"]
    pub fn drop_ready(&self) -> usize {
        let dropped = self.state().drop_waiting();
        self.all_may_end();
        dropped
    }

    fn next(&self) -> Next<K> {
        let now = self.now();
        let next = self.state().next(now);
        // One timer may make many keys ready, and only the worker that it woke knows. And this one may have been the only
        // one that watched the time: another has to, while it works.
        if matches!(next, Next::Key { more: true, .. }) {
            self.shared.changed.notify_one();
        }
        next
    }

    fn tell(&self, is_ready: bool, is_drained: bool) {
        if is_ready {
            self.shared.changed.notify_one();
        }
        if is_drained {
            self.all_may_end();
        }
    }

    /// Workers look again whether anything is left, and whoever waits for the drain does too.
    fn all_may_end(&self) {
        self.shared.changed.notify_waiters();
        self.shared.drained.notify_waiters();
    }

    fn now(&self) -> u64 {
        nanoseconds(self.shared.clock.now())
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        // Nothing under this lock panics half-way through a change unless it is broken beyond repair anyway.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
