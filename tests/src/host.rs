//! Runs the host as users do: as a process of the `windlass` binary.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::{paths, wait};

/// A running `windlass`. Dropping it kills the process.
pub struct Host {
    process: Child,
    lines: Arc<Mutex<Vec<String>>>,
    /// The task that reads the log. `None` once the whole log was read.
    reader: Option<JoinHandle<()>>,
}

/// Called with each line that the host logs.
pub type Listener = Box<dyn Fn(&str) + Send>;

impl Host {
    /// Starts `windlass run` on `plugins` for one namespace of the server behind `kubeconfig`. Each plugin is granted
    /// the access that its manifest asks for.
    pub fn run(kubeconfig: &Path, namespace: &str, plugins: &Path) -> anyhow::Result<Self> {
        Self::run_with(kubeconfig, namespace, plugins, &["--grants=manifest", "--leases=none"])
    }

    /// Like [`Self::run`], but with `more` as the arguments for grants and leases. If `more` is empty, each plugin
    /// needs a policy, and the host uses leases.
    pub fn run_with(kubeconfig: &Path, namespace: &str, plugins: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let arguments: [&OsStr; 7] = [
            "run".as_ref(),
            "--kubeconfig".as_ref(),
            kubeconfig.as_ref(),
            "--namespace".as_ref(),
            namespace.as_ref(),
            "--plugins".as_ref(),
            plugins.as_ref(),
        ];
        let more = more.iter().map(|argument| OsStr::new(*argument));
        Self::start(&arguments.into_iter().chain(more).collect::<Vec<_>>(), None)
    }

    /// Starts `windlass ARGUMENTS`.
    pub fn start<S: AsRef<OsStr>>(arguments: &[S], listener: Option<Listener>) -> anyhow::Result<Self> {
        Self::start_with::<S, &str>(arguments, &[], listener)
    }

    /// Starts `windlass ARGUMENTS` with an address space of at most `gib` GiB, as `ulimit -v` does.
    pub fn start_within<S: AsRef<OsStr>>(gib: u32, arguments: &[S]) -> anyhow::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!(r#"ulimit -v {}; exec "$0" "$@""#, u64::from(gib) << 20)]).arg(paths::windlass()?);
        Self::spawn::<S, &str>(shell, arguments, &[], None)
    }

    /// Starts `windlass ARGUMENTS` as the Pod `name`. The host's leases and User-Agent then contain this name.
    pub fn start_as<S: AsRef<OsStr>>(name: &str, arguments: &[S]) -> anyhow::Result<Self> {
        Self::start_with(arguments, &[("POD_NAME", name)], None)
    }

    /// Starts `windlass ARGUMENTS` with additional environment variables.
    pub fn start_with<S: AsRef<OsStr>, V: AsRef<OsStr>>(
        arguments: &[S],
        environment: &[(&str, V)],
        listener: Option<Listener>,
    ) -> anyhow::Result<Self> {
        Self::spawn(Command::new(paths::windlass()?), arguments, environment, listener)
    }

    /// Starts `BINARY ARGUMENTS` with additional environment variables. The binary may be another version of windlass.
    pub fn start_binary<S: AsRef<OsStr>, V: AsRef<OsStr>>(
        binary: &Path,
        arguments: &[S],
        environment: &[(&str, V)],
    ) -> anyhow::Result<Self> {
        Self::spawn(Command::new(binary), arguments, environment, None)
    }

    fn spawn<S: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut command: Command,
        arguments: &[S],
        environment: &[(&str, V)],
        listener: Option<Listener>,
    ) -> anyhow::Result<Self> {
        let mut process = command
            .args(arguments)
            // Leave the developer's own cache alone. All stories share this cache.
            .env("WINDLASS_CACHE_DIR", paths::cache()?)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(paths::root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let errors = process.stderr.take().context("standard error is piped")?;
        let reader = Some(tokio::spawn(read(errors, lines.clone(), listener)));
        Ok(Self { process, lines, reader })
    }

    /// The whole log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }

    /// Waits for a log line with `text` in it.
    pub async fn says(&self, text: &str) -> anyhow::Result<String> {
        self.says_one_of(&[text]).await
    }

    /// Waits for a log line that contains one of `texts`, for example when either of two limits may be reached first.
    pub async fn says_one_of(&self, texts: &[&str]) -> anyhow::Result<String> {
        self.says_within(wait::CONDITION_TIMEOUT, texts).await
    }

    /// Like [`Self::says_one_of`], with another time limit.
    pub async fn says_within(&self, patience: Duration, texts: &[&str]) -> anyhow::Result<String> {
        let found = || {
            let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.iter().find(|line| texts.iter().any(|text| line.contains(text))).cloned()
        };
        let waited =
            wait::until_within(patience, &texts.join(" or "), || async { found().ok_or("no such line") }).await;
        waited.with_context(|| format!("the host logged:\n{}", self.log()))
    }

    /// Waits until the log contains `text` at least `times` times.
    pub async fn says_times(&self, text: &str, times: usize) -> anyhow::Result<()> {
        let often = || self.log().matches(text).count();
        let what = format!("{text}, {times} times");
        let waited = wait::until(&what, || async { if often() >= times { Ok(()) } else { Err(often()) } }).await;
        waited.with_context(|| format!("the host logged:\n{}", self.log()))
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub async fn terminate(mut self) -> anyhow::Result<ExitStatus> {
        self.signal("TERM").await?;
        self.ends().await
    }

    /// Kills the process with SIGKILL, as a crash does, and waits until it is gone.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.process.kill().await?)
    }

    /// Sends a signal, such as `TERM`.
    pub async fn signal(&self, name: &str) -> anyhow::Result<()> {
        let id = self.process.id().context("the host still runs")?;
        let sent = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status().await?;
        if !sent.success() {
            bail!("kill -{name} {id}: {sent}");
        }
        Ok(())
    }

    /// Waits without a time limit until the process has ended and its whole log was read.
    pub async fn ends_at_last(&mut self) -> anyhow::Result<ExitStatus> {
        let status = self.process.wait().await?;
        self.drain_log().await?;
        Ok(status)
    }

    /// Waits until the process has ended by itself and its whole log was read, within a time limit.
    pub async fn ends(&mut self) -> anyhow::Result<ExitStatus> {
        let ended = tokio::time::timeout(wait::CONDITION_TIMEOUT, self.process.wait()).await;
        let status = ended.with_context(|| format!("the host has not ended in time; its log:\n{}", self.log()))??;
        self.drain_log().await?;
        Ok(status)
    }

    /// Waits until the whole log was read, which may be after the process has ended. The log ends only when every
    /// process that holds the host's standard error has ended. The host passes it on to no other process, so a log that
    /// does not end is an error.
    async fn drain_log(&mut self) -> anyhow::Result<()> {
        if let Some(reader) = &mut self.reader {
            let read = tokio::time::timeout(wait::CONDITION_TIMEOUT, reader).await;
            let held = "the host has ended, but another process holds its standard error";
            read.with_context(|| format!("{held}; it logged:\n{}", self.log()))??;
            self.reader = None;
        }
        Ok(())
    }
}

async fn read(errors: impl AsyncRead + Unpin, lines: Arc<Mutex<Vec<String>>>, listener: Option<Listener>) {
    let mut reader = BufReader::new(errors).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        if let Some(listener) = &listener {
            listener(&line);
        }
        lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}
