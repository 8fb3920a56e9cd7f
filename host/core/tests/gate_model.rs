//! Tests the gate against a model of a server whose caches lag. Whichever client writes, and whenever caches are
//! notified, a key that may run sees its own writes or a later state. Once the caches have caught up, the key may run.

#[allow(dead_code, reason = "the cases use more of it")]
mod fake;
mod tokio_clock;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use proptest::collection::vec;
use proptest::prelude::*;
use windlass_core::object::compact::Uid;
use windlass_core::object::progress::{Progress, Stamp};
use windlass_core::object::{Object, ObjectKey};
use windlass_core::queue::{ItemExponential, Queue};
use windlass_core::write::expectations::{Cache, Effect, Shown};
use windlass_core::write::gate::{Gate, Interest};

use fake::{FakeCache, key, state};
use tokio_clock::TokioClock;

/// Few names, so that each is written often.
const NAMES: [&str; 2] = ["a", "b"];
/// The second cache shows only objects with the label.
const FILTERED: usize = 1;

#[derive(Clone, Copy, Debug)]
enum Op {
    Create {
        is_in: bool,
    },
    Update {
        is_in: bool,
        touches: bool,
    },
    Delete {
        is_graceful: bool,
    },
    /// Removes the last finalizer of a terminating object.
    Release,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The key writes, in its current run or in a new one.
    Ours(usize, Op),
    Others(usize, Op),
    /// One of the pending writes gets a response, or loses it.
    Answer(usize),
    NoAnswer(usize),
    EndRun,
    /// A cache receives this many changes.
    Deliver(usize, usize),
    Bookmark(usize),
    BeginList(usize),
    EndList(usize),
    /// A cache receives all changes, and a proof confirms this.
    Prove(usize),
    /// The server is restored to its state of this many changes ago.
    Restore(usize),
    /// Another generation replaces the running one. It reads other caches, or none.
    Swap {
        reads: bool,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => any::<bool>().prop_map(|is_in| Op::Create { is_in }),
        4 => any::<(bool, bool)>().prop_map(|(is_in, touches)| Op::Update { is_in, touches }),
        3 => prop::bool::weighted(0.7).prop_map(|is_graceful| Op::Delete { is_graceful }),
        4 => Just(Op::Release),
    ]
}

fn step(restores: bool) -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let cache = || 0..2_usize;
    prop_oneof![
        10 => (name(), op()).prop_map(|(name, op)| Step::Ours(name, op)),
        5 => (name(), op()).prop_map(|(name, op)| Step::Others(name, op)),
        9 => (0..3_usize).prop_map(Step::Answer),
        1 => (0..3_usize).prop_map(Step::NoAnswer),
        8 => Just(Step::EndRun),
        14 => (cache(), 1..6_usize).prop_map(|(cache, changes)| Step::Deliver(cache, changes)),
        3 => cache().prop_map(Step::Bookmark),
        4 => prop_oneof![cache().prop_map(Step::BeginList), cache().prop_map(Step::EndList)],
        6 => prop_oneof![2 => cache().prop_map(Step::Prove), 1 => prop::bool::weighted(0.7).prop_map(|reads| Step::Swap { reads })],
        u32::from(restores) => (1..6_usize).prop_map(Step::Restore),
    ]
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    uid: String,
    version: u64,
    is_in: bool,
    deleting: bool,
}

impl State {
    fn object(&self, name: &str) -> Object {
        let labels: &[(&str, &str)] = if self.is_in { &[("in", "")] } else { &[] };
        state(name, &self.uid, &self.version.to_string(), labels, self.deleting)
    }
}

/// A change of one object.
#[derive(Clone, Debug)]
struct Change {
    name: usize,
    before: Option<State>,
    after: Option<State>,
    version: u64,
}

/// The server's objects, and all changes so far.
#[derive(Default)]
struct Server {
    objects: BTreeMap<usize, State>,
    changes: Vec<Change>,
    epoch: u64,
    made: u64,
}

/// The effect of a write.
struct Done {
    effect: Effect,
    /// The change that made the resulting state.
    change: Option<usize>,
    is_deletion: bool,
}

impl Server {
    /// A version of one epoch is never used in another.
    fn next_version(&self) -> u64 {
        self.changes.last().map_or(0, |change| change.version) / 16 * 16 + 16 + self.epoch
    }

    fn version(&self) -> u64 {
        self.changes.last().map_or(1, |change| change.version)
    }

    fn set(&mut self, name: usize, after: Option<State>) {
        let version = self.next_version();
        let after = after.map(|after| State { version, ..after });
        let before = match after.clone() {
            Some(after) => self.objects.insert(name, after),
            None => self.objects.remove(&name),
        };
        self.changes.push(Change { name, before, after, version });
    }

    fn write(&mut self, name: usize, op: Op) -> Done {
        let present = self.objects.get(&name).cloned();
        let is_new = present.is_none();
        let uid = present.as_ref().map(|present| present.uid.clone());
        match (op, present) {
            (Op::Create { is_in }, None) => {
                self.made += 1;
                let uid = format!("u{}", self.made);
                self.set(name, Some(State { uid, version: 0, is_in, deleting: false }));
            }
            (Op::Update { is_in, touches }, Some(present)) => {
                if touches || present.is_in != is_in {
                    self.set(name, Some(State { is_in, ..present }));
                }
            }
            (Op::Delete { is_graceful: true }, Some(present)) => {
                if !present.deleting {
                    self.set(name, Some(State { deleting: true, ..present }));
                }
            }
            (Op::Delete { is_graceful: false }, Some(_)) => self.set(name, None),
            (Op::Release, Some(present)) if present.deleting => self.set(name, None),
            _ => return Done { effect: Effect::Nothing, change: None, is_deletion: false },
        }
        let effect = match self.objects.get(&name) {
            Some(left) => Effect::Left {
                uid: Uid::from(&*left.uid),
                version: (&*left.version.to_string()).into(),
                is_new,
                shown: vec![Shown::Yes, if left.is_in { Shown::Yes } else { Shown::No }],
            },
            None => Effect::Removed { uid: uid.as_deref().map(Uid::from), for_good: matches!(op, Op::Release) },
        };
        let change = self.changes.iter().rposition(|change| change.name == name);
        Done { effect, change, is_deletion: matches!(op, Op::Delete { .. }) }
    }
}

/// The true progress of a cache.
#[derive(Default)]
struct Follower {
    told: usize,
    /// A list that began: when, after which changes, and with which contents and version.
    list: Option<(Stamp, usize, BTreeMap<usize, State>, u64)>,
    /// Whether the server was restored, so that only a list can help.
    is_broken: bool,
}

/// The key's last write to an object.
struct Last {
    change: usize,
    /// The deleted object's UID, if the write was a deletion.
    deleted: Option<String>,
}

#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own about the run")]
struct World {
    server: Server,
    caches: [Arc<FakeCache>; 2],
    followers: [Follower; 2],
    queue: Queue<ObjectKey>,
    clock: Arc<TokioClock>,
    gate: Arc<Gate>,
    /// Whether the running generation reads the caches.
    reads: bool,
    is_comparable: bool,
    is_running: bool,
    under_way: Vec<(Option<Interest>, Effect)>,
    last: BTreeMap<usize, Last>,
    /// Whether something has happened that only a proof can settle.
    needs_proof: bool,
    runs: usize,
}

fn web() -> ObjectKey {
    key("web")
}

fn gate(caches: &[Arc<FakeCache>], queue: &Queue<ObjectKey>, clock: &Arc<TokioClock>) -> Arc<Gate> {
    let of = |(token, progress): (usize, &Arc<FakeCache>)| Cache {
        progress: progress.clone(),
        is_filtered: token == FILTERED,
    };
    Gate::new(caches.iter().enumerate().map(of).collect(), queue.clone(), clock.clone())
}

impl World {
    fn new(is_comparable: bool) -> Self {
        let caches = [FakeCache::new(is_comparable), FakeCache::new(is_comparable)];
        let clock = TokioClock::new();
        let queue = Queue::new(clock.clone(), ItemExponential::default());
        let gate = gate(&caches, &queue, &clock);
        Self {
            server: Server::default(),
            caches,
            followers: Default::default(),
            queue,
            clock,
            gate,
            reads: true,
            is_comparable,
            is_running: false,
            under_way: Vec::new(),
            last: BTreeMap::new(),
            needs_proof: false,
            runs: 0,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Ours(name, op) => self.ours(name, op),
            Step::Others(name, op) => drop(self.server.write(name, op)),
            Step::Answer(which) => self.answer(which, true),
            Step::NoAnswer(which) => self.answer(which, false),
            Step::EndRun => self.end_run(),
            Step::Deliver(cache, changes) => (0..changes).for_each(|_| self.deliver(cache)),
            Step::Bookmark(cache) => self.bookmark(cache),
            Step::BeginList(cache) => self.begin_list(cache),
            Step::EndList(cache) => self.end_list(cache),
            Step::Prove(cache) => self.prove(cache),
            Step::Restore(changes) => self.restore(changes),
            Step::Swap { reads } => self.swap(reads),
        }
        // All writes have a response, so the run might end and the next begin.
        if self.under_way.is_empty() && self.may_run() {
            self.check();
        }
    }

    /// Whether the key may run now, or run again.
    fn may_run(&self) -> bool {
        if self.is_running {
            return !self.gate.holds(&web());
        }
        let may_run = self.take_key();
        if may_run {
            self.queue.done(&web());
        }
        may_run
    }

    /// Whether a worker that asks for the key gets it and the gate lets it run. A change queues the key first.
    fn take_key(&self) -> bool {
        self.queue.add(web());
        let Some(key) = self.queue.get().now_or_never().flatten() else {
            let parked: Vec<_> = self.queue.parked().into_iter().map(|(key, _)| key).collect();
            assert_eq!(parked, [web()], "only a parked key is not handed out");
            assert!(!self.gate.waiting(1).0.is_empty(), "the key is parked, and the gate would not wake it");
            return false;
        };
        if self.gate.holds(&key) {
            self.queue.park(&key);
            return false;
        }
        true
    }

    fn end_run(&mut self) {
        if self.is_running && self.under_way.is_empty() {
            self.queue.done(&web());
            self.is_running = false;
        }
    }

    /// The calls of the running generation have ended. The next generation inherits the queue and reads its own caches,
    /// whose progress differs from that of the former caches.
    fn swap(&mut self, reads: bool) {
        if self.is_running {
            return;
        }
        let (unseen, clock) = (self.gate.unseen(), self.clock.clone());
        self.needs_proof |= !unseen.is_empty();
        self.caches = [FakeCache::new(self.is_comparable), FakeCache::new(self.is_comparable)];
        for cache in 0..2 {
            self.followers[cache] = Follower::default();
            self.begin_list(cache);
            self.end_list(cache);
        }
        self.reads = reads;
        self.gate = gate(if reads { &self.caches } else { &[] }, &self.queue, &clock);
        self.gate.doubt(unseen);
        self.queue.wake_parked();
    }

    fn ours(&mut self, name: usize, op: Op) {
        if !self.is_running {
            if !self.take_key() {
                return;
            }
            self.check();
            (self.is_running, self.runs) = (true, self.runs + 1);
        }
        let interest = self.gate.open(&web(), &key(NAMES[name]), if self.reads { vec![0, 1] } else { vec![] });
        let before = self.server.objects.get(&name).cloned();
        let Done { effect, change, is_deletion } = self.server.write(name, op);
        // If a filtered cache shows the name again, only a proof decides which state is later. The object may be the
        // successor of an object that the cache did not show, or, if versions do not compare, the same object.
        self.needs_proof |= match &effect {
            Effect::Left { shown, .. } => !self.is_comparable && shown[FILTERED] == Shown::No,
            Effect::Removed { .. } => before.as_ref().is_some_and(|before| !before.is_in),
            Effect::Nothing | Effect::Unknown => false,
        };
        if let Some(change) = change {
            let deleted = before.filter(|_| is_deletion).map(|before| before.uid);
            self.last.insert(name, Last { change, deleted });
        }
        self.under_way.push((interest, effect));
    }

    fn answer(&mut self, which: usize, is_told: bool) {
        if which >= self.under_way.len() {
            return;
        }
        let (interest, effect) = self.under_way.remove(which);
        self.needs_proof |= !is_told;
        if let Some(interest) = interest {
            interest.ended(if is_told { &effect } else { &Effect::Unknown });
        }
    }

    fn deliver(&mut self, cache: usize) {
        let follower = &mut self.followers[cache];
        if follower.is_broken || follower.list.is_some() {
            return;
        }
        let Some(Change { name, before, after, version }) = self.server.changes.get(follower.told).cloned() else {
            return;
        };
        follower.told += 1;
        let shows = |state: &State| cache != FILTERED || state.is_in;
        let at = |state: State| State { version, ..state }.object(NAMES[name]);
        match (before.filter(shows), after.clone().filter(shows)) {
            (_, Some(after)) => self.caches[cache].applied(&after.object(NAMES[name])),
            // The last state, with the version at which it was hidden or deleted.
            (Some(before), None) => self.caches[cache].deleted(&at(after.unwrap_or(before))),
            (None, None) => {}
        }
    }

    fn bookmark(&mut self, cache: usize) {
        let Follower { told, list, is_broken } = &self.followers[cache];
        let version = told.checked_sub(1).map(|last| self.server.changes[last].version);
        if let (Some(version), false, None) = (version, is_broken, list) {
            self.caches[cache].bookmark(&version.to_string());
        }
    }

    fn begin_list(&mut self, cache: usize) {
        let shown = self.server.objects.clone();
        let list = (Stamp::take(), self.server.changes.len(), shown, self.server.version());
        self.followers[cache].list.get_or_insert(list);
    }

    fn end_list(&mut self, cache: usize) {
        let follower = &mut self.followers[cache];
        let Some((began, told, shown, version)) = follower.list.take() else { return };
        follower.told = told;
        self.needs_proof = true;
        let shown = shown.into_iter().filter(|(_, state)| cache != FILTERED || state.is_in);
        let shown: Vec<_> = shown.map(|(name, state)| state.object(NAMES[name])).collect();
        if std::mem::take(&mut follower.is_broken) {
            self.caches[cache].list_anew(began, &version.to_string(), shown);
        } else {
            self.caches[cache].list(began, &version.to_string(), shown);
        }
    }

    fn prove(&mut self, cache: usize) {
        if self.followers[cache].is_broken || self.followers[cache].list.is_some() {
            return;
        }
        let began = Stamp::take();
        while self.followers[cache].told < self.server.changes.len() {
            self.deliver(cache);
        }
        self.gate.proven(cache, began);
    }

    fn restore(&mut self, changes: usize) {
        let left = self.server.changes.len().saturating_sub(changes);
        for change in self.server.changes.drain(left..).rev().collect::<Vec<_>>() {
            match change.before {
                Some(before) => self.server.objects.insert(change.name, before),
                None => self.server.objects.remove(&change.name),
            };
        }
        self.server.epoch = (self.server.epoch + 1) % 16;
        self.needs_proof = true;
        // Undone writes need not be seen, and nothing is known about pending ones.
        self.last.retain(|_, last| last.change < left);
        for follower in &mut self.followers {
            *follower = Follower { told: follower.told.min(left), list: None, is_broken: true };
        }
    }

    /// The key may run, so each cache must show its last write to each object, or a later state.
    fn check(&self) {
        if !self.reads {
            return;
        }
        for (name, last) in &self.last {
            for (cache, follower) in self.followers.iter().enumerate() {
                let shown = self.caches[cache].get(&key(NAMES[*name]));
                let is_terminating =
                    |it: &Object| it.header.deleting && last.deleted.as_deref() == Some(&*it.header.uid.text());
                // A filtered cache may never receive an object that it does not show.
                let Change { before, after, .. } = &self.server.changes[last.change];
                let is_hidden = cache == FILTERED && after.as_ref().is_none_or(|after| !after.is_in);
                if is_hidden && before.is_none() {
                    // The cache never shows this object, and the key has not written to an earlier object of this name.
                    continue;
                }
                let is_seen = follower.told > last.change
                    || shown.as_ref().is_some_and(is_terminating)
                    || (is_hidden && shown.is_none());
                assert!(is_seen, "cache {cache} has not seen the write to {}: it shows {shown:?}", NAMES[*name]);
            }
        }
    }

    /// Completes everything that is pending.
    fn end(&mut self) {
        while !self.under_way.is_empty() {
            self.answer(0, true);
        }
        self.end_run();
        for cache in 0..2 {
            if self.followers[cache].is_broken {
                self.take(Step::BeginList(cache));
            }
            self.end_list(cache);
            while self.followers[cache].told < self.server.changes.len() {
                self.deliver(cache);
            }
            self.bookmark(cache);
        }
        if !self.needs_proof {
            assert!(self.may_run(), "all changes have been delivered, but the key is held: {:?}", self.gate.waiting(9));
        }
        for cache in 0..2 {
            self.gate.proven(cache, Stamp::take());
        }
        assert!(self.may_run() && self.gate.is_empty(), "an expectation is left: {:?}", self.gate.waiting(9));
        self.check();
    }
}

fn run(is_comparable: bool, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let mut world = World::new(is_comparable);
        for step in steps {
            world.take(step);
        }
        world.end();
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_key_runs_on_its_own_writes_or_a_later_state(is_comparable: bool, steps in vec(step(false), 1..80)) {
        run(is_comparable, steps);
    }

    #[test]
    fn a_key_runs_on_its_own_writes_after_a_restore_too(is_comparable: bool, steps in vec(step(true), 1..80)) {
        run(is_comparable, steps);
    }
}

#[test]
fn a_key_does_not_run_on_the_last_state_of_a_released_object() {
    for is_comparable in [true, false] {
        let steps = [
            Step::Others(0, Op::Create { is_in: true }),
            Step::Others(0, Op::Delete { is_graceful: true }),
            Step::Deliver(0, 2),
            Step::Deliver(1, 2),
            Step::Ours(0, Op::Release),
            Step::Answer(0),
            Step::EndRun,
            Step::Ours(1, Op::Create { is_in: true }),
        ];
        run(is_comparable, steps.into());
    }
}

#[test]
fn a_key_that_hides_an_object_does_not_run_on_undone_states() {
    let steps = [
        Step::Others(1, Op::Create { is_in: false }),
        Step::Others(1, Op::Update { is_in: true, touches: false }),
        Step::Others(0, Op::Create { is_in: true }),
        Step::Prove(1),
        Step::Restore(2),
        Step::Ours(1, Op::Update { is_in: false, touches: true }),
        Step::Answer(0),
    ];
    run(true, steps.into());
}
