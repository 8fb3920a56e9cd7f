//! Two replicas of the host: one that stays, the elder, and one that is killed again and again and always replaced.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use windlass_tests::host::Host;
use windlass_tests::{admin, delivery, paths};

use super::form::Form;

pub(crate) const PLUGINS: [&str; 2] = ["webapp", "replicaset"];
const KILL: i32 = 9;

/// The log of a process that has ended, or of one that runs.
pub(crate) struct Log {
    pub(crate) of: String,
    pub(crate) text: String,
}

/// The replicas, and the files that they run.
pub(crate) struct Fleet {
    arguments: Vec<String>,
    plugins: tempfile::TempDir,
    /// Never killed: whose memory is compared.
    elder: Host,
    mortal: Host,
    started: usize,
    swaps: u8,
    ended: Vec<Log>,
}

impl Fleet {
    pub(crate) async fn start(kubeconfig: &Path, namespace: &str, form: &Form) -> anyhow::Result<Self> {
        let plugins = tempfile::tempdir()?;
        for plugin in PLUGINS {
            write_version(plugin, 0, plugins.path())?;
        }
        let arguments = arguments(kubeconfig, namespace, plugins.path(), form);
        // First it runs everything, so that what it needs for each plugin is in its memory when that is looked at.
        let elder = Host::start_as("elder", &arguments)?;
        elder.says_times("lease won", PLUGINS.len()).await?;
        let mortal = Host::start_as("mortal-1", &arguments)?;
        admin::address(&mortal).await?;
        Ok(Self { arguments, plugins, elder, mortal, started: 1, swaps: 0, ended: Vec::new() })
    }

    /// Kills the one that is not the elder, and starts another at once.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        self.mortal.signal("KILL").await?;
        let status = self.mortal.ends().await?;
        let of = format!("mortal-{}", self.started);
        ensure!(status.signal() == Some(KILL), "{of} ended before it was killed: {status}:\n{}", self.mortal.log());
        self.ended.push(Log { of, text: self.mortal.log() });
        self.started += 1;
        self.mortal = Host::start_as(&format!("mortal-{}", self.started), &self.arguments)?;
        Ok(())
    }

    /// Another version of one plugin takes the place of the one that runs.
    pub(crate) fn swap(&mut self) -> anyhow::Result<()> {
        let plugin = PLUGINS[usize::from(self.swaps) % PLUGINS.len()];
        self.swaps += 1;
        write_version(plugin, self.swaps.div_ceil(2) % 2, self.plugins.path())
    }

    /// How much memory the elder has, in KiB.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        let id = self.elder.id().context("the elder runs")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Ok(line.context("the elder has no memory: it has ended")?.trim().trim_end_matches(" kB").parse()?)
    }

    /// No key is given up or in the slow lane, and no version was rolled back or not taken, as both replicas tell.
    pub(crate) async fn is_healthy(&self) -> anyhow::Result<()> {
        for host in [&self.elder, &self.mortal] {
            let address = admin::address(host).await?;
            let metrics = admin::get(address, "/metrics").await?.1;
            for name in ["windlass_keys_given_up", "windlass_keys_in_slow_lane"] {
                let lines = metrics.lines().filter(|line| line.starts_with(name));
                let bad: Vec<_> = lines.filter(|line| !line.ends_with(" 0")).collect();
                ensure!(bad.is_empty(), "{bad:?}: {}", plugins_of(address).await?);
            }
            for plugin in plugins_of(address).await?["plugins"].as_array().context("a list")? {
                ensure!(plugin["rejected"].is_null() && plugin["notTaken"].is_null(), "{plugin}");
            }
        }
        Ok(())
    }

    pub(crate) fn kills(&self) -> usize {
        self.started - 1
    }

    pub(crate) fn swaps(&self) -> u8 {
        self.swaps
    }

    /// All that was logged so far.
    pub(crate) fn logs(&self) -> Vec<Log> {
        let ended = self.ended.iter().map(|log| Log { of: log.of.clone(), text: log.text.clone() });
        let running = [("elder".to_owned(), &self.elder), (format!("mortal-{}", self.started), &self.mortal)];
        ended.chain(running.into_iter().map(|(of, host)| Log { of, text: host.log() })).collect()
    }

    /// Stops both, cleanly.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        for mut host in [self.mortal, self.elder] {
            host.signal("TERM").await?;
            let status = host.ends().await?;
            ensure!(status.success(), "SIGTERM must stop a replica cleanly: {status}:\n{}", host.log());
        }
        Ok(())
    }
}

async fn plugins_of(address: SocketAddr) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&admin::get(address, "/plugins").await?.1)?)
}

fn arguments(kubeconfig: &Path, namespace: &str, plugins: &Path, form: &Form) -> Vec<String> {
    let milliseconds = |time: std::time::Duration| format!("{}ms", time.as_millis());
    vec![
        "run".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--namespace={namespace}"),
        format!("--plugins={}", plugins.display()),
        "--grants=manifest".to_owned(),
        "--log-format=json".to_owned(),
        "--admin-address=127.0.0.1:0".to_owned(),
        // What is measured is the weather, not the throttle.
        "--writes-per-second=1000".to_owned(),
        "--writes-burst=1000".to_owned(),
        "--leases=shards".to_owned(),
        format!("--lease-namespace={namespace}"),
        "--instance=weather".to_owned(),
        format!("--lease-duration={}", milliseconds(form.lease)),
        format!("--lease-renew-deadline={}", milliseconds(form.renew)),
        format!("--lease-retry-period={}", milliseconds(form.retry)),
        format!("--lease-stability={}", milliseconds(form.stability)),
    ]
}

/// Writes a version of a plugin: the same code, with a custom section that makes it another file. Atomically, so that nobody
/// sees half of it.
fn write_version(plugin: &str, version: u8, plugins: &Path) -> anyhow::Result<()> {
    const NAME: &[u8; 7] = b"version";
    let file = format!("{plugin}.wasm");
    let mut bytes = std::fs::read(paths::plugins()?.join(&file))?;
    if version > 0 {
        // A section's kind, its size, and the length of its name.
        bytes.extend([0, 9, 7]);
        bytes.extend(NAME);
        bytes.push(version);
    }
    delivery::replace(&plugins.join(file), |next| Ok(std::fs::write(next, bytes)?))
}
