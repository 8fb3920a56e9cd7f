//! The task that exports spans: takes them in batches, and tries again what a collector could not take.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use windlass_core::retry::RetryPolicy;
use windlass_core::trace::EndedSpan;

use super::clock::SpanClock;
use super::encode::Encoder;
use super::totals::SpanTotals;

/// The spans of one request.
pub(super) const BATCH: usize = 512;
/// How long a batch is waited for that is not full.
const DELAY: Duration = Duration::from_secs(1);
/// The pauses between two attempts.
const PAUSES: RetryPolicy = RetryPolicy::doubling(Duration::from_secs(1), LONGEST).jitter(0.5, 1.0);
const LONGEST: Duration = Duration::from_secs(30);

/// A collector of traces, or a test's stand-in for one.
pub(super) trait Collect: Send + Sync + 'static {
    /// Has it take the `request`. Returns how many of its spans it has not taken, and why.
    fn export(&self, request: Bytes) -> impl Future<Output = Result<PartialRefusal, ExportError>> + Send;
}

/// The part of a request that a collector has refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PartialRefusal {
    pub(super) spans: u64,
    pub(super) why: String,
}

/// Why a collector has taken nothing of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExportError {
    /// It may take it later.
    Later { why: String, after: Option<Duration> },
    /// It will not.
    Refused(String),
}

/// The task.
pub(super) struct Exporter<C> {
    pub(super) spans: mpsc::Receiver<EndedSpan>,
    pub(super) collector: C,
    pub(super) encoder: Encoder,
    pub(super) clock: Arc<SpanClock>,
    pub(super) totals: Arc<SpanTotals>,
    /// That spans are not taken has been said.
    pub(super) told: bool,
}

impl<C: Collect> Exporter<C> {
    /// Exports what comes until `stop`, and then what is left, each batch once.
    pub(super) async fn run(mut self, stop: &CancellationToken) {
        while let Some(batch) = self.next_batch(stop).await {
            self.clock.set();
            let request = Bytes::from(self.encoder.request(&batch));
            self.export(request, batch.len() as u64, stop).await;
        }
    }

    /// None: it is over.
    async fn next_batch(&mut self, stop: &CancellationToken) -> Option<Vec<EndedSpan>> {
        let mut batch = Vec::new();
        let filled = async {
            self.spans.recv_many(&mut batch, BATCH).await;
            let until = Instant::now() + DELAY;
            while batch.len() < BATCH {
                let most = BATCH - batch.len();
                if !matches!(timeout_at(until, self.spans.recv_many(&mut batch, most)).await, Ok(1..)) {
                    break;
                }
            }
        };
        if stop.run_until_cancelled(filled).await.is_none() {
            while batch.len() < BATCH
                && let Ok(span) = self.spans.try_recv()
            {
                batch.push(span);
            }
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// Exports a request with so many spans, however long it takes.
    async fn export(&mut self, request: Bytes, spans: u64, stop: &CancellationToken) {
        let mut pauses = PAUSES.begin();
        loop {
            // The last attempt is one that began after the stop.
            let is_last = stop.is_cancelled();
            match self.collector.export(request.clone()).await {
                Ok(PartialRefusal { spans: rejected, why }) => {
                    let rejected = rejected.min(spans);
                    self.totals.exported.fetch_add(spans - rejected, Ordering::Relaxed);
                    return self.taken(rejected, &why);
                }
                Err(ExportError::Refused(why)) => {
                    self.totals.dropped.fetch_add(spans, Ordering::Relaxed);
                    return self.tell(&why, "they are dropped");
                }
                Err(ExportError::Later { why, after }) => {
                    self.tell(&why, "they wait, and are dropped when too many do");
                    if is_last {
                        self.totals.dropped.fetch_add(spans, Ordering::Relaxed);
                        return;
                    }
                    let pause = pauses.pause(windlass_world::random());
                    let pause = pause.max(after.unwrap_or_default().min(LONGEST));
                    stop.run_until_cancelled(sleep(pause)).await;
                }
            }
        }
    }

    fn taken(&mut self, rejected: u64, why: &str) {
        if rejected > 0 {
            self.totals.dropped.fetch_add(rejected, Ordering::Relaxed);
            return self.tell(why, "it has taken the others");
        }
        if std::mem::take(&mut self.told) {
            let dropped = self.totals.dropped.load(Ordering::Relaxed);
            tracing::info!(dropped, "the collector takes spans again");
        }
    }

    /// Tells once that spans are not taken, until they are again.
    fn tell(&mut self, why: &str, follows: &str) {
        if std::mem::replace(&mut self.told, true) {
            tracing::debug!("the collector takes no spans, still: {why}");
        } else {
            tracing::warn!(
                "the collector takes no spans: {why}. {follows}; calls go on as ever, and the log says when it takes them again"
            );
        }
    }
}
