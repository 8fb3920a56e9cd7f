//! The real kube-apiserver of `tests/cluster`, one process for all tests of a run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, anyhow, ensure};
use tempfile::TempDir;

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
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The id of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills it with SIGKILL, as a crash does. Another start with the same `--dir` goes on with what it had.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

/// A real cluster of a test's own, that can be killed.
pub struct OwnCluster {
    directory: TempDir,
    arguments: Vec<&'static str>,
    running: Option<Cluster>,
}

impl OwnCluster {
    /// Starts it, with more arguments of `tests/cluster`.
    pub async fn start(arguments: &[&'static str]) -> anyhow::Result<Self> {
        let mut cluster = Self { directory: tempfile::tempdir()?, arguments: arguments.to_vec(), running: None };
        cluster.restart().await?;
        Ok(cluster)
    }

    /// Kills it and starts it again, where it was, with what it had.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        self.start_again().await
    }

    /// Kills it, keeps a copy of what etcd has, and starts it again.
    pub async fn back_up(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        let backup = self.backup();
        if backup.exists() {
            tokio::fs::remove_dir_all(&backup).await?;
        }
        copy(&self.etcd(), &backup).await?;
        self.start_again().await
    }

    /// Kills it, gives etcd back what it had at the last [`Self::back_up`], and starts it: everything since then has never been.
    pub async fn restore(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        tokio::fs::remove_dir_all(self.etcd()).await?;
        copy(&self.backup(), &self.etcd()).await?;
        self.start_again().await
    }

    fn kill(&mut self) -> anyhow::Result<()> {
        self.running.take().map_or(Ok(()), Cluster::kill)
    }

    async fn start_again(&mut self) -> anyhow::Result<()> {
        let directory = self.directory.path().to_owned();
        let arguments = self.arguments.clone();
        let start = move || {
            let directory = directory.to_str().context("a path in UTF-8")?;
            start(&[&["--dir", directory], &*arguments].concat())
        };
        self.running = Some(tokio::task::spawn_blocking(start).await??);
        Ok(())
    }

    /// Where `tests/cluster` keeps etcd's data.
    fn etcd(&self) -> PathBuf {
        self.directory.path().join("etcd")
    }

    fn backup(&self) -> PathBuf {
        self.directory.path().join("backup")
    }

    /// Kills it and removes what it had.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.kill()?;
        Ok(self.directory.close()?)
    }

    /// The cluster as it runs.
    pub fn running(&self) -> anyhow::Result<&Cluster> {
        self.running.as_ref().context("a cluster that runs")
    }
}

async fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = tokio::process::Command::new("cp").arg("-a").args([from, to]).status().await?;
    ensure!(copied.success(), "cp -a {} {}: {copied}", from.display(), to.display());
    Ok(())
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
