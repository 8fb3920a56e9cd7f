//! `--record DIR` of `windlass run`: which calls are recorded, and where.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use windlass_record::{RecordOptions, Recordings};

use crate::cli::flags::size::ByteSize;

/// Which calls are recorded.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Record calls of plugins below this directory, for `windlass replay`: each call's request, its imports with their
    /// answers, and how it ended. Values of Secrets are redacted, everything else is recorded: see
    /// docs/operating/watching.md. Default: not recorded.
    #[arg(long, value_name = "DIR", env = "WINDLASS_RECORD")]
    record: Option<PathBuf>,
    /// The share of calls that is recorded, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share, requires = "record")]
    record_sample: f64,
    /// The disk space for the recording of one plugin. The oldest calls are deleted.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(256 << 20), requires = "record")]
    record_limit: ByteSize,
    /// A JSON pointer of further values to redact, in objects, configurations and HTTP bodies, such as /spec/password
    /// or /spec/env/*/value; repeatable.
    #[arg(long, value_name = "POINTER", value_parser = pointer, requires = "record")]
    record_redact: Vec<String>,
}

impl RecordArgs {
    /// Starts to record, if requested.
    pub(crate) fn start(self) -> anyhow::Result<Option<Recordings>> {
        let Some(directory) = self.record else { return Ok(None) };
        let (sample, limit) = (self.record_sample, self.record_limit.0 as u64);
        tracing::info!(directory = %directory.display(), sample, limit, "calls are recorded");
        let options = RecordOptions { directory, sample, limit, redact: self.record_redact };
        let started = Recordings::start(options, env!("CARGO_PKG_VERSION"));
        started.map(Some).context("cannot start the thread that records")
    }
}

/// A number from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share is a number from 0 to 1, such as 0.01".to_owned())
}

fn pointer(text: &str) -> Result<String, String> {
    if text.len() > 1 && text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("a JSON pointer begins with /, such as /spec/password".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::Cli;

    #[test]
    fn an_impossible_recording_is_refused_with_an_example() {
        let parsed = |more: &[&str]| {
            let line = ["windlass", "run", "--plugins", "p"].iter().chain(more);
            Cli::try_parse_from(line).map(drop).map_err(|error| error.to_string())
        };
        let of_record = ["--record", "d"];
        for (flag, value, words) in [
            ("--record-sample", "1.5", "from 0 to 1"),
            ("--record-sample", "NaN", "from 0 to 1"),
            ("--record-limit", "256MB", "512Mi"),
            ("--record-redact", "spec.password", "/spec/password"),
        ] {
            let error = parsed(&[&of_record[..], &[flag, value]].concat()).expect_err(value);
            assert!(error.contains(words), "{error}");
        }
        assert!(parsed(&["--record-sample", "1"]).is_err_and(|error| error.contains("--record <DIR>")));
        let all = ["--record-sample", "0.01", "--record-limit", "64Mi", "--record-redact", "/spec/a/*/b"];
        assert_eq!(parsed(&[&of_record[..], &all].concat()), Ok(()));
    }
}
