//! Logs: for people on a terminal, or as JSON for machines, always on standard error; and the audit log of mutations in
//! a file.

mod audit_log;
pub(crate) mod brief;
mod lines;
mod source_map;
mod stack;

use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, bail};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};
use windlass_core::error::explained;

use self::audit_log::AuditLog;
use self::brief::{Brief, BriefOptions};
use self::lines::{Lines, SpanFields};

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people, coloured on a terminal.
    Text,
    /// One JSON object a line.
    Json,
    /// A short line for each call, write, log line and event, for plugin authors.
    Brief,
}

/// The filter of the log, which can be replaced at run time.
pub(crate) struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Replaces the filter of the log.
    pub(crate) fn set(&self, filter: &str) -> anyhow::Result<()> {
        self.0.reload(env_filter(filter)?).context("cannot replace the log's filter")
    }
}

/// A layer of the log.
type LogLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts logging. `filter` is in `tracing`'s syntax, such as `info` or `windlass=debug,info`. `audit` is the file of
/// the audit log.
pub(crate) fn start(
    format: LogFormat,
    filter: &str,
    brief: BriefOptions,
    audit: Option<&Path>,
) -> anyhow::Result<LogFilter> {
    // If standard error is closed, reporting that there would panic the logging task.
    let layer = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false).with_ansi(false);
    let lines: LogLayer = match format {
        LogFormat::Json => layer.fmt_fields(SpanFields).event_format(Lines::Json).boxed(),
        LogFormat::Brief => layer.event_format(Brief::new(brief)).boxed(),
        LogFormat::Text => {
            let is_terminal = std::io::stderr().is_terminal();
            layer.with_ansi(is_terminal).fmt_fields(SpanFields).event_format(Lines::Text).boxed()
        }
    };
    // Each layer has its own filter: a filter that is a layer in a list would filter nothing.
    let (filter, handle) = reload::Layer::new(env_filter(filter)?);
    let mut layers = vec![lines.with_filter(filter).boxed()];
    if let Some(file) = audit.map(AuditLog::open).transpose()? {
        let audit = fmt::layer().with_writer(file).log_internal_errors(false).with_ansi(false);
        let audit = audit.fmt_fields(SpanFields).event_format(Lines::Json);
        let mutations = Targets::new().with_target(audit_log::TARGET, LevelFilter::DEBUG);
        layers.push(audit.with_filter(mutations).boxed());
    }
    tracing_subscriber::registry().with(layers).init();
    Ok(LogFilter(handle))
}

/// Returns `filter`, if it is valid.
pub(crate) fn checked_filter(filter: &str) -> Result<String, String> {
    match env_filter(filter) {
        Ok(_) => Ok(filter.to_owned()),
        Err(error) => Err(explained(&*error)),
    }
}

fn env_filter(filter: &str) -> anyhow::Result<EnvFilter> {
    let no_filter = || format!("{filter:?} is not a filter such as `info` or `windlass_kube=debug,info`");
    if filter.trim().is_empty() {
        // It would silence the whole host.
        bail!("it is empty: name a level, such as `info`, or leave it out");
    }
    if let Some(word) = no_level(filter) {
        bail!("{}: {word:?} is not a level", no_filter());
    }
    // kube's own layer would log an error for each answer that the host handles, and the WASI crate would log its data
    // exchange with guests, including random numbers. A filter that names these crates takes precedence.
    EnvFilter::try_new(format!("kube_client=off,wasmtime_wasi=off,{filter}")).with_context(no_filter)
}

/// A part of `filter` that is a bare word but not a level. `EnvFilter` would treat it as a module, so `warning` would
/// silence the whole host.
fn no_level(filter: &str) -> Option<&str> {
    let alone = filter.split(',').map(str::trim).filter(|part| !part.contains(['=', '[', '{', '}', ']']));
    alone.into_iter().find(|part| part.parse::<LevelFilter>().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_not_a_level_is_refused() {
        assert_eq!(no_level("warning"), Some("warning"));
        assert_eq!(no_level("windlass_kube=debug,verbose"), Some("verbose"));
        for good in ["info", "WARN", "off", "windlass_kube=debug,info", "windlass[reconcile{key=a}]=trace,info"] {
            assert_eq!(no_level(good), None, "{good}");
        }
    }

    #[test]
    fn trace_level_omits_guests_exchanges_with_wasi() {
        let shows = |filter: &str| {
            let subscriber = Registry::default().with(env_filter(filter).expect("it is a filter"));
            tracing::subscriber::with_default(subscriber, || {
                let of_wasi = tracing::enabled!(target: "wasmtime_wasi_io::bindings", tracing::Level::TRACE);
                let of_http = tracing::enabled!(target: "wasmtime_wasi_http::p2::bindings", tracing::Level::TRACE);
                assert_eq!(of_wasi, of_http, "headers may have secrets");
                (of_wasi, tracing::enabled!(target: "windlass", tracing::Level::TRACE))
            })
        };
        assert_eq!(shows("trace"), (false, true));
        assert_eq!(shows("trace,wasmtime_wasi=trace"), (true, true));
    }
}
