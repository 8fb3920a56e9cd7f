//! Counts of spans, for `/metrics`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::Tracer;
use crate::observe::metrics::counters;

/// The numbers of spans so far, by their fate.
#[derive(Debug, Default)]
pub(super) struct SpanTotals {
    /// Number of spans that have ended.
    pub(super) ended: AtomicU64,
    /// Number of spans that the collector has accepted.
    pub(super) exported: AtomicU64,
    /// Number of spans that were dropped.
    pub(super) dropped: AtomicU64,
}

impl SpanTotals {
    /// Number of spans that still wait.
    pub(super) fn left(&self) -> u64 {
        let [ended, exported, dropped] =
            [&self.ended, &self.exported, &self.dropped].map(|count| count.load(Ordering::Relaxed));
        ended.saturating_sub(exported + dropped)
    }
}

/// Reads the counts of this tracer at each scrape.
#[derive(Debug)]
pub(crate) struct ExportedSpans(pub(crate) Tracer);

impl Collector for ExportedSpans {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let totals = self.0.totals();
        let exported = [(vec![], totals.exported.load(Ordering::Relaxed))];
        counters(&mut encoder, "windlass_spans_exported", "Spans that the collector has taken", exported)?;
        let dropped = [(vec![], totals.dropped.load(Ordering::Relaxed))];
        let help = "Spans that were dropped, as there were too many or the collector did not take them";
        counters(&mut encoder, "windlass_spans_dropped", help, dropped)
    }
}
