//! Counts of recorded calls, read at each scrape.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use windlass_record::{RecordingCounts, Recordings};

use super::{counters, gauges};

/// Reads the counts of these recordings.
#[derive(Debug)]
pub(crate) struct RecordedCalls(pub(crate) Recordings);

impl Collector for RecordedCalls {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.0.counts();
        let of = |result: &'static str, count: fn(&RecordingCounts) -> u64| {
            all.iter().map(move |(plugin, counts): &(Arc<str>, Arc<RecordingCounts>)| {
                (vec![("plugin", plugin.to_string()), ("result", result.to_owned())], count(counts))
            })
        };
        let counted = of("recorded", RecordingCounts::recorded)
            .chain(of("dropped", RecordingCounts::dropped))
            .chain(of("too-large", RecordingCounts::too_large));
        let help = "Calls selected for recording, by result";
        counters(&mut encoder, "windlass_calls_recorded", help, counted)?;
        let stopped =
            all.iter().map(|(plugin, counts)| (vec![("plugin", plugin.to_string())], i64::from(counts.is_stopped())));
        let help = "Whether the recording of the plugin's calls has stopped, because writing failed";
        gauges(&mut encoder, "windlass_recording_stopped", help, stopped)
    }
}
