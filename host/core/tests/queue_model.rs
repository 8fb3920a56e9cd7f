//! The workqueue against the simplest model of its semantics, over random interleavings.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use proptest::prelude::*;
use windlass_core::queue::outcome::Retry;
use windlass_core::queue::{Priority, Queue};

use support::{ManualClock, manual, poll};

/// One step of a random interleaving.
#[derive(Clone, Copy, Debug)]
enum Step {
    Add(u8, i32),
    AddForChange(u8, i32),
    AddAfter(u8, u64),
    AddAfterAtLeast(u8, u64, u64),
    AddRateLimited(u8, Retry, u64),
    RequeueRateLimited(u8),
    Forget(u8),
    Get,
    Done(usize),
    Park(usize),
    GiveBack(usize),
    KeepMustCall(usize),
    Wake(u8),
    /// Another gate takes over, which knows no parked key.
    WakeParked,
    Advance(u64),
    ShutDown,
    Drain,
    Drop,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..6_u8;
    let retry = prop_oneof![Just(Retry::Counted), Just(Retry::Uncounted)];
    let at_least = prop_oneof![3 => Just(0), 1 => 0..10_000_u64];
    prop_oneof![
        12 => (key(), prop_oneof![Just(0), Just(-100), Just(-3)]).prop_map(|(key, priority)| Step::Add(key, priority)),
        12 => (key(), prop_oneof![Just(0), Just(-100), Just(-3)])
            .prop_map(|(key, priority)| Step::AddForChange(key, priority)),
        8 => (key(), 0..10_000_u64).prop_map(|(key, delay)| Step::AddAfter(key, delay)),
        2 => (key(), 0..10_000_u64, at_least.clone())
            .prop_map(|(key, delay, at_least)| Step::AddAfterAtLeast(key, delay, at_least)),
        6 => (key(), retry, at_least).prop_map(|(key, retry, at_least)| Step::AddRateLimited(key, retry, at_least)),
        6 => key().prop_map(Step::RequeueRateLimited),
        3 => key().prop_map(Step::Forget),
        14 => Just(Step::Get),
        10 => (0..4_usize).prop_map(Step::Done),
        6 => (0..4_usize).prop_map(Step::Park),
        4 => (0..4_usize).prop_map(Step::GiveBack),
        4 => (0..4_usize).prop_map(Step::KeepMustCall),
        8 => key().prop_map(Step::Wake),
        3 => Just(Step::WakeParked),
        6 => (1..12_000_u64).prop_map(Step::Advance),
        1 => Just(Step::ShutDown),
        1 => Just(Step::Drain),
        1 => Just(Step::Drop),
    ]
}

/// An addition in the model: its priority, its time in milliseconds, its number, and whether only ended delays added
/// the key.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    priority: i32,
    since: u64,
    order: u64,
    is_delayed: bool,
}

/// A key's backoffs of one cause in the model: all of them, the counted ones, and when the last one ends.
#[derive(Clone, Copy, Debug, Default)]
struct Backoffs {
    are_requeues: bool,
    all: u32,
    counted: u32,
    backoff_ends: u64,
}

/// The keys that must be called: the next time, now by the workers that have them, and after that.
#[derive(Default)]
struct MustCall {
    next: BTreeSet<u8>,
    now: BTreeSet<u8>,
    again: BTreeSet<u8>,
}

impl MustCall {
    /// A worker does not work on `key`, which goes back to the queue.
    fn goes_back(&mut self, key: u8) {
        if self.now.remove(&key) {
            self.next.insert(key);
        }
        self.is_done(key);
    }

    fn is_done(&mut self, key: u8) {
        self.now.remove(&key);
        if self.again.remove(&key) {
            self.next.insert(key);
        }
    }
}

/// The semantics without optimisation: every question is answered by looking at everything.
#[derive(Default)]
struct Model {
    now: u64,
    order: u64,
    ready: BTreeMap<u8, Waiting>,
    /// The keys that workers have, each with the addition made in the meantime, and whether it was woken in the
    /// meantime.
    processing: Vec<(u8, Waiting, Option<Waiting>, bool)>,
    parked: BTreeMap<u8, Waiting>,
    delayed: BTreeMap<u8, (u64, u64)>,
    backoffs: BTreeMap<u8, Backoffs>,
    /// The priority of the last addition of keys that are idle and still known.
    last: BTreeMap<u8, i32>,
    must_call: MustCall,
    shut_down: bool,
    /// Whether parking has ended too.
    closed: bool,
}

impl Model {
    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    fn add(&mut self, key: u8, priority: i32, since: u64, is_delayed: bool, must_call: bool) {
        if self.shut_down {
            return;
        }
        if must_call {
            let is_working = self.processing.iter().any(|it| it.0 == key);
            if is_working { &mut self.must_call.again } else { &mut self.must_call.next }.insert(key);
        }
        let new = Waiting { priority, since, order: self.next_order(), is_delayed };
        if let Some((_, _, again, _)) = self.processing.iter_mut().find(|it| it.0 == key) {
            let again = again.get_or_insert(new);
            again.priority = again.priority.max(priority);
            again.is_delayed &= is_delayed;
        } else if let Some(parked) = self.parked.get_mut(&key) {
            parked.priority = parked.priority.max(priority);
        } else if let Some(ready) = self.ready.get_mut(&key) {
            if priority > ready.priority {
                *ready = Waiting { since: ready.since, ..new };
            }
        } else {
            let priority = self.at_least_as_urgent(key, priority);
            self.ready.insert(key, Waiting { priority, ..new });
        }
    }

    /// The priority with which a key is retried.
    fn priority(&self, key: u8) -> i32 {
        let processing = self.processing.iter().find(|it| it.0 == key).map(|it| &it.1);
        let waiting = processing.or_else(|| self.ready.get(&key)).or_else(|| self.parked.get(&key));
        waiting.map_or_else(|| self.last.get(&key).copied().unwrap_or(0), |waiting| waiting.priority)
    }

    /// The higher of `priority` and the priority of a pending retry.
    fn at_least_as_urgent(&self, key: u8, priority: i32) -> i32 {
        if self.delayed.contains_key(&key) { priority.max(self.priority(key)) } else { priority }
    }

    /// A key with this priority becomes idle.
    fn rests(&mut self, key: u8, priority: i32) {
        self.last.insert(key, priority);
        self.tidy(key);
    }

    /// Forgets an idle key about which nothing is known any more.
    fn tidy(&mut self, key: u8) {
        let is_known = self.delayed.contains_key(&key) || self.backoffs.contains_key(&key);
        if !is_known && !self.must_call.next.contains(&key) {
            self.last.remove(&key);
        }
    }

    fn add_after(&mut self, key: u8, delay: u64) {
        if delay == 0 {
            return self.add(key, self.priority(key), self.now, true, true);
        }
        if !self.shut_down {
            let new = (self.now + delay, self.next_order());
            let due = self.delayed.entry(key).or_insert(new);
            if new.0 < due.0 {
                *due = new;
            }
        }
    }

    /// Nothing that waits for a time runs the key before `at_least` has passed.
    fn add_after_at_least(&mut self, key: u8, delay: u64, at_least: u64) {
        if at_least > 0 && !self.shut_down {
            self.delayed
                .remove(&key)
                .filter(|due| due.0 >= self.now + at_least)
                .map(|due| self.delayed.insert(key, due));
            if let Some((_, _, again, _)) = self.processing.iter_mut().find(|it| it.0 == key)
                && again.take_if(|again| again.is_delayed).is_some()
            {
                self.must_call.again.remove(&key);
            }
        }
        self.add_after(key, delay.max(at_least));
    }

    /// `failure` is `None` for a requeue, which is not a failure.
    fn back_off(&mut self, key: u8, failure: Option<Retry>, at_least: u64) -> u64 {
        if self.shut_down {
            return 0;
        }
        let backoffs = self.backoffs.entry(key).or_default();
        if backoffs.are_requeues != failure.is_none() {
            *backoffs = Backoffs { are_requeues: failure.is_none(), ..Backoffs::default() };
        }
        let backoff = |before: u32| self.now + (5_u64 << before).min(1_000_000).max(at_least);
        if self.now < backoffs.backoff_ends {
            backoffs.backoff_ends = backoffs.backoff_ends.min(backoff(backoffs.all - 1));
        } else {
            backoffs.backoff_ends = backoff(backoffs.all);
            backoffs.all += 1;
            backoffs.counted += u32::from(failure == Some(Retry::Counted));
        }
        let delay = (backoffs.backoff_ends - self.now).max(at_least);
        self.add_after_at_least(key, delay, at_least);
        delay
    }

    fn get(&mut self) -> Poll<Option<u8>> {
        let mut due: Vec<_> = self.delayed.iter().map(|(key, due)| (*due, *key)).collect();
        due.sort_unstable();
        for ((at, _), key) in due {
            if at <= self.now {
                self.delayed.remove(&key);
                self.add(key, self.priority(key), at, true, true);
            }
        }
        let place = |it: &Waiting| (i128::from(it.since) - i128::from(it.priority) * 100, it.order);
        let Some((key, waiting)) = self.ready.iter().min_by_key(|(_, it)| place(it)).map(|(key, it)| (*key, *it))
        else {
            return if self.shut_down && self.parked.is_empty() { Poll::Ready(None) } else { Poll::Pending };
        };
        self.ready.remove(&key);
        self.processing.push((key, waiting, None, false));
        if self.must_call.next.remove(&key) {
            self.must_call.now.insert(key);
        }
        Poll::Ready(Some(key))
    }

    fn done(&mut self, index: usize) -> Option<u8> {
        let (key, waiting, again, _) = self.take(index)?;
        self.must_call.is_done(key);
        self.last.insert(key, waiting.priority);
        if let Some(again) = again {
            let (order, priority) = (self.next_order(), self.at_least_as_urgent(key, again.priority));
            self.ready.insert(key, Waiting { priority, order, ..again });
        }
        self.tidy(key);
        Some(key)
    }

    fn park(&mut self, index: usize) -> Option<u8> {
        if self.closed && !self.processing.is_empty() && !self.processing[index % self.processing.len()].3 {
            return self.done(index);
        }
        let (key, mut waiting, again, woken) = self.take(index)?;
        self.must_call.goes_back(key);
        waiting.priority = again.map_or(waiting.priority, |again| again.priority.max(waiting.priority));
        waiting.order = self.next_order();
        if woken { &mut self.ready } else { &mut self.parked }.insert(key, waiting);
        Some(key)
    }

    fn give_back(&mut self, index: usize) -> Option<u8> {
        if self.closed {
            return self.done(index);
        }
        let (key, mut waiting, again, _) = self.take(index)?;
        self.must_call.goes_back(key);
        waiting.priority = again.map_or(waiting.priority, |again| again.priority.max(waiting.priority));
        waiting.order = self.next_order();
        self.ready.insert(key, waiting);
        Some(key)
    }

    fn take(&mut self, index: usize) -> Option<(u8, Waiting, Option<Waiting>, bool)> {
        (!self.processing.is_empty()).then(|| self.processing.remove(index % self.processing.len()))
    }

    fn keep_must_call(&mut self, index: usize) -> Option<u8> {
        let key = self.processing.get(index % self.processing.len().max(1))?.0;
        self.must_call.next.extend(self.must_call.now.get(&key));
        Some(key)
    }

    fn wake(&mut self, key: u8) {
        if let Some(waiting) = self.parked.remove(&key) {
            let order = self.next_order();
            self.ready.insert(key, Waiting { order, ..waiting });
            self.must_call.next.insert(key);
        }
        if let Some((.., woken)) = self.processing.iter_mut().find(|it| it.0 == key) {
            *woken = true;
            self.must_call.now.insert(key);
        }
    }

    fn shut_down(&mut self) {
        self.shut_down = true;
        self.delayed.clear();
    }

    fn drop_waiting(&mut self) -> usize {
        self.closed |= self.shut_down;
        for (_, _, again, _) in &mut self.processing {
            *again = None;
        }
        self.must_call.again.clear();
        let dropped: Vec<_> = self.ready.iter().chain(&self.parked).map(|(key, it)| (*key, it.priority)).collect();
        self.ready.clear();
        self.parked.clear();
        for (key, priority) in &dropped {
            self.rests(*key, *priority);
        }
        dropped.len()
    }

    fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.parked.is_empty() && self.processing.is_empty()
    }
}

/// Takes one step with the queue and the model. An error describes a difference.
fn take(step: Step, queue: &Queue<u8>, clock: &ManualClock, model: &mut Model) -> Result<(), TestCaseError> {
    match step {
        Step::Add(key, priority) => {
            queue.add_with(key, Priority(priority));
            model.add(key, priority, model.now, false, true);
        }
        Step::AddForChange(key, priority) => {
            queue.add_for_change(key, Priority(priority));
            model.add(key, priority, model.now, false, false);
        }
        Step::AddAfter(key, delay) => {
            queue.add_after(key, Duration::from_millis(delay));
            model.add_after(key, delay);
        }
        Step::AddAfterAtLeast(key, delay, at_least) => {
            queue.add_after_at_least(key, Duration::from_millis(delay), Some(Duration::from_millis(at_least)));
            model.add_after_at_least(key, delay, at_least);
        }
        Step::AddRateLimited(key, retry, at_least) => {
            let delay = queue.add_rate_limited(key, retry, Some(Duration::from_millis(at_least)));
            let expected = model.back_off(key, Some(retry), at_least);
            prop_assert!(model.shut_down || delay == Duration::from_millis(expected), "{delay:?}, not {expected} ms");
        }
        Step::RequeueRateLimited(key) => {
            let delay = queue.requeue_rate_limited(key);
            let expected = model.back_off(key, None, 0);
            prop_assert_eq!(delay, Duration::from_millis(expected));
        }
        Step::Forget(key) => {
            queue.forget(&key);
            model.backoffs.remove(&key);
            model.tidy(key);
        }
        Step::Get => {
            prop_assert_eq!(poll(queue), model.get());
            let held: BTreeSet<_> = model.processing.iter().map(|it| it.0).collect();
            prop_assert_eq!(held.len(), model.processing.len(), "two workers have one key");
        }
        Step::Done(index) => drop(model.done(index).map(|key| queue.done(&key))),
        Step::Park(index) => drop(model.park(index).map(|key| queue.park(&key))),
        Step::GiveBack(index) => drop(model.give_back(index).map(|key| queue.give_back(&key))),
        Step::KeepMustCall(index) => drop(model.keep_must_call(index).map(|key| queue.keep_must_call(&key))),
        Step::Wake(key) => {
            queue.wake(&key);
            model.wake(key);
        }
        Step::WakeParked => {
            let parked: Vec<_> = queue.parked().into_iter().map(|(key, _)| key).collect();
            let known: BTreeSet<_> = model.parked.keys().copied().collect();
            prop_assert_eq!(parked.iter().copied().collect::<BTreeSet<_>>(), known);
            queue.wake_parked();
            for key in parked {
                model.wake(key);
            }
        }
        Step::Advance(millis) => {
            clock.advance(Duration::from_millis(millis));
            model.now += millis;
        }
        Step::ShutDown => {
            queue.shut_down();
            model.shut_down();
            model.closed = true;
            model.parked.clear();
        }
        Step::Drain => {
            model.shut_down();
            let drained = queue.shut_down_with_drain().now_or_never().is_some();
            prop_assert_eq!(drained, model.is_idle());
        }
        Step::Drop => prop_assert_eq!(queue.drop_ready(), model.drop_waiting()),
    }
    compare(queue, model)
}

/// Compares what the queue and the model say of all keys.
fn compare(queue: &Queue<u8>, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(queue.len(), model.ready.len());
    prop_assert_eq!(queue.metrics().parked, model.parked.len());
    for (key, ..) in &model.processing {
        prop_assert_eq!(queue.must_call(key), model.must_call.now.contains(key), "of {}", key);
    }
    for key in 0..6 {
        let failures = model.backoffs.get(&key).filter(|it| !it.are_requeues);
        prop_assert_eq!(queue.num_requeues(&key), failures.map_or(0, |it| it.counted), "of {}", key);
        prop_assert_eq!(queue.has_failed(&key), failures.is_some(), "of {}", key);
        let backs_off = failures.is_some_and(|it| model.now < it.backoff_ends);
        prop_assert_eq!(queue.backs_off(&key), backs_off, "of {}", key);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_behaves_as_the_model(steps in proptest::collection::vec(step(), 1..160)) {
        let (queue, clock) = manual();
        let mut model = Model::default();
        for step in steps {
            take(step, &queue, &clock, &mut model)?;
        }
    }

    /// Without changes, only delays queue keys.
    #[test]
    fn no_delay_ends_before_the_server_allows_it(steps in proptest::collection::vec(step(), 1..160)) {
        let (queue, clock) = manual();
        let mut not_before = BTreeMap::<u8, Duration>::new();
        let mut now = Duration::ZERO;
        for step in steps {
            match step {
                Step::AddRateLimited(index, retry, at_least) => {
                    let held = queue.processing();
                    let Some(key) = held.get(usize::from(index) % held.len().max(1)) else { continue };
                    let at_least = Duration::from_millis(at_least);
                    queue.add_rate_limited(*key, retry, Some(at_least));
                    // The last answer of the server counts.
                    not_before.insert(*key, now + at_least);
                }
                Step::AddAfter(key, delay) => {
                    queue.add_after(key, Duration::from_millis(delay));
                    not_before.remove(&key);
                }
                Step::RequeueRateLimited(key) => {
                    queue.requeue_rate_limited(key);
                    not_before.remove(&key);
                }
                Step::Advance(millis) => {
                    clock.advance(Duration::from_millis(millis));
                    now += Duration::from_millis(millis);
                }
                Step::Get => {
                    if let Poll::Ready(Some(key)) = poll(&queue) {
                        let earliest = not_before.get(&key).copied().unwrap_or_default();
                        prop_assert!(now >= earliest, "{} runs at {:?}, before {:?}", key, now, earliest);
                    }
                }
                Step::Done(index) => {
                    let held = queue.processing();
                    if !held.is_empty() {
                        queue.done(&held[index % held.len()]);
                    }
                }
                _ => {}
            }
        }
    }
}
