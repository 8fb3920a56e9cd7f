//! Workers: each takes a key, calls the plugin about it, and handles the key as `core::outcome` decides.
//!
//! A worker takes a key first, then waits for the permit to call, and looks up the primary only once it has the permit.
//! In the opposite order, a worker without a key would hold a permit that another plugin needs. The cost: a more urgent
//! key that comes meanwhile waits for at most as many calls as the controller has workers.

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
pub(crate) mod keys;
pub(crate) mod left_keys;
pub(crate) mod map_calls;
pub(crate) mod memory;
pub(crate) mod middleware;
pub(crate) mod outage;
pub(crate) mod overdue;
pub(crate) mod ports;
pub(crate) mod reconcile;
pub(crate) mod recorded;
pub(crate) mod redacted;
pub(crate) mod rescan;
pub(crate) mod route;
pub(crate) mod saving;
mod setbacks;
pub(crate) mod shadow;
pub(crate) mod shown;
pub(crate) mod sink;
mod spans;
pub(crate) mod timer;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use windlass_core::budget::fair::{CallPermit, CpuPermit, CpuShare, LEAVES_THREAD_AFTER, leave_thread};
use windlass_core::cache::overlay::Overlay;
use windlass_core::call::call_lines::CallLines;
use windlass_core::call::ports::{CallContext, Ports};
use windlass_core::call::read_tracker::ReadTracker;
use windlass_core::call::trace::CallTrace;
use windlass_core::object::{Object, ObjectKey};
use windlass_core::queue::hot_loop::SlowMark;
use windlass_core::queue::outcome::Retry;
use windlass_core::queue::trigger::{TriggerReason, Triggers};
use windlass_core::rights::principal::Principal;
use windlass_core::write::settle::{self, Hold};
use windlass_wasm::{CallLimits, Request};

use crate::dispatch::call_gate::CallGate;
use crate::dispatch::call_record::CallRecord;
use crate::dispatch::circuit::Pass;
use crate::dispatch::configured::Configured;
use crate::dispatch::in_hand::{InHand, KeyEnd, Workers};
use crate::dispatch::keys::ControllerKeys;
use crate::dispatch::left_keys::LeftKeys;
use crate::dispatch::reconcile::{Call, Reconcile};
use crate::dispatch::spans::KeySpans;
use crate::observe::status::ControllerStatus;
use crate::phases::Dropped;
use crate::supervise::Panics;
use crate::traces::{Tracer, trace_text};

/// The log target of calls, which `--log-level windlass::dispatch=debug` names.
const LOG: &str = "windlass::dispatch";

/// When a key runs again whose primary cannot be looked up because the cache was emptied. By then its controller has
/// usually ended.
const EMPTY_CACHE_RETRY: Duration = Duration::from_secs(1);

/// A controller's workers, and what they use.
pub(crate) struct Dispatch {
    pub(crate) keys: ControllerKeys,
    pub(crate) callee: ControllerCallee,
    pub(crate) permits: CallPermits,
    pub(crate) shutdown: Shutdown,
    /// After this many counted failures in a row, a key runs only rarely.
    pub(crate) max_retries: u32,
    /// Collects how the calls of this generation end.
    pub(crate) record: Arc<CallRecord>,
    pub(crate) status: Arc<ControllerStatus>,
    pub(crate) panics: Panics,
    /// Samples calls and collects their spans. `None` if tracing is off.
    pub(crate) tracer: Option<Tracer>,
    /// Cancelled once each cache has its first list. After that, every primary runs, or the caches are
    /// [rescanned](rescan), so the plugin's code is not asked about changes before it.
    pub(crate) caches_filled: CancellationToken,
}

/// The plugin of a controller, and what each of its calls gets.
pub(crate) struct ControllerCallee {
    /// The plugin's instances behind the middleware.
    pub(crate) plugin: Box<dyn Reconcile>,
    /// The controller's name, which differs from the manifest's if the configuration names the kind.
    pub(crate) controller: Arc<str>,
    /// Its name in the manifest, which the plugin knows.
    pub(crate) requested_as: Arc<str>,
    pub(crate) principal: Arc<Principal>,
    pub(crate) ports: Ports,
    /// The operator's configuration of the plugin, a JSON object.
    pub(crate) config: Configured,
    pub(crate) limits: CallLimits,
}

/// The permits that a call needs before it may begin.
pub(crate) struct CallPermits {
    /// The plugin's share of the host's permits.
    pub(crate) share: CpuShare,
    /// Decides when calls may be made, and admits each.
    pub(crate) call_gate: CallGate,
    /// The CPU seconds per second that a call takes from other calls by holding a call slot: the number of processors
    /// divided by the number of call slots.
    pub(crate) slot_worth: f64,
}

/// The stages in which a controller ends.
pub(crate) struct Shutdown {
    /// No more keys are added.
    pub(crate) stop: CancellationToken,
    /// No call begins any more. Workers take no key, and give back keys that wait for a permit.
    pub(crate) last_call: CancellationToken,
    /// Another generation has the queue: workers take no key, and give back keys that wait for a permit.
    pub(crate) retired: CancellationToken,
    /// The tasks that hold keys.
    pub(crate) workers: Workers,
    /// Counts the dropped keys, whether dropped by workers or with an abandoned round.
    pub(crate) dropped: Arc<Dropped>,
    /// Gets the keys that an abandoned round has left.
    pub(crate) left: Arc<LeftKeys>,
}

impl CallPermits {
    /// Gives `permit` back after a call that used `cpu` time and took `lasted`.
    fn finish(&self, permit: CallPermit, cpu: Duration, lasted: Duration) {
        permit.finish(charge(cpu, lasted, self.slot_worth));
    }
}

/// The CPU time that is charged for a call: the time that it used, or the time that its call slot kept from other
/// calls, whichever is longer. Otherwise a call that waits would cost its plugin nothing, although the host works for
/// it.
fn charge(cpu: Duration, lasted: Duration, slot_worth: f64) -> Duration {
    cpu.max(lasted.mul_f64(slot_worth))
}

impl Dispatch {
    /// Works on keys until the queue is shut down and empty, until another generation has it, or until no call may
    /// begin any more.
    pub(crate) async fn work(&self) {
        let mut since = Instant::now();
        while let Some(key) = self.next_key().await {
            let mut in_hand = InHand::new(self.keys.queue.clone(), self.shutdown.dropped.clone(), key);
            if self.keys.is_held(&in_hand.key) {
                in_hand.end = KeyEnd::Held;
                continue;
            }
            let (key, mut spans) = (&in_hand.key, self.begin_spans(&in_hand.key));
            let span = tracing::info_span!(
                "reconcile", plugin = %self.callee.principal.plugin, controller = %self.callee.controller, key = %key,
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

    /// Records that each cache has its first list. Called before the first worker begins.
    pub(crate) fn has_caches(&self) {
        self.caches_filled.cancel();
    }

    /// Queues the keys that the controller's earlier rounds have left. Call this once the caches are filled.
    pub(crate) fn queue_left(&self, reason: TriggerReason) {
        let left = self.shutdown.left.take(&self.keys.primary, &self.keys.primaries);
        self.keys.queue_left(left, reason);
    }

    /// Queues the keys that the outage since `began` has set back.
    pub(crate) fn recover(&self, began: Instant) {
        let keys = self.keys.recover(began);
        if keys > 0 {
            tracing::info!(
                plugin = %self.callee.principal.plugin, controller = %self.callee.controller, keys,
                "the API server answers again: keys that failed in the outage run now"
            );
        }
    }

    async fn next_key(&self) -> Option<ObjectKey> {
        tokio::select! {
            biased;
            () = self.shutdown.retired.cancelled() => None,
            // The keys that are left are another round's, or are dropped.
            () = self.shutdown.last_call.cancelled() => None,
            // Cancel-safe: dropping this loses no key.
            key = self.callable_key() => key,
        }
    }

    /// Waits for a key. Takes none while the API server is unreachable, because what is known of the key now would be
    /// outdated when a call can be made.
    async fn callable_key(&self) -> Option<ObjectKey> {
        loop {
            if !self.is_callable().await {
                // The remaining keys drain, or were dropped.
                return self.keys.queue.get().await;
            }
            tokio::select! {
                biased;
                () = self.permits.call_gate.closed() => {}
                // Cancel-safe: dropping this loses no key.
                key = self.keys.queue.get() => return key,
            }
        }
    }

    /// Waits for a permit for a call that can be made now. `None` if no further call may be made.
    async fn permit(&self) -> Option<(CallPermit, Pass)> {
        tokio::select! {
            biased;
            () = self.shutdown.retired.cancelled() => None,
            () = self.shutdown.last_call.cancelled() => None,
            permit = self.callable_permit() => permit,
        }
    }

    /// Waits until a call can be made, and returns its permit. `None` if the host stops while the API server is
    /// unreachable.
    async fn callable_permit(&self) -> Option<(CallPermit, Pass)> {
        while self.is_callable().await || self.permits.call_gate.may_call() {
            let permit = self.permits.share.acquire().await;
            if let Some(pass) = self.permits.call_gate.admit() {
                return Some((permit, pass));
            }
            permit.unused();
        }
        None
    }

    /// Waits until the API server is reachable. `false` if the controller ends first, so that waiting is useless.
    async fn is_callable(&self) -> bool {
        if !self.permits.call_gate.may_call() {
            self.record.rests();
        }
        self.shutdown.stop.run_until_cancelled(self.permits.call_gate.open()).await.is_some()
    }

    /// Makes one call, and carries out what follows from it.
    async fn process(&self, key: &ObjectKey, spans: &mut KeySpans, hold: Hold) -> KeyEnd {
        // A panic in the host fails only this key, as a trap in the guest would.
        let run = AssertUnwindSafe(self.call(key, spans, hold)).catch_unwind().await;
        run.unwrap_or_else(|panic| {
            self.panics.report("call", &*panic, "the key is tried again");
            self.status.panicked();
            spans.panicked(key);
            let primary = self.keys.primaries.get(key);
            self.keys.memory().fails(key, primary.map(|object| SlowMark::of(&object.header)));
            self.keys.queue.add_rate_limited(key.clone(), Retry::Counted, None);
            KeyEnd::Done
        })
    }

    async fn call(&self, key: &ObjectKey, spans: &mut KeySpans, hold: Hold) -> KeyEnd {
        if self.callee.principal.grants().hides(key) {
            let mut memory = self.keys.memory();
            memory.ends(key);
            memory.take_triggers(key);
            return KeyEnd::Done; // A plugin must not see objects that its policy hides, not even that they exist.
        }
        let Some((permit, pass)) = self.permit().await else {
            if self.shutdown.retired.is_cancelled() || self.shutdown.last_call.is_cancelled() {
                return KeyEnd::GivenBack;
            }
            // The host stops in an outage.
            self.shutdown.dropped.add(1);
            return KeyEnd::Done;
        };
        spans.permitted();
        if self.keys.is_held(key) {
            // While the key waited for its permit, a cache showed an old state.
            permit.unused();
            return KeyEnd::Held;
        }
        self.skip_late_timer();
        // Create the overlay before the first look at a cache.
        let overlay = Overlay::default();
        let Ok(primary) = self.keys.primaries.find(key) else {
            // The cache was emptied, for example because it grew too large, so its controller is about to end. A call
            // would tell the plugin that the primary was deleted. The next round gets the key.
            permit.unused();
            self.keys.queue.add_after(key.clone(), EMPTY_CACHE_RETRY);
            return KeyEnd::Done;
        };
        let (triggers, is_other) = {
            let mut memory = self.keys.memory();
            (self.keys.triggers(&mut memory, key), memory.begins(key, primary.as_ref()))
        };
        if !self.timer_begins(primary.as_ref(), &triggers) {
            permit.unused();
            return KeyEnd::Done;
        }
        if is_other || triggers.has_run_request() {
            self.keys.forget(key);
        }
        let context = self.context(key, primary.clone(), &spans.trace_id, hold, permit.cpu_permit());
        let context = Arc::new(CallContext { triggers, trace: spans.trace().clone(), overlay, ..context });
        let request = self.request(key, primary.as_ref(), &spans.trace_id);
        let attempt = request.attempt;
        tracing::trace!(target: LOG, triggers = %context.triggers, "begins");
        let started = Instant::now();
        let _active = self.status.call(key);
        let call = self.callee.plugin.reconcile(Call {
            request,
            ports: &self.callee.ports,
            context: context.clone(),
            limits: self.callee.limits.clone(),
            round: pass.round(),
            must_be_made: self.keys.queue.must_call(key),
        });
        let called = call.await;
        self.status.used(called.cpu);
        self.permits.finish(permit, called.cpu, started.elapsed());
        if called.made {
            self.status.called(started.elapsed(), &context.trace_id);
        }
        let end = self.end(key, &called, &context, started.elapsed());
        spans.ended(&context, attempt, end, &called.result);
        self.timer_ends(context.primary.as_ref(), end).await;
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
            principal: self.callee.principal.clone(),
            controller: self.callee.controller.clone(),
            primary_kind: self.keys.primary.kind.clone(),
            primary_key: key.clone(),
            primary,
            triggers: Triggers::default(),
            trace_id: trace_id.into(),
            trace: CallTrace::default(),
            hold,
            overlay: Overlay::default(),
            lines: CallLines::default(),
            cpu_permit,
            config: self.callee.config.borrow().clone().unwrap_or_else(|| "{}".into()),
            reads: ReadTracker::default(),
        }
    }

    fn request(&self, key: &ObjectKey, primary: Option<&Object>, trace_id: &str) -> Request {
        Request {
            controller: self.callee.requested_as.clone(),
            key: key.clone(),
            uid: primary.map(|object| object.header.uid.text()).or_else(|| self.keys.memory().uid_of_gone(key)),
            object: primary.map(Object::text),
            deleting: primary.is_some_and(|object| object.header.deleting),
            attempt: self.keys.queue.num_requeues(key),
            trace_id: trace_id.into(),
        }
    }
}

/// A new trace ID: 32 hexadecimal digits, as W3C Trace Context requires.
fn trace_id() -> String {
    trace_text(windlass_world::random())
}

#[cfg(test)]
pub(crate) mod tests;
