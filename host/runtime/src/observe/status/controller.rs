//! The status of one controller, and the outcomes of its calls.

mod held;
mod keys;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::clock::Clock as _;
use windlass_core::life::plugin_state::ControllerState;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::Queue;
use windlass_core::queue::breaker;
use windlass_core::queue::key_state::{CallBlock, CallEnd};
use windlass_core::queue::trigger::Triggers;
use windlass_core::repeats::Repeats;
use windlass_core::write::gate::Gate;
use windlass_kube::ConditionCounts;

pub(crate) use self::held::GateCaches;
pub(crate) use self::keys::KeyListing;
use super::calls::KeyCalls;
use super::settling::SettlingKeys;
use super::withheld::WithheldWrites;
use super::{locked, shortened};
use crate::clock::SystemClock;
use crate::observe::metrics::ControllerMetrics;

/// Lines about failed calls that a controller logs each minute. Further ones are summed up.
const CALL_FAILURES_A_MINUTE: u32 = 10;
/// Keys of one controller that are listed as given up. More are only counted.
pub(super) const LISTED_GIVEN_UP_KEYS_MAX: usize = 1000;
/// Errors of different keys that are listed, the latest.
const LISTED_ERRORS_MAX: usize = 10;

/// The guards that each call of a controller passes, as status and metrics show them.
pub(crate) trait CallGuards: Send + Sync {
    /// The state of the circuit breaker.
    fn breaker(&self) -> breaker::BreakerState;

    /// The same with its reasons, for `/plugins`.
    fn breaker_json(&self) -> Value;

    /// How many keys are in the slow lane, as they write one object over and over.
    fn slowed(&self) -> usize;

    /// Those keys, for `/plugins`.
    fn slow_lane_json(&self) -> Vec<Value>;

    /// The object that `key` writes over and over. None: the key is not in the slow lane.
    fn loops_over(&self, key: &ObjectKey) -> Option<Arc<str>>;
}

/// The keys of a controller at work, as dispatch knows them.
pub(crate) trait KeySource: Send + Sync {
    /// Why no call can be made now.
    fn block(&self) -> Option<CallBlock>;

    /// The watches whose caches have not been listed since the server was restored.
    fn unproven(&self) -> Vec<String>;

    /// Whether the primary of `key` is there.
    fn has(&self, key: &ObjectKey) -> bool;

    /// The keys of all primaries that are there.
    fn all(&self) -> Vec<ObjectKey>;

    /// Why `key` is queued, as far as it is known.
    fn triggers(&self, key: &ObjectKey) -> Triggers;

    /// The kind of the primaries, and how many have which conditions.
    fn conditions(&self) -> (ObjectKind, ConditionCounts);

    /// Runs the keys whose last calls failed, with all their retries, and ends the pause of an open circuit. This is
    /// the only thing that the status has done to a controller: somebody has asked for it at the admin address.
    fn resume(&self) -> ResumedController;
}

/// The parts of a controller that were resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResumedController {
    /// The number of keys that run because their last calls had failed.
    pub(crate) failed_keys: usize,
    /// Its circuit was open. A trial call is made now.
    pub(crate) had_open_circuit: bool,
}

/// The status of one controller, over all its rounds.
pub(crate) struct ControllerStatus {
    pub(crate) plugin: Arc<str>,
    /// `PLUGIN/CONTROLLER`
    pub(crate) name: Arc<str>,
    workers: AtomicU32,
    pub(crate) metrics: ControllerMetrics,
    /// The keys that wait until a write of theirs has settled.
    pub(crate) settling: SettlingKeys,
    /// The writes that a read-only host has withheld.
    pub(crate) withheld: WithheldWrites,
    /// The last calls about its keys.
    pub(crate) calls: KeyCalls,
    /// How many keys were found parked that no gate would have woken.
    lost: AtomicU64,
    doing: Mutex<Doing>,
    /// The number of calls, and how long they took together: a histogram of metrics cannot be asked.
    called: Mutex<(u64, Duration)>,
    /// The log lines about failed calls, whichever generation they are of.
    failures: Mutex<Repeats>,
    clock: SystemClock,
}

struct Doing {
    state: ControllerState,
    reason: Option<String>,
    queue: Option<Queue<ObjectKey>>,
    /// The gate that holds keys, and the caches that it waits for.
    gate: Option<(Weak<Gate>, Arc<dyn GateCaches>)>,
    given_up: BTreeMap<ObjectKey, String>,
    /// How many are given up that `given_up` had no room for.
    unlisted: u64,
    /// The circuit breaker and the slow lane of the round.
    guards: Option<Arc<dyn CallGuards>>,
    /// The dispatch of the round. It holds caches, so it is not kept alive for people.
    source: Option<Weak<dyn KeySource>>,
}

impl Default for Doing {
    fn default() -> Self {
        Self {
            state: ControllerState::Starting,
            reason: None,
            queue: None,
            gate: None,
            given_up: BTreeMap::new(),
            unlisted: 0,
            guards: None,
            source: None,
        }
    }
}

/// A call that runs; counted as long as this lives.
pub(crate) struct Active<'a> {
    status: &'a ControllerStatus,
    key: &'a ObjectKey,
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.status.metrics.active.dec();
        self.status.calls.over(self.key);
    }
}

impl ControllerStatus {
    /// Of the controller `name` of `plugin`, shown nowhere.
    pub(crate) fn unlisted(plugin: &Arc<str>, name: &str, workers: u32, metrics: ControllerMetrics) -> Arc<Self> {
        Arc::new(Self {
            plugin: plugin.clone(),
            name: format!("{plugin}/{name}").into(),
            workers: AtomicU32::new(workers),
            metrics,
            settling: SettlingKeys::default(),
            withheld: WithheldWrites::default(),
            calls: KeyCalls::default(),
            lost: AtomicU64::new(0),
            doing: Mutex::new(Doing::default()),
            called: Mutex::default(),
            failures: Mutex::new(Repeats::a_minute(CALL_FAILURES_A_MINUTE)),
            clock: SystemClock::new(),
        })
    }

    /// How many workers it has.
    pub(crate) fn workers(&self) -> u32 {
        self.workers.load(Ordering::Relaxed)
    }

    /// It has so many workers now.
    pub(crate) fn works_with(&self, workers: u32) {
        self.workers.store(workers, Ordering::Relaxed);
    }

    /// It does `state` now, and why.
    pub(crate) fn set(&self, state: ControllerState, reason: Option<String>) {
        let mut doing = locked(&self.doing);
        doing.state = state;
        doing.reason = reason.map(shortened);
    }

    /// Whether it starts or fills its caches, and nothing is in its way.
    pub(crate) fn is_filling(&self) -> bool {
        matches!(self.state(), (ControllerState::Starting, _) | (ControllerState::Syncing, None))
    }

    /// Its state, and why.
    pub(crate) fn state(&self) -> (ControllerState, Option<String>) {
        let doing = locked(&self.doing);
        (doing.state, doing.reason.clone())
    }

    /// A round begins, with this queue. What the last one had given up is queued again like all else.
    pub(crate) fn begins(&self, queue: Queue<ObjectKey>) {
        self.calls.forget_all();
        let mut doing = locked(&self.doing);
        *doing = Doing { state: ControllerState::Syncing, queue: Some(queue), ..Doing::default() };
    }

    /// The keys of the round are those of `source`.
    pub(crate) fn dispatched_by(&self, source: Weak<dyn KeySource>) {
        locked(&self.doing).source = Some(source);
    }

    /// The keys of the round are held by `gate`, which waits for these caches.
    pub(crate) fn holds_by(&self, gate: &Arc<Gate>, caches: Arc<dyn GateCaches>) {
        locked(&self.doing).gate = Some((Arc::downgrade(gate), caches));
    }

    /// The calls of the round pass these guards.
    pub(crate) fn guarded_by(&self, guards: Arc<dyn CallGuards>) {
        locked(&self.doing).guards = Some(guards);
    }

    /// The circuit breaker of the current round. None: no round has begun.
    pub(crate) fn breaker(&self) -> Option<breaker::BreakerState> {
        Some(locked(&self.doing).guards.as_ref()?.breaker())
    }

    /// Resumes what has stopped of it. `None`: it is not at work here.
    pub(crate) fn resume(&self) -> Option<ResumedController> {
        let source = {
            let doing = locked(&self.doing);
            doing.source.as_ref().filter(|_| doing.state == ControllerState::Running)?.upgrade()?
        };
        Some(source.resume())
    }

    /// The kind of its primaries and their conditions. None: it is not at work here.
    pub(crate) fn primary_conditions(&self) -> Option<(ObjectKind, ConditionCounts)> {
        let source = locked(&self.doing).source.as_ref()?.upgrade()?;
        Some(source.conditions())
    }

    /// How many keys are called about rarely because they loop.
    pub(crate) fn slowed(&self) -> u64 {
        locked(&self.doing).guards.as_ref().map_or(0, |guards| guards.slowed() as u64)
    }

    /// The gate of the current round.
    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        locked(&self.doing).gate.as_ref()?.0.upgrade()
    }

    /// The queue of the current round.
    pub(crate) fn queue(&self) -> Option<Queue<ObjectKey>> {
        locked(&self.doing).queue.clone()
    }

    /// Whether a failed call is to be logged. If it is: how many were not since the last that was.
    pub(crate) fn failure_line(&self) -> Option<u64> {
        locked(&self.failures).line(self.clock.now())
    }

    /// How many keys fail now: those that are tried again, of which the queue has so many, and those that no retry
    /// would help.
    pub(super) fn failing(&self, retried: usize) -> usize {
        retried + self.calls.count(|end| matches!(end, CallEnd::FailedForGood | CallEnd::Denied))
    }

    /// How many keys were not called about because their object is paused, of those whose calls are remembered.
    pub(crate) fn paused(&self) -> usize {
        self.calls.count(|end| end == CallEnd::NotMade)
    }

    /// How many keys are given up: failed for good, and not retried.
    pub(crate) fn given_up(&self) -> u64 {
        let doing = locked(&self.doing);
        doing.given_up.len() as u64 + doing.unlisted
    }

    /// A call about `key` runs, until the result is dropped.
    pub(crate) fn call<'a>(&'a self, key: &'a ObjectKey) -> Active<'a> {
        self.metrics.active.inc();
        self.calls.begin(key);
        Active { status: self, key }
    }

    /// A call with this trace id took so long.
    pub(crate) fn called(&self, took: Duration, trace_id: &Arc<str>) {
        self.metrics.called(took, trace_id);
        let mut called = locked(&self.called);
        *called = (called.0 + 1, called.1.saturating_add(took));
    }

    /// The number of calls so far, and how long they took together.
    pub(super) fn call_times(&self) -> (u64, Duration) {
        *locked(&self.called)
    }

    /// The plugin has used so much processor time.
    pub(crate) fn used(&self, cpu: Duration) {
        self.metrics.cpu.inc_by(cpu.as_secs_f64());
    }

    /// The host has panicked in a call.
    pub(crate) fn panicked(&self) {
        self.metrics.panics.inc();
    }

    /// A call about `key` ended well; it asks to run again, or not.
    pub(crate) fn succeeded(&self, key: &ObjectKey, again: bool) {
        if again { &self.metrics.requeue_after } else { &self.metrics.success }.inc();
        self.forget(key);
    }

    /// A call ended without an answer.
    pub(crate) fn trapped(&self, reason: &'static str) {
        self.metrics.trapped(reason);
    }

    /// The circuit has opened.
    pub(crate) fn opened(&self) {
        self.metrics.openings.inc();
    }

    /// A hot loop was found.
    pub(crate) fn looped(&self) {
        self.metrics.hot_loops.inc();
    }

    /// A call failed, and is made again after a while.
    pub(crate) fn failed(&self) {
        self.count_error();
    }

    /// A call about `key` failed for good.
    pub(crate) fn failed_for_good(&self, key: &ObjectKey) {
        self.metrics.terminal.inc();
        self.count_error();
        self.forget(key);
    }

    /// A call about `key` failed, and it is tried rarely from now on.
    pub(crate) fn gave_up(&self, key: &ObjectKey, error: &str) {
        self.count_error();
        let mut doing = locked(&self.doing);
        if doing.given_up.len() < LISTED_GIVEN_UP_KEYS_MAX || doing.given_up.contains_key(key) {
            doing.given_up.insert(key.clone(), shortened(error.to_owned()));
        } else {
            doing.unlisted += 1;
        }
    }

    fn count_error(&self) {
        self.metrics.error.inc();
        self.metrics.errors.inc();
    }

    /// The failures of `key` say nothing any more.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        locked(&self.doing).given_up.remove(key);
    }

    pub(super) fn to_json(&self, name: &str) -> Value {
        let (queue, held) = (self.queue().map(|queue| queue.metrics()), self.held());
        let failing = self.failing(queue.map_or(0, |queue| queue.failing));
        let settling = self.settling.count();
        let last_errors = self.calls.last_failures(LISTED_ERRORS_MAX).into_iter().map(|(key, failure)| {
            let mut shown = failure.to_json();
            shown["key"] = key.to_string().into();
            shown
        });
        let last_errors: Vec<_> = last_errors.collect();
        let doing = locked(&self.doing);
        let guards = doing.guards.as_ref();
        let given_up = doing.given_up.iter().map(|(key, error)| json!({"key": key.to_string(), "error": error}));
        json!({
            "name": name,
            "state": doing.state.as_str(),
            "reason": doing.reason,
            "queue": queue.map(|queue| json!({
                "depth": queue.depth, "parked": queue.parked, "settling": settling, "backoff": queue.backing_off,
            })),
            "failing": failing,
            "paused": self.paused(),
            "held": held,
            "settling": self.settling.to_json(),
            "withheld": self.withheld.to_json(),
            "givenUp": given_up.collect::<Vec<_>>(),
            "givenUpUnlisted": doing.unlisted,
            "breaker": guards.map(|guards| guards.breaker_json()),
            "slowLane": guards.map_or_else(Vec::new, |guards| guards.slow_lane_json()),
            "lastErrors": last_errors,
        })
    }
}
