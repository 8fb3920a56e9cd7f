//! Traces of calls, exported by OTLP (ADR 31): which calls are sampled, and how their spans reach the collector.
//!
//! A call that is not sampled costs one comparison. The spans of a sampled call go into a bounded queue. One task takes
//! them in batches (`export`), encodes them as JSON (`encode`), and posts them (`collector`). Nothing waits for that
//! task.

mod clock;
mod collector;
mod encode;
mod export;
mod sampling;
mod settings;
#[cfg(test)]
pub(crate) mod tests;
mod totals;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use windlass_core::call::trace::{CallTrace, EndedSpan, OpenSpan, SpanSink, SpanValue};
use windlass_core::deceptive;

use self::clock::SpanClock;
use self::collector::HttpCollector;
use self::encode::{Encoder, cut};
use self::export::{Collect, Exporter};
pub(crate) use self::sampling::Sampling;
pub use self::settings::{TraceFlags, TraceSettings, TraceSettingsError};
pub(crate) use self::totals::ExportedSpans;
use self::totals::SpanTotals;
use crate::supervise::{Panics, caught};
use windlass_egress::tls::Trust;

/// The most spans that may wait for the task. They take some megabytes.
const QUEUED_SPANS_MAX: usize = 8_192;
/// How long a stop waits for the last spans to be exported.
const LAST_EXPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// 32 hexadecimal digits, as W3C Trace Context requires.
pub(crate) fn trace_text(id: u128) -> String {
    format!("{id:032x}")
}

/// Samples calls and exports their spans. Clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct Tracer(Arc<TracerInner>);

#[derive(Debug)]
struct TracerInner {
    sampling: Sampling,
    clock: Arc<SpanClock>,
    queue: mpsc::Sender<EndedSpan>,
    totals: Arc<SpanTotals>,
    /// True if it was logged that the queue is full.
    has_logged_full: AtomicBool,
    api_server: (String, u16),
    /// Ends the task. `None` if it was ended.
    exporting: Mutex<Option<(CancellationToken, JoinHandle<()>)>>,
}

impl Tracer {
    /// Starts the exporting task on the current tokio runtime. `server` is the API server's URL, `replica` the name of
    /// this process.
    pub(crate) fn start(
        settings: &TraceSettings,
        server: &str,
        replica: &str,
        trust: Arc<Trust>,
        panics: &Panics,
    ) -> Self {
        tracing::info!(
            collector = %settings.collector, sampling = %settings.sampling,
            "the spans of calls are exported by OTLP"
        );
        let collector = HttpCollector::new(settings, trust);
        Self::exporting_to(collector, settings, server, replica, panics)
    }

    fn exporting_to(
        collector: impl Collect,
        settings: &TraceSettings,
        server: &str,
        replica: &str,
        panics: &Panics,
    ) -> Self {
        let (queue, spans) = mpsc::channel(QUEUED_SPANS_MAX);
        let (clock, totals) = (Arc::new(SpanClock::default()), Arc::new(SpanTotals::default()));
        let stop = CancellationToken::new();
        let encoder = Encoder::new(settings.resource(replica));
        let exporter = Exporter {
            spans,
            collector,
            encoder,
            clock: clock.clone(),
            totals: totals.clone(),
            is_away: false,
            has_logged_refusal: false,
        };
        let (until, panics) = (stop.clone(), panics.clone());
        let task = tokio::spawn(async move {
            caught("traces", &panics, exporter.run(&until)).await;
        });
        Self(Arc::new(TracerInner {
            sampling: settings.sampling,
            clock,
            queue,
            totals,
            has_logged_full: AtomicBool::new(false),
            api_server: address_of(server),
            exporting: Mutex::new(Some((stop, task))),
        }))
    }

    /// Whether the spans of the call whose trace is `id` are collected.
    pub(crate) fn samples(&self, id: u128) -> bool {
        self.0.sampling.samples(id)
    }

    /// The current time, in nanoseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        self.0.now()
    }

    /// The root span of a call that began at `start`.
    pub(crate) fn root(&self, trace_id: &str, start: u64) -> OpenSpan {
        CallTrace::root(self.0.clone(), trace_id.into(), "reconcile", start)
    }

    fn totals(&self) -> &SpanTotals {
        &self.0.totals
    }

    /// Exports the waiting spans, within [`LAST_EXPORT_TIMEOUT`]. Spans that end later are dropped.
    pub(crate) async fn end(&self) {
        let exporting = self.0.exporting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((stop, mut task)) = exporting else { return };
        stop.cancel();
        if timeout(LAST_EXPORT_TIMEOUT, &mut task).await.is_err() {
            task.abort();
        }
        let left = self.0.totals.left();
        if left > 0 {
            self.0.totals.dropped.fetch_add(left, Ordering::Relaxed);
            tracing::warn!(
                spans = left,
                "the last spans were not exported within {LAST_EXPORT_TIMEOUT:?}: they are lost"
            );
        }
    }
}

impl SpanSink for TracerInner {
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn new_id(&self) -> u64 {
        windlass_world::random()
    }

    fn api_server(&self) -> (&str, u16) {
        (&self.api_server.0, self.api_server.1)
    }

    fn take(&self, mut span: EndedSpan) {
        tame(&mut span);
        self.totals.ended.fetch_add(1, Ordering::Relaxed);
        let Err(rest) = self.queue.try_send(span) else { return };
        self.totals.dropped.fetch_add(1, Ordering::Relaxed);
        // If the queue has room, the task has ended, which was logged already.
        if matches!(rest, TrySendError::Full(_)) && !self.has_logged_full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "spans are dropped, as more than {QUEUED_SPANS_MAX} wait to be exported: sample fewer calls (--trace-sampling), or find out why \
                 the collector is slow. windlass_spans_dropped_total counts dropped spans. This is logged only once"
            );
        }
    }

    fn left_out(&self) {
        self.totals.ended.fetch_add(1, Ordering::Relaxed);
        self.totals.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Cuts long texts, as thousands of spans may wait, and escapes deceptive characters, as texts may come from a plugin.
fn tame(span: &mut EndedSpan) {
    let texts = span.attributes.iter_mut().filter_map(|(_, value)| match value {
        SpanValue::Text(text) => Some(text),
        SpanValue::Whole(_) | SpanValue::Number(_) => None,
    });
    for text in texts.chain(&mut span.error) {
        shorten(text);
        if let Cow::Owned(escaped) = deceptive::escape(text) {
            *text = escaped;
            shorten(text);
        }
    }
}

fn shorten(text: &mut String) {
    let kept = cut(text).len();
    if kept < text.len() {
        text.truncate(kept);
        text.shrink_to_fit();
    }
}

/// The host and port of a URL, if it has them.
fn address_of(url: &str) -> (String, u16) {
    let uri: Option<http::Uri> = url.parse().ok();
    let is_plain = uri.as_ref().and_then(http::Uri::scheme_str) == Some("http");
    let port = uri.as_ref().and_then(http::Uri::port_u16).unwrap_or(if is_plain { 80 } else { 443 });
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    (host.trim_start_matches('[').trim_end_matches(']').to_owned(), port)
}
