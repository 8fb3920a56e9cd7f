//! Workers: take a key, call the plugin about it, do with the key what `core::outcome` decides.
//!
//! A worker takes the key first and then waits for the permit to call, and only with the permit in hand does it look up
//! the primary. The other way round, a worker without a key would sit on a permit that another plugin needs. What it
//! costs: a more urgent key that comes meanwhile waits for at most as many calls as the controller has workers.

mod afresh;
mod aftermath;
pub(crate) mod call_gate;
pub(crate) mod call_record;
pub(crate) mod circuit;
pub(crate) mod code_feeder;
pub(crate) mod composite;
pub(crate) mod configured;
pub(crate) mod feeder;
pub(crate) mod guards;
pub(crate) mod in_hand;
pub(crate) mod map_calls;
pub(crate) mod memory;
pub(crate) mod middleware;
pub(crate) mod outage;
pub(crate) mod overdue;
pub(crate) mod ports;
pub(crate) mod reconcile;
pub(crate) mod recorded;
pub(crate) mod redacted;
pub(crate) mod route;
mod setbacks;
pub(crate) mod shadow;
mod shown;
pub(crate) mod sink;
mod spans;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use windlass_core::budget::fair::{CallPermit, CpuPermit, CpuShare, LEAVES_THREAD_AFTER, leave_thread};
use windlass_core::cache::mapping::PrimaryKind;
use windlass_core::cache::overlay::Overlay;
use windlass_core::call::call_lines::CallLines;
use windlass_core::call::ports::{CallContext, Ports};
use windlass_core::call::trace::CallTrace;
use windlass_core::object::{Object, ObjectKey};
use windlass_core::queue::Queue;
use windlass_core::queue::hot_loop::SlowMark;
use windlass_core::queue::outcome::Retry;
use windlass_core::queue::trigger::{TriggerReason, Triggers};
use windlass_core::rights::principal::Principal;
use windlass_core::write::gate::Gate;
use windlass_core::write::settle::{self, Hold};
use windlass_wasm::{CallLimits, CpuTime, Request};

use crate::dispatch::call_gate::CallGate;
use crate::dispatch::call_record::CallRecord;
use crate::dispatch::circuit::Pass;
use crate::dispatch::configured::Configured;
use crate::dispatch::in_hand::{InHand, KeyEnd, Workers};
use crate::dispatch::memory::KeyMemory;
use crate::dispatch::reconcile::{Call, Reconcile};
use crate::dispatch::route::Stores;
use crate::dispatch::spans::KeySpans;
use crate::observe::status::ControllerStatus;
use crate::phases::Dropped;
use crate::supervise::Panics;
use crate::traces::{Tracer, trace_text};

/// The log target of calls, which `--log-level windlass::dispatch=debug` names.
const LOG: &str = "windlass::dispatch";

/// An outage that was over sooner puts off nobody for long.
const OUTAGE_WITHOUT_RETRY_MAX: Duration = Duration::from_secs(1);

/// All that a worker of one controller needs.
pub(crate) struct Dispatch {
    pub(crate) plugin: Box<dyn Reconcile>,
    /// The plugin's share of the host's permits.
    pub(crate) share: CpuShare,
    /// The controller's name in the manifest.
    pub(crate) controller: Arc<str>,
    pub(crate) primary: PrimaryKind,
    pub(crate) primaries: Stores,
    pub(crate) principal: Arc<Principal>,
    pub(crate) ports: Ports,
    /// The operator's configuration of the plugin, a JSON object.
    pub(crate) config: Configured,
    pub(crate) queue: Queue<ObjectKey>,
    /// Holds the keys whose own writes the caches do not show yet. None: nothing does.
    pub(crate) gate: Option<Arc<Gate>>,
    pub(crate) limits: CallLimits,
    pub(crate) max_retries: u32,
    /// Says when calls may be made, and admits each.
    pub(crate) call_gate: CallGate,
    /// Knows keys from former calls, of whichever generation.
    pub(crate) memory: Arc<Mutex<KeyMemory>>,
    /// How the generation's calls end.
    pub(crate) record: Arc<CallRecord>,
    /// The CPU seconds that a call keeps from others by lasting a second: the processors, shared by all call slots.
    pub(crate) slot_worth: f64,
    /// The controller ends.
    pub(crate) stop: CancellationToken,
    /// It has ended but for the calls that run: a key that still waits for its permit is dropped.
    pub(crate) last_call: CancellationToken,
    /// Another generation has the queue: no key is taken, and those that wait for their permit go back.
    pub(crate) retired: CancellationToken,
    /// The tasks that have its keys.
    pub(crate) workers: Workers,
    /// The keys that are dropped so, in a worker's hands, and those of a round that is abandoned.
    pub(crate) dropped: Dropped,
    pub(crate) panics: Panics,
    /// Samples calls, and collects their spans. None: nobody does.
    pub(crate) tracer: Option<Tracer>,
    /// Is told how each call ends.
    pub(crate) status: Arc<ControllerStatus>,
}

/// Charges a call: the CPU that it used, or the CPU that it kept from others by holding a call slot, if that is more.
/// The host's work for a call that waits would otherwise cost its plugin nothing.
fn charge(cpu: Duration, lasted: Duration, slot_worth: f64) -> Duration {
    cpu.max(lasted.mul_f64(slot_worth))
}

impl Dispatch {
    /// Works on keys until the queue is shut down and empty, or is another generation's.
    pub(crate) async fn work(&self) {
        let mut since = Instant::now();
        while let Some(key) = self.next_key().await {
            let mut in_hand = InHand::new(self.queue.clone(), key);
            if self.is_held(&in_hand.key) {
                in_hand.end = KeyEnd::Held;
                continue;
            }
            let (key, mut spans) = (&in_hand.key, self.begin_spans(&in_hand.key));
            let span = tracing::info_span!(
                "reconcile", plugin = %self.principal.plugin, controller = %self.controller, key = %key,
                trace_id = spans.trace_id
            );
            let (hold, settled) = settle::hold();
            in_hand.end = self.process(key, &mut spans, hold).instrument(span).await;
            drop(spans);
            self.put_down(in_hand, settled).await;
            if since.elapsed() >= LEAVES_THREAD_AFTER {
                leave_thread().await;
                since = Instant::now();
            }
        }
    }

    fn is_held(&self, key: &ObjectKey) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.holds(key))
    }

    /// Queues the keys at once that an outage since `began` has put off, without the failures that it caused.
    ///
    /// After a short one they wait all the same: its failures have earned short delays only. A server that answers when
    /// it is asked for, and breaks every write, is in one short outage after the other, and must not be stormed.
    pub(crate) fn recover(&self, began: Instant) {
        if began.elapsed() < OUTAGE_WITHOUT_RETRY_MAX {
            return;
        }
        let keys = self.memory().setbacks.take(began);
        if !keys.is_empty() {
            tracing::info!(
                plugin = %self.principal.plugin, controller = %self.controller, keys = keys.len(),
                "the API server answers again: what failed meanwhile runs now"
            );
        }
        let trigger = Arc::new(TriggerReason::Retry.into());
        for key in keys {
            self.queue.forget(&key);
            self.memory().note(&key, &trigger);
            self.queue.add(key);
        }
    }

    async fn next_key(&self) -> Option<ObjectKey> {
        tokio::select! {
            biased;
            () = self.retired.cancelled() => None,
            // Dropping this loses no key.
            key = self.callable_key() => key,
        }
    }

    /// Waits for a key, and takes none while the API server is unreachable: what it says now would be old by the time
    /// that a call can be made.
    async fn callable_key(&self) -> Option<ObjectKey> {
        loop {
            if !self.is_callable().await {
                // What is left drains, or has been dropped.
                return self.queue.get().await;
            }
            tokio::select! {
                biased;
                () = self.call_gate.closed() => {}
                // Dropping this loses no key.
                key = self.queue.get() => return key,
            }
        }
    }

    /// Waits for a permit for a call that can be made now. None: no further call is to be made.
    async fn permit(&self) -> Option<(CallPermit, Pass)> {
        tokio::select! {
            biased;
            () = self.retired.cancelled() => None,
            () = self.last_call.cancelled() => None,
            permit = self.callable_permit() => permit,
        }
    }

    /// None: the host stops, and the API server is unreachable.
    async fn callable_permit(&self) -> Option<(CallPermit, Pass)> {
        while self.is_callable().await || self.call_gate.may_call() {
            let permit = self.share.acquire().await;
            if let Some(pass) = self.call_gate.admit() {
                return Some((permit, pass));
            }
            permit.unused();
        }
        None
    }

    /// Waits until the API server is reachable. False: the controller ends, and nothing is worth waiting for.
    async fn is_callable(&self) -> bool {
        if !self.call_gate.may_call() {
            self.record.rests();
        }
        self.stop.run_until_cancelled(self.call_gate.open()).await.is_some()
    }

    /// One call, and what follows from it.
    async fn process(&self, key: &ObjectKey, spans: &mut KeySpans, hold: Hold) -> KeyEnd {
        // A panic of the host's own fails this key like a trap of the guest's would, and no other.
        let run = AssertUnwindSafe(self.call(key, spans, hold)).catch_unwind().await;
        run.unwrap_or_else(|panic| {
            self.panics.report("call", &*panic, "the key is tried again");
            self.status.panicked();
            spans.panicked(key);
            let primary = self.primaries.get(key);
            self.memory().fails(key, primary.map(|object| SlowMark::of(&object.header)));
            self.queue.add_rate_limited(key.clone(), Retry::Counted, None);
            KeyEnd::Done
        })
    }

    async fn call(&self, key: &ObjectKey, spans: &mut KeySpans, hold: Hold) -> KeyEnd {
        if self.principal.grants().hides(key) {
            let mut memory = self.memory();
            memory.ends(key);
            memory.take_triggers(key);
            return KeyEnd::Done; // What lives beside the host is no plugin's affair, not even to look at.
        }
        let Some((permit, pass)) = self.permit().await else {
            if self.retired.is_cancelled() {
                return KeyEnd::GivenBack;
            }
            self.dropped.add(1);
            return KeyEnd::Done;
        };
        spans.permitted();
        if self.is_held(key) {
            // An old state has turned up while the key waited for its permit.
            permit.unused();
            return KeyEnd::Held;
        }
        // Before the first look at a cache.
        let overlay = Overlay::default();
        let Ok(primary) = self.primaries.find(key) else {
            // The cache has been emptied, as when it grew too large, so its controller is about to end. A call would
            // tell the plugin that the primary has gone.
            permit.unused();
            return KeyEnd::Done;
        };
        let (triggers, is_other) = {
            let mut memory = self.memory();
            (self.triggers(&mut memory, key), memory.begins(key, primary.as_ref()))
        };
        if is_other || triggers.has_run_request() {
            self.forget(key);
        }
        let context = self.context(key, primary.clone(), &spans.trace_id, hold, permit.cpu_permit());
        let context = Arc::new(CallContext { triggers, trace: spans.trace().clone(), overlay, ..context });
        let request = self.request(key, primary.as_ref(), &spans.trace_id);
        let attempt = request.attempt;
        tracing::trace!(target: LOG, triggers = %context.triggers, "begins");
        let started = Instant::now();
        let _active = self.status.call(key);
        // What the host does for the call on this thread is the plugin's to pay for, too: what a composing one
        // observes.
        let work = CpuTime::default();
        let call = self.plugin.reconcile(Call {
            request,
            ports: &self.ports,
            context: context.clone(),
            limits: self.limits.clone(),
            round: pass.round(),
        });
        let called = work.metered(call).await;
        let cpu = called.cpu.max(work.used());
        self.status.used(cpu);
        permit.finish(charge(cpu, started.elapsed(), self.slot_worth));
        if called.made {
            self.status.called(started.elapsed(), &context.trace_id);
        }
        self.tell_call(key, &called, started.elapsed());
        let end = self.apply_outcome(key, &called, &context);
        spans.ended(&context, attempt, end, &called.result);
        context.overlay.close();
        KeyEnd::Done
    }

    fn context(
        &self,
        key: &ObjectKey,
        primary: Option<Object>,
        trace_id: &str,
        hold: Hold,
        cpu_permit: CpuPermit,
    ) -> CallContext {
        CallContext {
            principal: self.principal.clone(),
            controller: self.controller.clone(),
            primary_kind: self.primary.kind.clone(),
            primary_key: key.clone(),
            primary,
            triggers: Triggers::default(),
            trace_id: trace_id.into(),
            trace: CallTrace::default(),
            hold,
            overlay: Overlay::default(),
            lines: CallLines::default(),
            cpu_permit,
            config: self.config.borrow().clone().unwrap_or_else(|| "{}".into()),
        }
    }

    fn memory(&self) -> MutexGuard<'_, KeyMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the failures of `key`: they say nothing of what is tried from now on.
    fn forget(&self, key: &ObjectKey) {
        self.queue.forget(key);
        self.status.forget(key);
    }

    fn request(&self, key: &ObjectKey, primary: Option<&Object>, trace_id: &str) -> Request {
        Request {
            controller: self.controller.clone(),
            key: key.clone(),
            uid: primary.map(|object| object.header.uid.text()).or_else(|| self.memory().uid_of_gone(key)),
            object: primary.map(Object::text),
            deleting: primary.is_some_and(|object| object.header.deleting),
            attempt: self.queue.num_requeues(key),
            trace_id: trace_id.into(),
        }
    }
}

/// A new one: 32 hexadecimal digits, as W3C Trace Context wants them.
fn trace_id() -> String {
    trace_text(windlass_world::random())
}

#[cfg(test)]
mod tests;
