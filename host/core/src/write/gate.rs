//! The gate after the queue: it holds a key until the caches show what the key itself has written (ADR 10).
//!
//! A worker that has got a key asks [`Gate::holds`], and parks a key that is held. The writer tells of each write
//! through an [`Interest`]. The caches tell the gate, as their [`Observer`], what they show; what they tell wakes the
//! keys. A change is in a cache before the gate is told, and the gate judges by what the cache shows, under its own
//! lock: so whichever of a write's answer and its event comes first, none is missed.
//!
//! Locks are taken in this order: that of a cache's changes, the gate's, that of a cache's contents. The queue's is
//! taken under that of a cache's changes too, when what the cache has shown wakes keys; but not under the gate's, nor
//! with that of a cache's contents. Nothing takes another of them under the queue's.

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

/// Holds the keys of one controller until the caches show what the keys have written.
pub struct Gate {
    state: StateLock<GateInner>,
    /// How many keys have something to see, and writes are under way: with none, nobody need take the lock.
    active: AtomicUsize,
    queue: Queue<ObjectKey>,
    clock: Arc<dyn Clock>,
    sooner: Notify,
    hold_times: HoldTimes,
}

struct GateInner {
    expectations: Expectations,
    /// Until when [`Gate::due`] sleeps. None: until it is told, or it does not.
    sleeps_until: Option<Moment>,
}

impl Gate {
    /// A gate between `queue` and its workers, which read `caches`; whoever names a cache names its place in these.
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

    /// Whether `key`, which a worker has, must not run: then the worker parks it, and the gate wakes it.
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

    /// To be called before the key `primary` sends a write to `object`, which `caches` may show. None: they are none.
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
            // Before the caches are looked at: a change that is not seen there is told.
            self.active.fetch_add(1, Ordering::SeqCst);
            let id = state.expectations.open(primary.clone(), object.clone(), &caches);
            self.note(state);
            id
        });
        Some(Interest { gate: self.clone(), id, caches, ended: false })
    }

    /// The cache has proven that it shows all that had been committed at `began`.
    pub fn proven(&self, cache: usize, began: Stamp) {
        self.change(|expectations, now| expectations.proven(cache, began, now));
    }

    /// A proof of the cache was given up before its end. The keys that wait for the cache need another proof now.
    pub fn proof_abandoned(&self, cache: usize) {
        self.change(|expectations, now| {
            expectations.prove_again(cache, now);
            Vec::new()
        });
    }

    /// Lets keys run whatever they have not seen.
    pub fn give_up(&self, keys: Vec<ObjectKey>) {
        self.change(|expectations, _| expectations.give_up(keys));
    }

    /// The keys that have something to see, for the gate that follows this one.
    #[must_use]
    pub fn unseen(&self) -> Vec<DoubtfulKey> {
        self.state.with(|state| state.expectations.unseen())
    }

    /// Holds `keys` until every cache has proven that it shows all that was committed before this call, because this
    /// gate does not know what they have written. A key that the queue has parked already must be woken afterwards: see
    /// [`Queue::wake_parked`].
    pub fn doubt(&self, keys: impl IntoIterator<Item = DoubtfulKey>) {
        let since = Stamp::take();
        self.change(|expectations, now| {
            expectations.doubt(keys, since, now);
            Vec::new()
        });
    }

    /// Waits until something has taken long, and tells what is to be done about it. For one task at a time.
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

    /// Counts of what has happened so far.
    #[must_use]
    pub fn counts(&self) -> ExpectationCounts {
        self.state.with(|state| state.expectations.counts)
    }

    /// How many keys have something to see, or may yet have to.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.with(|state| state.expectations.len())
    }

    /// How long the key that has waited the longest has waited for a cache. Zero if no key waits.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        let now = self.clock.now();
        self.state.with(|state| state.expectations.longest_wait(now))
    }

    /// Whether no key has anything to see, and no write is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.with(|state| state.expectations.is_empty())
    }

    /// The keys that wait, at most `most`, those that have waited for the longest first; and the present.
    #[must_use]
    pub fn waiting(&self, most: usize) -> (Vec<HeldKey>, Moment) {
        (self.state.with(|state| state.expectations.waiting(most)), self.clock.now())
    }

    /// The state that `key` has waited for the longest, and the present. None: it waits for nothing.
    #[must_use]
    pub fn waits_for(&self, key: &ObjectKey) -> Option<(HeldKey, Moment)> {
        Some((self.state.with(|state| state.expectations.waits_for(key))?, self.clock.now()))
    }

    /// From now on, [`Gate::take_hold_time`] knows how long keys were held.
    pub fn time_holds(&self) {
        self.hold_times.switch_on();
    }

    /// How long ago `key` was first held since this was last asked, and how long ago it was let go. None: it was not held,
    /// or nobody had it timed.
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
        // Whoever found a key held may not have parked it yet: the queue sees to that.
        for key in free {
            self.hold_times.end(&key, now);
            self.queue.wake(&key);
        }
    }

    /// To be called after each change, under the lock.
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

/// A write that is under way. One that is dropped before it was told how it ended may have done anything.
#[must_use = "what becomes of the write is to be told"]
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

    /// The write has ended so: the key does not run before the caches show that. To be called as soon as the answer is
    /// there, and before the call may end.
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
