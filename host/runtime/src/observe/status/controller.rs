//! The status of one controller, and the outcomes of its calls.

mod held;
mod keys;
mod sources;

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
use windlass_core::queue::key_state::CallEnd;
use windlass_core::queue::outcome::Requeue;
use windlass_core::repeats::Repeats;
use windlass_core::write::gate::Gate;
use windlass_kube::ConditionCounts;

pub(crate) use self::held::GateCaches;
pub(crate) use self::keys::KeyListing;
pub(crate) use self::sources::{CallGuards, KeySource, ResumedController, UnchangedKey};
use super::calls::KeyCalls;
use super::settling::SettlingKeys;
use super::withheld::WithheldWrites;
use super::{locked, shortened};
use crate::clock::SystemClock;
use crate::observe::metrics::ControllerMetrics;

/// The most log lines a minute about failed calls of a controller. Further failures are counted in the next line.
const CALL_FAILURES_A_MINUTE: u32 = 10;
/// The most keys of one controller that are listed as given up. Further ones are only counted.
pub(super) const LISTED_GIVEN_UP_KEYS_MAX: usize = 1000;
/// The maximum number of recent errors that are listed, one of each key.
const LISTED_ERRORS_MAX: usize = 10;

/// The status of one controller, over all its rounds.
pub(crate) struct ControllerStatus {
    pub(crate) plugin: Arc<str>,
    /// `PLUGIN/CONTROLLER`
    pub(crate) name: Arc<str>,
    workers: AtomicU32,
    pub(crate) metrics: ControllerMetrics,
    /// The keys that wait until one of their writes has settled.
    pub(crate) settling: SettlingKeys,
    /// The writes that a read-only host has withheld.
    pub(crate) withheld: WithheldWrites,
    /// The last calls about its keys.
    pub(crate) calls: KeyCalls,
    /// Number of keys that were found parked although no gate would have woken them.
    lost: AtomicU64,
    doing: Mutex<Doing>,
    /// The number of calls and their total duration, because a metrics histogram cannot be queried.
    called: Mutex<(u64, Duration)>,
    /// Limits the log lines about failed calls, over all generations.
    failures: Mutex<Repeats>,
    clock: SystemClock,
}

struct Doing {
    state: ControllerState,
    reason: Option<String>,
    queue: Option<Queue<ObjectKey>>,
    /// The gate that holds keys, and its caches.
    gate: Option<(Weak<Gate>, Arc<dyn GateCaches>)>,
    given_up: BTreeMap<ObjectKey, String>,
    /// Number of keys given up that `given_up` had no room for.
    unlisted: u64,
    /// The circuit breaker and the slow lane of the round.
    guards: Option<Arc<dyn CallGuards>>,
    /// The dispatch of the round. Weak, because it holds caches, which the status must not keep alive.
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

/// A running call, which is counted until this is dropped.
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
    /// The status of the controller `name` of `plugin`, not shown anywhere.
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

    pub(crate) fn workers(&self) -> u32 {
        self.workers.load(Ordering::Relaxed)
    }

    /// Sets the number of workers.
    pub(crate) fn works_with(&self, workers: u32) {
        self.workers.store(workers, Ordering::Relaxed);
    }

    /// Sets the controller's state and the reason.
    pub(crate) fn set(&self, state: ControllerState, reason: Option<String>) {
        let mut doing = locked(&self.doing);
        doing.state = state;
        doing.reason = reason.map(shortened);
    }

    /// Whether the controller starts or fills its caches, without an obstacle.
    pub(crate) fn is_filling(&self) -> bool {
        matches!(self.state(), (ControllerState::Starting, _) | (ControllerState::Syncing, None))
    }

    /// Its state and the reason.
    pub(crate) fn state(&self) -> (ControllerState, Option<String>) {
        let doing = locked(&self.doing);
        (doing.state, doing.reason.clone())
    }

    /// Begins a round with this queue. Keys that were given up in the last round are queued again like all others.
    pub(crate) fn begins(&self, queue: Queue<ObjectKey>) {
        self.calls.forget_all();
        let mut doing = locked(&self.doing);
        *doing = Doing { state: ControllerState::Syncing, queue: Some(queue), ..Doing::default() };
    }

    /// Sets the source of the round's keys.
    pub(crate) fn dispatched_by(&self, source: Weak<dyn KeySource>) {
        locked(&self.doing).source = Some(source);
    }

    /// Sets the gate that holds the round's keys, and its caches.
    pub(crate) fn holds_by(&self, gate: &Arc<Gate>, caches: Arc<dyn GateCaches>) {
        locked(&self.doing).gate = Some((Arc::downgrade(gate), caches));
    }

    /// Sets the guards that the round's calls pass.
    pub(crate) fn guarded_by(&self, guards: Arc<dyn CallGuards>) {
        locked(&self.doing).guards = Some(guards);
    }

    /// The circuit breaker of the current round. `None` if no round has begun.
    pub(crate) fn breaker(&self) -> Option<breaker::BreakerState> {
        Some(locked(&self.doing).guards.as_ref()?.breaker())
    }

    /// Resumes what the host has stopped. `None` if the controller is not at work here.
    pub(crate) fn resume(&self) -> Option<ResumedController> {
        let source = {
            let doing = locked(&self.doing);
            doing.source.as_ref().filter(|_| doing.state == ControllerState::Running)?.upgrade()?
        };
        Some(source.resume())
    }

    /// The kind of the controller's primaries, and their conditions. `None` if the controller is not at work here.
    pub(crate) fn primary_conditions(&self) -> Option<(ObjectKind, ConditionCounts)> {
        let source = locked(&self.doing).source.as_ref()?.upgrade()?;
        Some(source.conditions())
    }

    /// When the controller's timer is due. `None` if it has none, or is not at work here.
    fn timer(&self) -> Option<Value> {
        let source = locked(&self.doing).source.as_ref()?.upgrade()?;
        source.timer()
    }

    /// Number of keys that are called rarely because they loop.
    pub(crate) fn slowed(&self) -> u64 {
        locked(&self.doing).guards.as_ref().map_or(0, |guards| guards.slowed() as u64)
    }

    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        locked(&self.doing).gate.as_ref()?.0.upgrade()
    }

    pub(crate) fn queue(&self) -> Option<Queue<ObjectKey>> {
        locked(&self.doing).queue.clone()
    }

    /// If a failed call is to be logged, the number of failures since the last logged one.
    pub(crate) fn failure_line(&self) -> Option<u64> {
        locked(&self.failures).line(self.clock.now())
    }

    /// Number of failing keys: the `retried` keys of the queue, and the keys for which no retry would help.
    pub(super) fn failing(&self, retried: usize) -> usize {
        retried + self.calls.count(|end| matches!(end, CallEnd::FailedForGood | CallEnd::Denied))
    }

    /// Number of paused keys, among those whose calls are remembered.
    pub(crate) fn paused(&self) -> usize {
        self.calls.count(|end| end == CallEnd::NotMade)
    }

    /// Number of keys given up, which have used up their retries.
    pub(crate) fn given_up(&self) -> u64 {
        let doing = locked(&self.doing);
        doing.given_up.len() as u64 + doing.unlisted
    }

    /// Marks a call about `key` as running until the result is dropped.
    pub(crate) fn call<'a>(&'a self, key: &'a ObjectKey) -> Active<'a> {
        self.metrics.active.inc();
        self.calls.begin(key);
        Active { status: self, key }
    }

    /// Records that the call with this trace ID took `took`.
    pub(crate) fn called(&self, took: Duration, trace_id: &Arc<str>) {
        self.metrics.called(took, trace_id);
        let mut called = locked(&self.called);
        *called = (called.0 + 1, called.1.saturating_add(took));
    }

    /// The number of calls so far, and their total duration.
    pub(super) fn call_times(&self) -> (u64, Duration) {
        *locked(&self.called)
    }

    /// Adds CPU time that the plugin has used.
    pub(crate) fn used(&self, cpu: Duration) {
        self.metrics.cpu.inc_by(cpu.as_secs_f64());
    }

    /// Counts a panic of the host in a call.
    pub(crate) fn panicked(&self) {
        self.metrics.panics.inc();
    }

    /// A call about `key` succeeded, and perhaps asked to run again.
    pub(crate) fn succeeded(&self, key: &ObjectKey, again: Option<Requeue>) {
        match again {
            None => &self.metrics.success,
            Some(Requeue::After(_)) => &self.metrics.requeue_after,
            Some(Requeue::Backoff) => &self.metrics.requeue,
        }
        .inc();
        self.forget(key);
    }

    /// Counts a call that ended without an answer.
    pub(crate) fn trapped(&self, reason: &'static str) {
        self.metrics.trapped(reason);
    }

    /// Counts an opening of the circuit.
    pub(crate) fn opened(&self) {
        self.metrics.openings.inc();
    }

    /// Counts a hot loop.
    pub(crate) fn looped(&self) {
        self.metrics.hot_loops.inc();
    }

    /// Counts a failed call that will be retried.
    pub(crate) fn failed(&self) {
        self.count_error();
    }

    /// Records that a call about `key` failed for good.
    pub(crate) fn failed_for_good(&self, key: &ObjectKey) {
        self.metrics.terminal.inc();
        self.count_error();
        self.forget(key);
    }

    /// Records that a call about `key` failed, and that the key runs rarely from now on.
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

    /// Forgets the failures of `key`, which no longer matter.
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
        let timer = self.timer();
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
            "timer": timer,
        })
    }
}
