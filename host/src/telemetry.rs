//! Logs: for people on a terminal, as JSON for machines, always on standard error.

pub(crate) mod brief;
mod lines;
mod repeats;
mod source_map;
mod stack;

use std::io::IsTerminal;

use anyhow::{Context, bail};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

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

/// Starts logging. `filter` is in `tracing`'s syntax, such as `info` or `windlass=debug,info`.
pub(crate) fn start(format: LogFormat, filter: &str, brief: BriefOptions) -> anyhow::Result<()> {
    // kube's own layer would log an error for each answer that the host handles; a filter that names it still wins.
    let no_filter = || format!("--log-level {filter:?} is not a filter such as `info` or `windlass_kube=debug,info`");
    if let Some(word) = no_level(filter) {
        bail!("{}: {word:?} is not a level", no_filter());
    }
    let filter = EnvFilter::try_new(format!("kube_client=off,{filter}")).with_context(no_filter)?;
    // If standard error is closed, reporting that on standard error would panic the task that logs.
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    match format {
        LogFormat::Json => builder.with_ansi(false).fmt_fields(SpanFields).event_format(Lines::Json).init(),
        LogFormat::Brief => builder.with_ansi(false).event_format(Brief::new(brief)).init(),
        LogFormat::Text => {
            let is_terminal = std::io::stderr().is_terminal();
            builder.with_ansi(is_terminal).fmt_fields(SpanFields).event_format(Lines::Text).init();
        }
    }
    Ok(())
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
