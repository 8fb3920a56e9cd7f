//! The spans of a call, in OpenTelemetry's terms: what the call waited for, ran and requested, and when.
//!
//! A [`CallTrace`] travels with a call's context, and all code that works for the call begins spans with it. Most
//! calls have no spans because tracing is off or the call was not sampled. Then nothing here allocates, reads a clock
//! or computes a name or an attribute. `windlass-runtime` samples and exports ([`SpanSink`]).

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most spans of one call, not counting its root and its waits: one plugin must not crowd out the spans of other
/// plugins.
pub const SPANS_PER_CALL_MAX: u32 = 1_000;
/// The error of a span whose work was dropped before its end.
const CUT_OFF: &str = "cut off: its caller stopped waiting, for example because the call was stopped";

/// Receives ended spans, and supplies what a span needs from outside.
pub trait SpanSink: Debug + Send + Sync {
    /// The present time, in nanoseconds since 1970. It never decreases.
    fn now(&self) -> u64;

    fn new_id(&self) -> u64;

    /// The API server's host and port, for the spans of requests to it.
    fn api_server(&self) -> (&str, u16);

    /// Takes an ended span. The sink may drop it.
    fn take(&self, span: EndedSpan);

    /// Counts a span that was left out because its call already has [`SPANS_PER_CALL_MAX`].
    fn left_out(&self);
}

/// Which side of a request a span shows, if it shows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within the host.
    Internal,
    /// The requesting side.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum SpanValue {
    Text(String),
    Whole(i64),
    Number(f64),
}

impl From<String> for SpanValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for SpanValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for SpanValue {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

impl From<u32> for SpanValue {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<u16> for SpanValue {
    fn from(number: u16) -> Self {
        Self::Whole(number.into())
    }
}

impl From<f64> for SpanValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// A span that has ended, or is about to.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedSpan {
    /// The trace: 32 hexadecimal digits.
    pub trace_id: Arc<str>,
    /// Its own id, never 0.
    pub id: u64,
    /// The parent span. `None` for the root.
    pub parent: Option<u64>,
    /// The span's name, from a small set of names.
    pub name: Cow<'static, str>,
    /// Which side of a request the span shows, if it shows a request.
    pub kind: SpanKind,
    /// When the span began, in nanoseconds since 1970.
    pub start: u64,
    /// When the span ended, in nanoseconds since 1970.
    pub end: u64,
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// Why the span's work failed. `None` if it succeeded.
    pub error: Option<String>,
}

impl EndedSpan {
    pub fn set(&mut self, name: &'static str, value: impl Into<SpanValue>) {
        self.attributes.push((name, value.into()));
    }
}

/// A call's place in its trace: new spans become children of the span that it names. The default belongs to a host
/// that collects no traces.
#[derive(Clone, Debug, Default)]
pub struct CallTrace(TraceChoice);

#[derive(Clone, Debug, Default)]
enum TraceChoice {
    /// Tracing is off: no sampling decision was made.
    #[default]
    Untraced,
    NotSampled,
    Sampled(Arc<SpanPlace>),
}

#[derive(Debug)]
struct SpanPlace {
    sink: Arc<dyn SpanSink>,
    trace_id: Arc<str>,
    /// The parent of new spans.
    parent: u64,
    /// How many spans the call has begun, including those left out.
    begun: Arc<AtomicU32>,
}

impl CallTrace {
    /// A call that was not sampled. Its requests carry that decision.
    #[must_use]
    pub fn not_sampled() -> Self {
        Self(TraceChoice::NotSampled)
    }

    /// Begins the root of the trace `trace_id`, which has 32 hexadecimal digits, and sends its spans to `sink`. The
    /// root began at `start`, in nanoseconds since 1970.
    pub fn root(sink: Arc<dyn SpanSink>, trace_id: Arc<str>, name: &'static str, start: u64) -> OpenSpan {
        let id = sink.new_id().max(1);
        let place = SpanPlace { sink, trace_id, parent: id, begun: Arc::default() };
        OpenSpan::begun(place, None, SpanKind::Internal, name, start)
    }

    /// The same call without spans: spans that begin from now on are not collected.
    #[must_use]
    pub fn silenced(&self) -> Self {
        match self.0 {
            TraceChoice::Untraced => Self::default(),
            TraceChoice::NotSampled | TraceChoice::Sampled(_) => Self::not_sampled(),
        }
    }

    /// The id of the parent of new spans. `None` if the call has no spans.
    #[must_use]
    pub fn parent(&self) -> Option<u64> {
        match &self.0 {
            TraceChoice::Sampled(place) => Some(place.parent),
            TraceChoice::Untraced | TraceChoice::NotSampled => None,
        }
    }

    /// Begins a span of work within the host. The caller must report its end ([`OpenSpan::ends`]).
    pub fn span(&self, name: &'static str) -> OpenSpan {
        let TraceChoice::Sampled(place) = &self.0 else { return OpenSpan::without(self.clone()) };
        self.begin(place, place.sink.new_id(), SpanKind::Internal, name)
    }

    /// Begins the span of a request. The caller sets its name and must report its end ([`OpenSpan::ends`]).
    pub fn request(&self) -> OpenSpan {
        let TraceChoice::Sampled(place) = &self.0 else { return OpenSpan::without(self.clone()) };
        self.begin(place, place.sink.new_id(), SpanKind::Client, "request")
    }

    /// As [`Self::request`], with an `id` that the request already carries.
    pub fn request_as(&self, id: u64) -> OpenSpan {
        let TraceChoice::Sampled(place) = &self.0 else { return OpenSpan::without(self.clone()) };
        self.begin(place, id, SpanKind::Client, "request")
    }

    fn begin(&self, place: &SpanPlace, id: u64, kind: SpanKind, name: &'static str) -> OpenSpan {
        if place.begun.fetch_add(1, Ordering::Relaxed) >= SPANS_PER_CALL_MAX {
            place.sink.left_out();
            return OpenSpan::without(self.clone());
        }
        let SpanPlace { sink, trace_id, begun, .. } = place;
        let new = SpanPlace { sink: sink.clone(), trace_id: trace_id.clone(), parent: id.max(1), begun: begun.clone() };
        let mut span = OpenSpan::begun(new, Some(place.parent), kind, name, sink.now());
        span.is_cut_off = true;
        span
    }

    /// Collects a span without attributes that has already ended: from `start` to `end`, in nanoseconds since 1970.
    pub fn past(&self, name: &'static str, start: u64, end: u64) {
        let TraceChoice::Sampled(place) = &self.0 else { return };
        place.sink.take(EndedSpan {
            trace_id: place.trace_id.clone(),
            id: place.sink.new_id().max(1),
            parent: Some(place.parent),
            name: name.into(),
            kind: SpanKind::Internal,
            start,
            end: end.max(start),
            attributes: Vec::new(),
            error: None,
        });
    }

    /// How many spans were left out because the call has more than [`SPANS_PER_CALL_MAX`].
    #[must_use]
    pub fn left_out(&self) -> u32 {
        match &self.0 {
            TraceChoice::Sampled(place) => place.begun.load(Ordering::Relaxed).saturating_sub(SPANS_PER_CALL_MAX),
            TraceChoice::Untraced | TraceChoice::NotSampled => 0,
        }
    }

    /// The present by the sink's clock, in nanoseconds since 1970. 0 for a call without spans.
    #[must_use]
    pub fn now(&self) -> u64 {
        match &self.0 {
            TraceChoice::Sampled(place) => place.sink.now(),
            TraceChoice::Untraced | TraceChoice::NotSampled => 0,
        }
    }

    /// The API server's host and port, if the call has spans.
    #[must_use]
    pub fn api_server(&self) -> Option<(&str, u16)> {
        match &self.0 {
            TraceChoice::Sampled(place) => Some(place.sink.api_server()),
            TraceChoice::Untraced | TraceChoice::NotSampled => None,
        }
    }

    /// The `traceparent` header (W3C Trace Context) for a request whose span is `span`, in the trace `trace_id`. The
    /// header is flagged as sampled unless the host collects traces and has not sampled this trace. `None` if
    /// `trace_id` is not valid.
    #[must_use]
    pub fn traceparent(&self, trace_id: &str, span: u64) -> Option<String> {
        let is_valid = trace_id.len() == 32
            && trace_id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && trace_id.bytes().any(|byte| byte != b'0');
        let flags = if matches!(self.0, TraceChoice::NotSampled) { "00" } else { "01" };
        is_valid.then(|| format!("00-{trace_id}-{:016x}-{flags}", span.max(1)))
    }
}

/// A span that has begun. It ends when it is dropped.
#[derive(Debug, Default)]
#[must_use = "a span ends when it is dropped"]
pub struct OpenSpan {
    /// The trace as its children see it.
    trace: CallTrace,
    /// `None` if the span is not collected.
    span: Option<Box<EndedSpan>>,
    /// Whether the end of the span's work has not been reported yet.
    is_cut_off: bool,
}

impl OpenSpan {
    /// A span at `place`.
    fn begun(place: SpanPlace, parent: Option<u64>, kind: SpanKind, name: &'static str, start: u64) -> Self {
        let span = EndedSpan {
            trace_id: place.trace_id.clone(),
            id: place.parent,
            parent,
            name: name.into(),
            kind,
            start,
            end: start,
            attributes: Vec::new(),
            error: None,
        };
        let trace = CallTrace(TraceChoice::Sampled(Arc::new(place)));
        Self { trace, span: Some(Box::new(span)), is_cut_off: false }
    }

    /// A span of `trace` that is not collected.
    pub fn without(trace: CallTrace) -> Self {
        Self { trace, span: None, is_cut_off: false }
    }

    #[must_use]
    pub fn is_collected(&self) -> bool {
        self.span.is_some()
    }

    /// The trace as its children see it.
    #[must_use]
    pub fn trace(&self) -> &CallTrace {
        &self.trace
    }

    /// Adds attributes, if the span is collected.
    pub fn describe(&mut self, describe: impl FnOnce(&mut EndedSpan)) {
        if let Some(span) = &mut self.span {
            describe(span);
        }
    }

    /// Ends the work of the span. `describe` adds attributes if the span is collected. If a span is dropped before
    /// this method is called, the span counts as cut off.
    pub fn ends(&mut self, describe: impl FnOnce(&mut EndedSpan)) {
        self.is_cut_off = false;
        self.describe(describe);
    }

    /// Marks the span as failed with `message`.
    pub fn fail(&mut self, message: impl FnOnce() -> String) {
        self.describe(|span| span.error = Some(message()));
    }

    /// The `traceparent` header of the request that this span stands for. `None` if the span is not collected.
    #[must_use]
    pub fn traceparent(&self) -> Option<String> {
        let span = self.span.as_ref()?;
        self.trace.traceparent(&span.trace_id, span.id)
    }

    /// Stops collecting the span.
    pub fn discard(&mut self) {
        self.span = None;
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if let (Some(mut span), TraceChoice::Sampled(place)) = (self.span.take(), &self.trace.0) {
            span.end = place.sink.now().max(span.start);
            if self.is_cut_off {
                span.set("error.type", "cancelled");
                span.error = Some(CUT_OFF.to_owned());
            }
            place.sink.take(*span);
        }
    }
}
