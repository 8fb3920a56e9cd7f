//! The flags about traces.

use clap::Args;
use windlass_runtime::{TraceFlags, TraceSettings};

use crate::cli::flags::admin_serving::UsageError;

/// Where the spans of calls are exported.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Export the spans of calls by OTLP over HTTP to this collector, such as `http://collector:4318`. Default:
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`, else not exported. OpenTelemetry's variables for headers, the service's name,
    /// resource attributes and the sampler are read too: see docs/operating/watching.md.
    #[arg(long, value_name = "URL", env = "WINDLASS_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,
    /// The share of calls whose spans are exported, from 0 to 1. Default: what `OTEL_TRACES_SAMPLER` says, else 1.
    #[arg(long, value_name = "SHARE", env = "WINDLASS_TRACE_SAMPLING", value_parser = crate::cli::run::record::share)]
    trace_sampling: Option<f64>,
}

impl TraceArgs {
    /// The settings. `None` if no spans are exported.
    pub(crate) fn settings(self) -> Result<Option<TraceSettings>, UsageError> {
        let flags = TraceFlags { endpoint: self.otlp_endpoint, sampling: self.trace_sampling };
        let settings = TraceSettings::read(&flags, |name| std::env::var(name).ok())
            .map_err(|error| UsageError(error.to_string()))?;
        if settings.is_none() && flags.sampling.is_some() {
            tracing::warn!("--trace-sampling has no effect: no collector is named (--otlp-endpoint)");
        }
        Ok(settings)
    }
}
