//! Starts the real kube-apiserver of `tests/cluster`. All tests of a run share one process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, anyhow, ensure};
use tempfile::TempDir;

use crate::paths;

/// A running cluster. It ends with the process that started it, because its standard input then closes.
pub struct Cluster {
    kubeconfig: PathBuf,
    process: Child,
}

static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();

/// Returns the cluster of this test run. The first caller starts it.
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

    /// Kills the cluster with SIGKILL, as a crash would. Another start with the same `--dir` continues with its data.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

/// A real cluster for one test, which the test may kill.
pub struct OwnCluster {
    directory: TempDir,
    arguments: Vec<&'static str>,
    running: Option<Cluster>,
}

impl OwnCluster {
    /// Starts a cluster, with further arguments for `tests/cluster`.
    pub async fn start(arguments: &[&'static str]) -> anyhow::Result<Self> {
        let mut cluster = Self { directory: tempfile::tempdir()?, arguments: arguments.to_vec(), running: None };
        cluster.restart().await?;
        Ok(cluster)
    }

    /// Kills the cluster, and starts it again with the same addresses and data.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        let directory = self.directory.path().to_owned();
        let arguments = self.arguments.clone();
        let start = move || {
            let directory = directory.to_str().context("a path in UTF-8")?;
            start(&[&["--dir", directory], &*arguments].concat())
        };
        self.running = Some(tokio::task::spawn_blocking(start).await??);
        Ok(())
    }

    /// Kills the cluster, copies etcd's data, and starts the cluster again.
    pub async fn back_up(&mut self) -> anyhow::Result<()> {
        let (etcd, backup) = self.etcd();
        self.kill()?;
        copy(&etcd, &backup)?;
        self.restart().await
    }

    /// Kills the cluster, restores etcd's data from the last backup, and starts the cluster again.
    pub async fn restore(&mut self) -> anyhow::Result<()> {
        let (etcd, backup) = self.etcd();
        self.kill()?;
        std::fs::remove_dir_all(&etcd)?;
        copy(&backup, &etcd)?;
        self.restart().await
    }

    /// The directory of etcd's data, and the directory of the backup.
    fn etcd(&self) -> (PathBuf, PathBuf) {
        (self.directory.path().join("etcd"), self.directory.path().join("backup"))
    }

    fn kill(&mut self) -> anyhow::Result<()> {
        self.running.take().map_or(Ok(()), Cluster::kill)
    }

    /// Kills the cluster and removes its data.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.kill()?;
        Ok(self.directory.close()?)
    }

    /// The running cluster.
    pub fn running(&self) -> anyhow::Result<&Cluster> {
        self.running.as_ref().context("a cluster that runs")
    }
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = Command::new("cp").arg("-a").args([from, to]).status()?;
    ensure!(copied.success(), "cp: {copied}");
    Ok(())
}

/// Starts a separate cluster, with further arguments for `tests/cluster`. Dropping the cluster stops it.
pub fn start(arguments: &[&str]) -> anyhow::Result<Cluster> {
    let binary = paths::cluster()?;
    let mut process = Command::new(&binary)
        .arg("--until-stdin-closes")
        .args(arguments)
        // The process lives for minutes on a machine with enough memory, so less frequent garbage collection saves
        // time.
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
