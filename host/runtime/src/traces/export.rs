//! The task that exports spans. It takes them in batches, and retries when a collector could not accept them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use windlass_core::call::trace::EndedSpan;
use windlass_core::retry::RetryPolicy;

use super::clock::SpanClock;
use super::encode::Encoder;
use super::totals::SpanTotals;

/// The most spans in one request.
pub(super) const SPANS_OF_REQUEST_MAX: usize = 512;
/// The longest wait for a batch to fill.
const BATCH_DELAY_MAX: Duration = Duration::from_secs(1);
/// The pauses between two attempts.
const EXPORT_BACKOFF: RetryPolicy = RetryPolicy::doubling(Duration::from_secs(1), EXPORT_BACKOFF_MAX).jitter(0.5, 1.0);
/// The longest pause.
const EXPORT_BACKOFF_MAX: Duration = Duration::from_secs(30);
/// How long a batch is retried. After that time, newer spans are worth more, and a batch that never gets through, for
/// example because a proxy rejects its size, must not block other batches.
const EXPORT_TRIED_FOR_MAX: Duration = Duration::from_mins(5);

/// A collector of traces, or a test double.
pub(super) trait Collect: Send + Sync + 'static {
    /// Sends the `request`. Returns how many of its spans were refused, and why.
    fn export(&self, request: Bytes) -> impl Future<Output = Result<PartialRefusal, ExportError>> + Send;
}

/// The part of a request that a collector has refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PartialRefusal {
    pub(super) spans: u64,
    pub(super) why: String,
}

/// Why a collector has accepted nothing of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExportError {
    /// The collector may accept the request later.
    Later { why: String, after: Option<Duration> },
    /// The collector will never accept the request.
    Refused(String),
}

/// The task that exports spans.
pub(super) struct Exporter<C> {
    pub(super) spans: mpsc::Receiver<EndedSpan>,
    pub(super) collector: C,
    pub(super) encoder: Encoder,
    pub(super) clock: Arc<SpanClock>,
    pub(super) totals: Arc<SpanTotals>,
    /// True from the log line that the collector accepts no spans until it accepts spans again.
    pub(super) is_away: bool,
    /// True if a refusal of spans was logged.
    pub(super) has_logged_refusal: bool,
}

impl<C: Collect> Exporter<C> {
    /// Exports spans until `stop`. Then exports the remaining spans, with one attempt for each batch.
    pub(super) async fn run(mut self, stop: &CancellationToken) {
        while let Some(batch) = self.next_batch(stop).await {
            let request = Bytes::from(self.encoder.request(&batch, self.clock.correction()));
            self.export(request, batch.len() as u64, stop).await;
        }
    }

    /// The next batch. `None` at the end.
    async fn next_batch(&mut self, stop: &CancellationToken) -> Option<Vec<EndedSpan>> {
        let mut batch = Vec::new();
        let filled = async {
            self.spans.recv_many(&mut batch, SPANS_OF_REQUEST_MAX).await;
            let until = Instant::now() + BATCH_DELAY_MAX;
            while batch.len() < SPANS_OF_REQUEST_MAX {
                let most = SPANS_OF_REQUEST_MAX - batch.len();
                if !matches!(timeout_at(until, self.spans.recv_many(&mut batch, most)).await, Ok(1..)) {
                    break;
                }
            }
        };
        if stop.run_until_cancelled(filled).await.is_none() {
            while batch.len() < SPANS_OF_REQUEST_MAX
                && let Ok(span) = self.spans.try_recv()
            {
                batch.push(span);
            }
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// Exports a request with `spans` spans, or gives up.
    async fn export(&mut self, request: Bytes, spans: u64, stop: &CancellationToken) {
        let mut pauses = EXPORT_BACKOFF.begin();
        let until = Instant::now() + EXPORT_TRIED_FOR_MAX;
        loop {
            // An attempt that begins after the stop is the last one.
            let is_last = stop.is_cancelled();
            match self.collector.export(request.clone()).await {
                Ok(PartialRefusal { spans: rejected, why }) => {
                    let rejected = rejected.min(spans);
                    self.totals.exported.fetch_add(spans - rejected, Ordering::Relaxed);
                    self.totals.dropped.fetch_add(rejected, Ordering::Relaxed);
                    if rejected > 0 {
                        self.refused(&why);
                    }
                    return self.is_back();
                }
                Err(ExportError::Refused(why)) => {
                    self.totals.dropped.fetch_add(spans, Ordering::Relaxed);
                    return self.refused(&why);
                }
                Err(ExportError::Later { why, after }) => {
                    self.waits(&why);
                    let pause =
                        pauses.pause(windlass_world::random()).max(after.unwrap_or_default().min(EXPORT_TRIED_FOR_MAX));
                    if !is_last {
                        stop.run_until_cancelled(sleep(pause)).await;
                    }
                    if is_last || (Instant::now() >= until && !stop.is_cancelled()) {
                        self.totals.dropped.fetch_add(spans, Ordering::Relaxed);
                        return;
                    }
                }
            }
        }
    }

    /// Records, and logs if needed, that the collector accepts spans.
    fn is_back(&mut self) {
        if std::mem::take(&mut self.is_away) {
            let dropped = self.totals.dropped.load(Ordering::Relaxed);
            tracing::info!(dropped, "the collector accepts spans again");
        }
    }

    /// Logs, once until it recovers, that the collector accepts no spans.
    fn waits(&mut self, why: &str) {
        if std::mem::replace(&mut self.is_away, true) {
            tracing::debug!("the collector still accepts no spans: {why}");
        } else {
            tracing::warn!(
                "the collector accepts no spans: {why}. Spans wait, and are dropped after {EXPORT_TRIED_FOR_MAX:?} or if too many wait. Calls \
                 are not affected. A log line follows when the collector accepts spans again"
            );
        }
    }

    /// Logs only once that the collector has refused spans, because it may refuse some of every batch.
    fn refused(&mut self, why: &str) {
        if std::mem::replace(&mut self.has_logged_refusal, true) {
            tracing::debug!("the collector still refuses spans: {why}");
        } else {
            tracing::warn!(
                "the collector refuses spans: {why}. They are dropped and counted by windlass_spans_dropped_total. Calls are not \
                 affected. This is logged only once"
            );
        }
    }
}
