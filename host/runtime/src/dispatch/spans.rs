//! The spans of a key, from the event that queued it to the outcome of its call. See `docs/operating/watching.md`,
//! Traces.

use std::time::Duration;

use windlass_core::call::ports::CallContext;
use windlass_core::call::trace::{CallTrace, OpenSpan};
use windlass_core::object::ObjectKey;
use windlass_core::queue::key_state::CallEnd;
use windlass_core::queue::outcome::CallResult;
use windlass_core::secret::confidential::Confidential;

use super::Dispatch;
use crate::traces::trace_text;

/// The name of the span of the guest's work.
pub(super) const RUN: &str = "run";

/// The trace of one call about a key: its ID, and its spans if they are collected.
pub(super) struct KeySpans {
    /// 32 hexadecimal digits.
    pub(super) trace_id: String,
    root: OpenSpan,
    times: KeyTimes,
}

/// The times at which the key was queued, held and taken, in nanoseconds since 1970. Meaningless if spans are not
/// collected.
#[derive(Clone, Copy, Debug, Default)]
struct KeyTimes {
    added: u64,
    /// When the gate began and ceased to hold the key.
    held: Option<(u64, u64)>,
    /// When a worker took it.
    taken: u64,
    permitted: u64,
}

impl Dispatch {
    /// Names the trace of a call about `key`, which a worker has taken, and decides whether to collect its spans. A
    /// call whose spans are not collected costs one comparison here.
    pub(super) fn begin_spans(&self, key: &ObjectKey) -> KeySpans {
        let id = windlass_world::random();
        let trace_id = trace_text(id);
        let Some(tracer) = &self.tracer else {
            return KeySpans { trace_id, root: OpenSpan::default(), times: KeyTimes::default() };
        };
        // Take the hold time even if the call is not sampled, because the gate would keep it otherwise.
        let held = self.keys.gate.as_ref().and_then(|gate| gate.take_hold_time(key));
        if !tracer.samples(id) {
            let root = OpenSpan::without(CallTrace::not_sampled());
            return KeySpans { trace_id, root, times: KeyTimes::default() };
        }
        let taken = tracer.now();
        let before = |ago: Duration| taken.saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX));
        let added = before(self.keys.queue.age(key));
        let held = held.map(|(since, until)| (before(since).max(added), before(until).max(added)));
        let root = tracer.root(&trace_id, added);
        KeySpans { trace_id, root, times: KeyTimes { added, held, taken, permitted: taken } }
    }
}

impl KeySpans {
    /// The trace as the call's context has it.
    pub(super) fn trace(&self) -> &CallTrace {
        self.root.trace()
    }

    /// The permit for the call was granted.
    pub(super) fn permitted(&mut self) {
        self.times.permitted = self.trace().now();
    }

    /// The call has ended with this result.
    pub(super) fn ended(&mut self, call: &CallContext, attempt: u32, end: CallEnd, result: &CallResult) {
        if !self.root.is_collected() {
            return;
        }
        self.waits();
        let left_out = self.trace().left_out();
        self.root.describe(|span| {
            let key = &call.primary_key;
            span.set("windlass.plugin", &*call.principal.plugin);
            span.set("windlass.plugin.digest", &*call.principal.digest);
            span.set("windlass.controller", &*call.controller);
            span.set("windlass.key", key.to_string());
            span.set("windlass.object.kind", call.primary_kind.to_string());
            span.set("windlass.object.name", &*key.name);
            if let Some(namespace) = &key.namespace {
                span.set("k8s.namespace.name", &**namespace);
            }
            span.set("windlass.attempt", attempt);
            span.set("windlass.triggers", call.triggers.to_string());
            span.set("windlass.outcome", end.as_str());
            if left_out > 0 {
                span.set("windlass.spans_left_out", left_out);
            }
            let error = result.failure();
            if !error.is_empty() {
                span.set("error.type", end.as_str());
                span.error = Some(error);
            }
        });
        drop(std::mem::take(&mut self.root));
    }

    /// The host's own code panicked.
    pub(super) fn panicked(&mut self, key: &ObjectKey) {
        self.waits();
        self.root.describe(|span| {
            span.set("windlass.key", key.to_string());
            span.set("error.type", "panic");
            span.error = Some("the host's own code panicked: see its log".to_owned());
        });
        drop(std::mem::take(&mut self.root));
    }

    /// Records a span for each time in which the key waited.
    fn waits(&self) {
        let KeyTimes { added, held, taken, permitted } = self.times;
        let trace = self.trace();
        let (since, until) = held.unwrap_or((taken, taken));
        trace.past("queue", added, since);
        if held.is_some() {
            trace.past("gate", since, until);
            trace.past("queue", until, taken);
        }
        trace.past("permit", taken, permitted);
    }
}

impl Drop for KeySpans {
    /// A key that was put down without a call has no outcome. Its spans will belong to its next call.
    fn drop(&mut self) {
        self.root.discard();
    }
}

/// Records how the guest's work ended, its `cpu` time, and its `failure`, if any.
pub(super) fn ran(span: &mut OpenSpan, cpu: Duration, failure: Option<&CallResult>, config: &Confidential) {
    span.ends(|span| {
        span.set("windlass.cpu_seconds", cpu.as_secs_f64());
        let error = failure.map(CallResult::failure).unwrap_or_default();
        if !error.is_empty() {
            span.error = Some(config.redact(&error).into_owned());
        }
    });
}
