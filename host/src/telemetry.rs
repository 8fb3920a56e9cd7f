//! Logs: for people on a terminal, as JSON for machines, always on standard error.

pub(crate) mod brief;
mod lines;
mod repeats;
mod source_map;
mod stack;

use std::io::IsTerminal;

use anyhow::{Context, bail};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, reload};
use windlass_core::error::explained;

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

/// The filter of the log, which can be replaced while it is written.
pub(crate) struct LogFilter(Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>);

impl LogFilter {
    /// Logs by another filter from now on.
    pub(crate) fn set(&self, filter: &str) -> anyhow::Result<()> {
        (self.0)(env_filter(filter)?).context("cannot replace the log's filter")
    }
}

/// Starts logging. `filter` is in `tracing`'s syntax, such as `info` or `windlass=debug,info`.
pub(crate) fn start(format: LogFormat, filter: &str, brief: BriefOptions) -> anyhow::Result<LogFilter> {
    // If standard error is closed, reporting that on standard error would panic the task that logs.
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let layer = match format {
        LogFormat::Json => layer.with_ansi(false).fmt_fields(SpanFields).event_format(Lines::Json).boxed(),
        LogFormat::Brief => layer.with_ansi(false).event_format(Brief::new(brief)).boxed(),
        LogFormat::Text => {
            let is_terminal = std::io::stderr().is_terminal();
            layer.with_ansi(is_terminal).fmt_fields(SpanFields).event_format(Lines::Text).boxed()
        }
    };
    let (filter, handle) = reload::Layer::new(env_filter(filter)?);
    tracing_subscriber::registry().with(layer).with(filter).init();
    Ok(LogFilter(Box::new(move |filter| handle.reload(filter))))
}

/// The filter as it was given, if it is one.
pub(crate) fn checked_filter(filter: &str) -> Result<String, String> {
    match env_filter(filter) {
        Ok(_) => Ok(filter.to_owned()),
        Err(error) => Err(explained(&*error)),
    }
}

fn env_filter(filter: &str) -> anyhow::Result<EnvFilter> {
    let no_filter = || format!("{filter:?} is not a filter such as `info` or `windlass_kube=debug,info`");
    if let Some(word) = no_level(filter) {
        bail!("{}: {word:?} is not a level", no_filter());
    }
    // kube's own layer would log an error for each answer that the host handles; a filter that names it still wins.
    EnvFilter::try_new(format!("kube_client=off,{filter}")).with_context(no_filter)
}

/// A part of `filter` that stands alone and is not a level. `EnvFilter` takes it for a module, so `warning` would silence the
/// whole host.
fn no_level(filter: &str) -> Option<&str> {
    let alone = filter.split(',').map(str::trim).filter(|part| !part.contains(['=', '[', '{', '}', ']']));
    alone.into_iter().find(|part| part.parse::<LevelFilter>().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_not_taken_for_a_module() {
        assert_eq!(no_level("warning"), Some("warning"));
        assert_eq!(no_level("windlass_kube=debug,verbose"), Some("verbose"));
        for good in ["info", "WARN", "off", "windlass_kube=debug,info", "windlass[reconcile{key=a}]=trace,info"] {
            assert_eq!(no_level(good), None, "{good}");
        }
    }
}
