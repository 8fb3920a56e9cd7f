//! The host as a process, seen from outside: what it uses, what it says, what it shows.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use windlass_tests::admin;
use windlass_tests::host::Host;
use windlass_tests::process::{Memory, Process};
use windlass_tests::server::Server;

/// A line of the host's log takes no longer.
const LOG_LINE_TIMEOUT: Duration = Duration::from_mins(10);

/// A running host with an admin endpoint, whose every line of log is timed.
pub(crate) struct Watched {
    pub(crate) host: Host,
    pub(crate) address: SocketAddr,
    heard: UnboundedReceiver<(Instant, String)>,
}

impl Watched {
    /// Starts `windlass run` on `plugins`, in the namespace of `server`.
    pub(crate) async fn start(server: &Server, plugins: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let mut arguments: Vec<OsString> = vec!["run".into(), "--kubeconfig".into(), server.kubeconfig().into()];
        arguments.extend(["--namespace".into(), server.objects().namespace().into()]);
        arguments.extend(["--plugins".into(), plugins.into()]);
        let ours = ["--grants=manifest", "--leases=none", "--admin-address=127.0.0.1:0"];
        arguments.extend(ours.iter().chain(more).map(OsString::from));
        let (tell, heard) = unbounded_channel();
        // Whoever listens may have heard enough.
        let listener = Box::new(move |line: &str| drop(tell.send((Instant::now(), line.to_owned()))));
        let host = Host::start(&arguments, Some(listener))?;
        let address = admin::address(&host).await?;
        Ok(Self { host, address, heard })
    }

    /// The same with so many `controllers`, once all of them are at work, and how long that took.
    pub(crate) async fn with_controllers(
        server: &Server,
        plugins: &Path,
        controllers: usize,
        more: &[&str],
    ) -> anyhow::Result<(Self, Duration)> {
        let began = Instant::now();
        let mut host = Self::start(server, plugins, more).await?;
        let mut last = began;
        for _ in 0..controllers {
            last = host.hears(|line| line.contains("controller started")).await?;
        }
        Ok((host, last - began))
    }

    /// When the host says, from now on, what `is_it`.
    pub(crate) async fn hears(&mut self, is_it: impl Fn(&str) -> bool) -> anyhow::Result<Instant> {
        Ok(self.hears_line(is_it).await?.0)
    }

    /// The same, with the line.
    pub(crate) async fn hears_line(&mut self, is_it: impl Fn(&str) -> bool) -> anyhow::Result<(Instant, String)> {
        let listening = async {
            loop {
                let (at, line) = self.heard.recv().await.context("the host has ended")?;
                if is_it(&line) {
                    return Ok((at, line));
                }
            }
        };
        let heard = tokio::time::timeout(LOG_LINE_TIMEOUT, listening).await.context("the host does not say it");
        heard.and_then(|heard| heard).with_context(|| format!("it said last:\n{}", tail(&self.host.log())))
    }

    /// The lines that it has logged since it was last asked.
    pub(crate) fn heard(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.heard.try_recv().ok()).map(|(_, line)| line).collect()
    }

    /// The value of the metric `name` in `/metrics`: the sum of all series whose labels contain the text `with`.
    pub(crate) async fn metric(&self, name: &str, with: &str) -> anyhow::Result<f64> {
        let (status, text) = admin::get(self.address, "/metrics").await?;
        ensure!(status == 200, "{status}");
        let series = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once("} "));
        let values = series.filter(|(labels, _)| labels.contains(with)).map(|(_, value)| value.parse::<f64>());
        let values: Vec<_> = values.collect::<Result<_, _>>().with_context(|| format!("{name} is a number"))?;
        ensure!(!values.is_empty(), "no {name} with {with} in:\n{text}");
        Ok(values.iter().sum())
    }

    /// The processor time that it has used.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        self.process()?.cpu()
    }

    /// Its share of the machine's memory, once that no longer changes.
    pub(crate) async fn memory(&self) -> anyhow::Result<Memory> {
        let mut last = self.process()?.memory()?;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.process()?.memory()?;
            if now.proportional.abs_diff(last.proportional) < 1 << 18 {
                return Ok(now);
            }
            last = now;
        }
    }

    /// Its process.
    pub(crate) fn process(&self) -> anyhow::Result<Process> {
        Ok(Process(self.host.id().context("the host still runs")?))
    }

    /// Ends it.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        let log = self.host.log();
        ensure!(self.host.terminate().await?.success(), "it ended badly:\n{}", tail(&log));
        Ok(())
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
