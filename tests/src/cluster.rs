//! The real kube-apiserver of `tests/cluster`, one process for all tests of a run.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, anyhow};

use crate::paths;

/// A running cluster. It ends with the process that started it: its standard input closes then.
pub struct Cluster {
    kubeconfig: PathBuf,
    process: Child,
}

static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();

/// The cluster of this test run, started by whoever asks first.
pub fn shared() -> anyhow::Result<&'static Cluster> {
    SHARED.get_or_init(|| start(&[]).map_err(|error| format!("{error:#}"))).as_ref().map_err(|error| anyhow!("{error}"))
}

impl Cluster {
    /// A kubeconfig with all rights.
    #[must_use]
    pub fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    /// Kills it with SIGKILL, as a crash does. Another start with the same `--dir` goes on with what it had.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

/// A cluster of its own, with more arguments of `tests/cluster`. Dropping it stops it.
pub fn start(arguments: &[&str]) -> anyhow::Result<Cluster> {
    let binary = paths::cluster()?;
    let mut process = Command::new(&binary)
        .arg("--until-stdin-closes")
        .args(arguments)
        // It lives for minutes on a machine with memory to spare: collecting garbage less often costs less.
        .env("GOGC", "400")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {}", binary.display()))?;
    let output = process.stdout.take().context("standard output is piped")?;
    for line in BufReader::new(output).lines() {
        if let Some(path) = line?.strip_prefix("KUBECONFIG=") {
            return Ok(Cluster { kubeconfig: path.into(), process });
        }
    }
    Err(anyhow!("{} ended before it was ready: {}", binary.display(), process.wait()?))
}
