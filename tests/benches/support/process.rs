//! The host as a process, seen from outside: its resources, its log and its metrics.

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

/// The longest time until an expected line appears in the host's log.
const LOG_LINE_TIMEOUT: Duration = Duration::from_mins(10);

/// A running host with an admin endpoint. Each line of its log has a time.
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
        let (sender, heard) = unbounded_channel();
        // This fails only if nothing listens any more.
        let listener = Box::new(move |line: &str| drop(sender.send((Instant::now(), line.to_owned()))));
        let host = Host::start(&arguments, Some(listener))?;
        let address = admin::address(&host).await?;
        Ok(Self { host, address, heard })
    }

    /// Starts the host, waits until this number of `controllers` runs, and returns the time that this took.
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

    /// Waits for the next log line for which `is_it` is true, and returns its time.
    pub(crate) async fn hears(&mut self, is_it: impl Fn(&str) -> bool) -> anyhow::Result<Instant> {
        Ok(self.hears_line(is_it).await?.0)
    }

    /// Like [`Watched::hears`], but also returns the line.
    pub(crate) async fn hears_line(&mut self, is_it: impl Fn(&str) -> bool) -> anyhow::Result<(Instant, String)> {
        let listening = async {
            loop {
                let (at, line) = self.heard.recv().await.context("the host has ended")?;
                if is_it(&line) {
                    return Ok((at, line));
                }
            }
        };
        let heard =
            tokio::time::timeout(LOG_LINE_TIMEOUT, listening).await.context("the expected log line does not appear");
        heard.and_then(|heard| heard).with_context(|| format!("its last log lines:\n{}", tail(&self.host.log())))
    }

    /// The log lines since the last request for lines.
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

    /// The processor time that the host has used.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        self.process()?.cpu()
    }

    /// The host's share of the machine's memory, when it no longer changes.
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
        ensure!(self.host.terminate().await?.success(), "the host ended with an error:\n{}", tail(&log));
        Ok(())
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
