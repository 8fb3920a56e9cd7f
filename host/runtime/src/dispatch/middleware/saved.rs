//! Saves calls that can change nothing: if a call would read what the last call about its key read, and that call
//! changed nothing, the call is not made (ADR 46). In doubt, it is made.
//!
//! The host's own work around a call is outside of this middleware and is always done. Inside are the circuit breaker
//! and the shadow, which see only calls that are made.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::call::ports::{CallContext, Metrics, Reads};
use windlass_core::call::read_set::{Answers as _, AuditVerdict, ReadSet};
use windlass_core::call::read_tracker::{ReadTracker, Spoiler, TrackedReads};
use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::object::pointer_tree::PointerTree;
use windlass_core::queue::breaker::{BreakerRound, BreakerState};
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{Called, CpuTime};

use crate::dispatch::call_record::CallRecord;
use crate::dispatch::circuit::Circuit;
use crate::dispatch::reconcile::{Call, Reconcile};
use crate::dispatch::saving::tracking::{AnswersNow, tracked};
use crate::dispatch::saving::{CallBasis, KeptCall, SavedCalls};
use crate::dispatch::shadow::NextOf;
use crate::observe::status::ControllerStatus;
use crate::policies::InstancesOf;

/// The most questions that the log line about a misprediction names.
const SHOWN_QUESTIONS_MAX: usize = 16;

/// The parts by which calls of one controller are saved.
pub(crate) struct CallSaver {
    pub(crate) calls: Arc<SavedCalls>,
    /// The controller's caches. What is read here is not counted as read by the plugin.
    pub(crate) caches: Arc<dyn Reads>,
    /// The part of the primary that calls receive. `None` for all of it.
    pub(crate) call_part: Option<PointerTree>,
    /// Knows whether the generation is on probation, and whether its calls may be saved.
    pub(crate) record: Arc<CallRecord>,
}

/// Makes only the calls that may change something.
pub(crate) struct Saved {
    inner: Box<dyn Reconcile>,
    saver: CallSaver,
    guards: SavingGuards,
}

/// The parts of the host that may need each call to be made.
pub(crate) struct SavingGuards {
    pub(crate) instances: InstancesOf,
    pub(crate) next: NextOf,
    pub(crate) circuit: Circuit,
    pub(crate) status: Arc<ControllerStatus>,
}

impl SavingGuards {
    /// Whether no other part of the host needs each call of a generation with this `record` to be made.
    fn may_save(&self, record: &CallRecord) -> bool {
        record.may_save() && self.next.borrow().is_none() && self.circuit.state() == BreakerState::Closed
    }
}

/// Requires that each call of a composer is made as long as another part of the host needs that. The composite saves
/// the others itself, because its own work is always done.
pub(crate) struct SavedInside {
    pub(crate) inner: Box<dyn Reconcile>,
    pub(crate) record: Arc<CallRecord>,
    pub(crate) guards: SavingGuards,
}

impl Reconcile for SavedInside {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let may_save = self.guards.may_save(&self.record) && self.guards.instances.now() == Instances::Fresh;
        self.inner.reconcile(Call { must_be_made: call.must_be_made || !may_save, ..call })
    }
}

impl Saved {
    pub(crate) fn new(inner: Box<dyn Reconcile>, saver: CallSaver, guards: SavingGuards) -> Self {
        Self { inner, saver, guards }
    }

    async fn call_or_save(&self, call: Call<'_>) -> Called {
        let (calls, context) = (&self.saver.calls, call.context.clone());
        let (key, basis) = (context.primary_key.clone(), CallBasis::of(&context));
        // If the call is made, this is forgotten, however the call ends.
        let kept = calls.take(&key, &basis);
        if !self.may_keep(&call) {
            return self.inner.reconcile(call).await;
        }
        let may_save = !call.must_be_made && self.guards.may_save(&self.saver.record);
        let metrics = call.ports.metrics.clone();
        let (expected, cpu) = self.current(kept.filter(|_| may_save), &self.now(&*metrics, &context)).await;
        match expected {
            Some(expected) if !calls.audits() => {
                calls.keep_saved(key.clone(), expected, &basis);
                self.save(&key, call.round);
                Called::saved(cpu)
            }
            expected => {
                // An audit repeats the call that it audits, so it gets the same seeds.
                let seed = expected.as_ref().map_or_else(windlass_world::random, |expected| expected.seed);
                let (called, tracked) = self.track(call, seed).await;
                self.made(expected, (tracked, seed), &called, &self.now(&*metrics, &context), &basis);
                Called { cpu: called.cpu + cpu, ..called }
            }
        }
    }

    /// Returns the `kept` call if the next one would read the same, and the time that it took to find out.
    async fn current(&self, kept: Option<KeptCall>, now: &AnswersNow<'_>) -> (Option<KeptCall>, Duration) {
        let Some(mut kept) = kept else { return (None, Duration::ZERO) };
        if kept.reads.gauges().is_empty() && kept.reads.has_equal_stamps(now) {
            return (Some(kept), Duration::ZERO);
        }
        // The host reads for the plugin, so the plugin is charged.
        let work = CpuTime::default();
        let is_current = work.metered(async { kept.reads.is_current(now) && kept.reads.has_equal_gauges(now) }).await;
        (is_current.then_some(kept), work.used())
    }

    /// Counts a call that is not made. The plugin would have answered it, so those who judge a plugin by its answers
    /// count it as a good one.
    fn save(&self, key: &ObjectKey, round: BreakerRound) {
        self.saver.record.saved();
        self.guards.circuit.ended(round, key, None);
        self.guards.status.metrics.saved.inc();
    }

    /// Compares a call that was made, with this seed, with what was `expected` of it. Keeps what it read if it changed
    /// nothing.
    fn made(
        &self,
        expected: Option<KeptCall>,
        (mut tracked, seed): (TrackedReads, u64),
        called: &Called,
        now: &AnswersNow<'_>,
        basis: &CallBasis,
    ) {
        let context = now.call;
        tracked.gauges.retain(|gauge| !gauge.is_dropped(|name, labels| now.gauge(name, labels)));
        let changed_nothing =
            called.made && !called.keeps_finalizer && tracked.is_complete() && context.overlay.is_empty();
        if !CallBasis::of(context).is(basis) {
            return;
        }
        if let Some(expected) = expected {
            self.audit(&expected.reads, &tracked, &called.result, changed_nothing, now);
        }
        let set = changed_nothing.then(|| ReadSet::new(tracked.reads, called.result.clone())).flatten();
        let set = set.map(|set| set.setting(tracked.gauges));
        if let Some(set) = set.filter(|_| self.saver.record.may_keep()) {
            self.saver.calls.keep(context.primary_key.clone(), KeptCall::new(set, seed), basis);
        }
    }

    /// Makes a call with this `seed`, and notes what it reads.
    async fn track(&self, call: Call<'_>, seed: u64) -> (Called, TrackedReads) {
        let tracker = ReadTracker::seeded(seed);
        self.now(&*call.ports.metrics, &call.context).note_primary(&tracker);
        let ports = tracked(call.ports, tracker.clone());
        let context = Arc::new(CallContext { reads: tracker.clone(), ..(*call.context).clone() });
        let called = self.inner.reconcile(Call { ports: &ports, context, ..call }).await;
        (called, tracker.end().unwrap_or_default())
    }

    /// Whether what `call` reads may be kept, and whether it may be compared with what is kept.
    fn may_keep(&self, call: &Call<'_>) -> bool {
        if !self.saver.record.may_keep() {
            // Another controller of the plugin may have found this out.
            self.saver.calls.clear();
            return false;
        }
        let is_usual = call.request.attempt == 0
            && !call.request.deleting
            && call.context.primary.is_some()
            && call.context.overlay.is_empty();
        is_usual && self.guards.instances.now() == Instances::Fresh
    }

    fn now<'a>(&'a self, metrics: &'a dyn Metrics, call: &'a CallContext) -> AnswersNow<'a> {
        AnswersNow { caches: &*self.saver.caches, metrics, call, call_part: self.saver.call_part.as_ref() }
    }

    /// Compares a call that was made although it could have been saved with what was `expected` of it.
    fn audit(
        &self,
        expected: &ReadSet,
        tracked: &TrackedReads,
        result: &CallResult,
        changed_nothing: bool,
        now: &AnswersNow<'_>,
    ) {
        // A cache that has been emptied, a host without room, another policy, or a recording with seeds of its own says
        // nothing about the plugin.
        let is_cut = matches!(result, CallResult::Trapped { .. })
            || matches!(tracked.spoiled, Some(Spoiler::FailedRead | Spoiler::ReusedInstance | Spoiler::Recorded));
        let did = Some(result).filter(|_| changed_nothing && tracked.gauges == expected.gauges());
        let verdict = expected.audited(&tracked.reads, did, now);
        let AuditVerdict::Mispredicted { after } = verdict else { return };
        if is_cut {
            return;
        }
        self.saver.record.stop_saving();
        self.saver.calls.clear();
        self.guards.status.metrics.mispredicted.inc();
        let questions: Vec<_> =
            expected.reads().iter().take(SHOWN_QUESTIONS_MAX).map(|read| read.question.to_string()).collect();
        tracing::warn!(
            key = %now.call.primary_key, ?result, reads = questions.join(", "), equal_answers = after,
            spoiled = tracked.spoiled.map(Spoiler::as_str),
            "a call about an unchanged key did something else than the call before: the plugin does not follow from what \
             it reads, so all its calls are made until its next generation"
        );
    }
}

impl Reconcile for Saved {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        self.call_or_save(call).boxed()
    }
}

#[cfg(test)]
mod tests;
