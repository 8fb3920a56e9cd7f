//! The log of a command: its flags, and their defaults.

use std::path::Path;

use clap::Args;

use crate::cli::Command;
use crate::telemetry::brief::BriefOptions;
use crate::telemetry::{self, LogFilter, LogFormat};

/// The flags of the log, shared by all commands.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// The format of the log. Default: text; brief for `dev` in a plugin's folder.
    #[arg(long, global = true, value_enum, env = "WINDLASS_LOG_FORMAT")]
    log_format: Option<LogFormat>,
    /// The least severe level to log (error, warn, info, debug, trace), or a filter such as `windlass_kube=debug,info`.
    /// Default: info; the brief format adds calls and events.
    #[arg(long, global = true, value_parser = telemetry::checked_filter, env = "WINDLASS_LOG")]
    log_level: Option<String>,
}

/// The log of this process, while it runs.
pub(crate) struct LogControl {
    current: LogFilter,
    default: &'static str,
}

impl LogArgs {
    /// Starts the log of `command`.
    pub(crate) fn start(&self, command: &Command) -> anyhow::Result<LogControl> {
        let format = self.log_format.unwrap_or_else(|| command.log_format());
        let default = command.log_filter(format);
        let filter = self.log_level.as_deref().unwrap_or(default);
        let current = telemetry::start(format, filter, command.brief_options(), command.audit_log())?;
        Ok(LogControl { current, default })
    }
}

impl LogControl {
    /// The filter for this level, or the default if there is no level.
    pub(crate) fn filter<'a>(&'a self, level: Option<&'a str>) -> &'a str {
        level.unwrap_or(self.default)
    }

    /// Replaces the filter while the program runs. Sets the filter for `level`, or the default if there is no level,
    /// and returns it.
    pub(crate) fn set<'a>(&'a self, level: Option<&'a str>) -> anyhow::Result<&'a str> {
        let filter = self.filter(level);
        self.current.set(filter)?;
        Ok(filter)
    }
}

impl Command {
    /// The log format without `--log-format`.
    pub(crate) fn log_format(&self) -> LogFormat {
        match self {
            Self::Dev(args) if args.is_in_folder() => LogFormat::Brief,
            _ => LogFormat::Text,
        }
    }

    /// The filter without `--log-level`.
    fn log_filter(&self, format: LogFormat) -> &'static str {
        match (self, format) {
            // A more verbose level would show the log lines that the plugin writes in the replayed calls.
            (Self::Replay(_), _) => "warn",
            // The command itself prints what a host would log about policies.
            (Self::Rbac(_), _) => "warn,windlass_runtime=off",
            (_, LogFormat::Brief) => telemetry::brief::FILTER,
            (_, LogFormat::Text | LogFormat::Json) => "info",
        }
    }

    /// The file of the audit log, if there is one.
    fn audit_log(&self) -> Option<&Path> {
        match self {
            Self::Run(args) => args.audit_log(),
            Self::Dev(args) => args.audit_log(),
            _ => None,
        }
    }

    /// How much the brief log shows, if that is the format.
    fn brief_options(&self) -> BriefOptions {
        match self {
            Self::Dev(args) => args.brief_options(),
            _ => BriefOptions::default(),
        }
    }
}
