//! Logs: for people on a terminal, as JSON for machines, always on standard error.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people, coloured on a terminal.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging. `filter` is in `tracing`'s syntax, such as `info` or `windlass=debug,info`.
pub(crate) fn start(format: LogFormat, filter: &str) -> anyhow::Result<()> {
    // kube's own layer would log an error for each answer that the host handles; a filter that names it still wins.
    let filter = EnvFilter::try_new(format!("kube_client=off,{filter}")).with_context(|| {
        format!("--log-level {filter:?} is not a filter such as `info` or `windlass_kube=debug,info`")
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Json => builder.json().flatten_event(true).init(),
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).init(),
    }
    Ok(())
}
