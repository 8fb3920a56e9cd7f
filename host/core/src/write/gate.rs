//! The gate between the queue and the workers. It holds a key until the caches show the key's own writes (ADR 10).
//!
//! A worker that has received a key asks [`Gate::holds`], and parks a key that is held. The writer reports each write
//! through an [`Interest`]. The caches report their changes to the gate, which is their [`Observer`], and a change may
//! wake keys. A cache changes its contents before it notifies the gate, and the gate judges by those contents under its
//! own lock. So no write is missed, whether its response or its event comes first.
//!
//! Lock order: a cache's change lock, the gate's lock, the lock of a cache's contents. The queue's lock may be taken
//! under a cache's change lock, to wake keys, but not under the gate's lock or the lock of a cache's contents. No other
//! lock is taken under the queue's lock.

mod audit;
mod hold_times;
#[cfg(test)]
mod interleavings;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

pub use self::audit::ParkedAudit;
use self::hold_times::HoldTimes;
use crate::clock::{Clock, Moment};
use crate::defect::Defect;
use crate::object::ObjectKey;
use crate::object::progress::{Advance, Observer, Stamp};
use crate::queue::Queue;
use crate::queue::sync::StateLock;
use crate::write::expectations::{Cache, DoubtfulKey, Due, Effect, ExpectationCounts, Expectations, HeldKey};

/// Holds the keys of one controller until the caches show the keys' own writes.
pub struct Gate {
    state: StateLock<GateInner>,
    /// The number of keys with expectations plus the number of writes under way. If it is zero, the lock is not needed.
    active: AtomicUsize,
    queue: Queue<ObjectKey>,
    clock: Arc<dyn Clock>,
    sooner: Notify,
    hold_times: HoldTimes,
}

struct GateInner {
    expectations: Expectations,
    /// When [`Gate::due`] wakes up by itself. `None` if it is not sleeping, or sleeps until it is notified.
    sleeps_until: Option<Moment>,
}

impl Gate {
    /// Creates a gate between `queue` and its workers, which read `caches`. Other methods identify a cache by its index
    /// in `caches`.
    #[must_use]
    pub fn new(caches: Vec<Cache>, queue: Queue<ObjectKey>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let progress: Vec<_> = caches.iter().map(|cache| cache.progress.clone()).collect();
        let state = StateLock::new(GateInner { expectations: Expectations::new(caches), sleeps_until: None });
        let (active, sooner) = (AtomicUsize::new(0), Notify::new());
        let gate = Arc::new(Self { state, active, queue, clock, sooner, hold_times: HoldTimes::default() });
        let observer: Arc<dyn Observer> = gate.clone();
        for (token, progress) in progress.into_iter().enumerate() {
            progress.observe(token, Arc::downgrade(&observer));
        }
        gate
    }

    /// Whether `key`, which a worker has, must not run. The worker must then park it, and the gate wakes it later.
    #[must_use]
    pub fn holds(&self, key: &ObjectKey) -> bool {
        if self.is_idle() || Defect::GateHoldsNothing.is_seeded() {
            return false;
        }
        let now = self.clock.now();
        let holds = self.state.with(|state| state.expectations.holds(key, now));
        if holds {
            self.hold_times.begin(key, now);
        }
        holds
    }

    /// Opens an interest. Call it before the key `primary` sends a write to `object`. `caches` may show that object.
    /// `None` if no cache may show it.
    #[must_use]
    pub fn open(
        self: &Arc<Self>,
        primary: &ObjectKey,
        object: &ObjectKey,
        caches: impl Into<Vec<usize>>,
    ) -> Option<Interest> {
        let caches = caches.into();
        if caches.is_empty() {
            return None;
        }
        let id = self.state.with(|state| {
            // Counted before the caches are read, so that every later change is reported.
            self.active.fetch_add(1, Ordering::SeqCst);
            let id = state.expectations.open(primary.clone(), object.clone(), &caches);
            self.note(state);
            id
        });
        Some(Interest { gate: self.clone(), id, caches, ended: false })
    }

    /// Records that the cache has proven that it shows everything that was committed at `began`.
    pub fn proven(&self, cache: usize, began: Stamp) {
        self.change(|expectations, now| expectations.proven(cache, began, now));
    }

    /// Records that a proof of the cache was abandoned. The keys that wait for the cache need another proof now.
    pub fn proof_abandoned(&self, cache: usize) {
        self.change(|expectations, now| {
            expectations.prove_again(cache, now);
            Vec::new()
        });
    }

    /// Frees keys even if their expectations are not met.
    pub fn give_up(&self, keys: Vec<ObjectKey>) {
        self.change(|expectations, _| expectations.give_up(keys));
    }

    /// The keys with unmet expectations, for the next gate.
    #[must_use]
    pub fn unseen(&self) -> Vec<DoubtfulKey> {
        self.state.with(|state| state.expectations.unseen())
    }

    /// Holds `keys` until every cache has proven that it shows everything that was committed before this call, because
    /// this gate does not know their writes. A key that the queue has parked already must be woken afterwards: see
    /// [`Queue::wake_parked`].
    pub fn doubt(&self, keys: impl IntoIterator<Item = DoubtfulKey>) {
        let since = Stamp::take();
        self.change(|expectations, now| {
            expectations.doubt(keys, since, now);
            Vec::new()
        });
    }

    /// Waits until an expectation is overdue, and returns the work that is due. For one task at a time.
    pub async fn due(&self) -> Due {
        loop {
            let now = self.clock.now();
            let (due, next) = self.state.with(|state| {
                let due = state.expectations.due(now);
                state.sleeps_until = state.expectations.next_due();
                self.note(state);
                (due, state.sleeps_until)
            });
            if due != Due::default() {
                return due;
            }
            let sooner = self.sooner.notified();
            match next {
                None => sooner.await,
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = sooner => {}
                        () = self.clock.sleep_until(at) => {}
                    }
                }
            }
        }
    }

    /// Counts since the start.
    #[must_use]
    pub fn counts(&self) -> ExpectationCounts {
        self.state.with(|state| state.expectations.counts)
    }

    /// The number of keys with expectations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.with(|state| state.expectations.len())
    }

    /// How long the key that has waited longest has waited for a cache. Zero if no key waits.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        let now = self.clock.now();
        self.state.with(|state| state.expectations.longest_wait(now))
    }

    /// Whether no key has expectations and no write is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.with(|state| state.expectations.is_empty())
    }

    /// At most `most` waiting keys, and the current time. The keys that have waited longest come first.
    #[must_use]
    pub fn waiting(&self, most: usize) -> (Vec<HeldKey>, Moment) {
        (self.state.with(|state| state.expectations.waiting(most)), self.clock.now())
    }

    /// The expectation of `key` that has been pending longest, and the current time. `None` if there is none.
    #[must_use]
    pub fn waits_for(&self, key: &ObjectKey) -> Option<(HeldKey, Moment)> {
        Some((self.state.with(|state| state.expectations.waits_for(key))?, self.clock.now()))
    }

    /// Makes [`Gate::take_hold_time`] measure how long keys are held from now on.
    pub fn time_holds(&self) {
        self.hold_times.switch_on();
    }

    /// How long ago `key` was first held since the last call of this method, and how long ago it was freed. `None` if
    /// the key was not held, or if holds are not measured.
    #[must_use]
    pub fn take_hold_time(&self, key: &ObjectKey) -> Option<(Duration, Duration)> {
        let (since, until) = self.hold_times.take(key)?;
        let now = self.clock.now();
        let ago = |moment: Moment| now.0.saturating_sub(moment.0);
        Some((ago(since), ago(until.unwrap_or(now))))
    }

    fn is_idle(&self) -> bool {
        self.active.load(Ordering::SeqCst) == 0
    }

    fn change(&self, change: impl FnOnce(&mut Expectations, Moment) -> Vec<ObjectKey>) {
        let now = self.clock.now();
        let free = self.state.with(|state| {
            let free = change(&mut state.expectations, now);
            self.note(state);
            free
        });
        // A worker that found a key held may not have parked it yet; the queue handles that.
        for key in free {
            self.hold_times.end(&key, now);
            self.queue.wake(&key);
        }
    }

    /// Call it after each change, under the lock.
    fn note(&self, state: &mut GateInner) {
        self.active.store(state.expectations.active(), Ordering::SeqCst);
        let Some(alarm) = state.expectations.take_alarm() else { return };
        if state.sleeps_until.is_none_or(|until| alarm < until) {
            state.sleeps_until = Some(alarm);
            self.sooner.notify_one();
        }
    }
}

impl Observer for Gate {
    fn advanced(&self, token: usize, advance: Advance<'_>) {
        if !self.is_idle() {
            self.change(|expectations, now| expectations.advanced(token, advance, now));
        }
    }
}

/// A write that is under way. If it is dropped before [`Interest::ended`], its outcome counts as unknown.
#[must_use = "report the outcome of the write with `ended`"]
pub struct Interest {
    gate: Arc<Gate>,
    id: u64,
    caches: Vec<usize>,
    ended: bool,
}

impl Interest {
    /// The caches that may show the object.
    #[must_use]
    pub fn caches(&self) -> &[usize] {
        &self.caches
    }

    /// Records that the write has ended with `effect`. From then on, the key does not run before the caches show the
    /// write. Call this as soon as the response has arrived, and before the call may end.
    pub fn ended(mut self, effect: &Effect) {
        self.close(effect);
    }

    fn close(&mut self, effect: &Effect) {
        self.ended = true;
        let since = Stamp::take();
        self.gate.change(|expectations, now| {
            expectations.close(self.id, effect, since, now);
            Vec::new()
        });
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        if !self.ended {
            self.close(&Effect::Unknown);
        }
    }
}
