//! What has become of spans, looked up at each scrape.

use std::fmt;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::counters;
use crate::traces::Tracer;

/// Where it is looked up.
#[derive(Debug)]
pub(crate) struct ExportedSpans(pub(crate) Tracer);

impl Collector for ExportedSpans {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let totals = self.0.totals();
        let exported = [(vec![], totals.exported.load(Ordering::Relaxed))];
        counters(&mut encoder, "windlass_spans_exported", "Spans that the collector has taken", exported)?;
        let dropped = [(vec![], totals.dropped.load(Ordering::Relaxed))];
        let help = "Spans that were dropped, as too many waited or the collector refused them";
        counters(&mut encoder, "windlass_spans_dropped", help, dropped)
    }
}
