//! Two replicas of the host. The elder one stays. The other one is killed and replaced again and again.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::process::Command;
use windlass_tests::host::Host;
use windlass_tests::wait::{CONDITION_TIMEOUT, until, until_within};
use windlass_tests::{admin, paths};

use super::form::Form;
use super::versions::{self, PLUGINS, Version};

const KILL: i32 = 9;

/// Metrics of keys in trouble. On every replica, each must be 0 soon after the weather.
const KEYS_IN_TROUBLE: [&str; 3] =
    ["windlass_keys_given_up", "windlass_keys_in_slow_lane", "windlass_workqueue_parked"];

/// The metric that counts held keys that nothing would have run again. It must always be 0.
const LOST_KEYS: &str = "windlass_keys_lost_total";

/// The time limit for the takeover of a version, which includes its compilation and the end of running calls.
const TAKE_OVER_WAIT: Duration = Duration::from_secs(15);

/// The log of a process, which may have ended or still run.
pub(crate) struct Log {
    pub(crate) of: String,
    pub(crate) text: String,
}

/// The replicas, and their files.
pub(crate) struct Fleet {
    arguments: Vec<String>,
    plugins: tempfile::TempDir,
    /// The replica that is never killed, so that its memory can be compared.
    elder: Host,
    mortal: Host,
    started: usize,
    /// The versions still to come.
    versions: VecDeque<(&'static str, Version)>,
    swaps: Swaps,
    ended: Vec<Log>,
}

/// The number of swaps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Swaps {
    pub(crate) all: usize,
    /// The number of swaps to a version whose calls trap.
    pub(crate) bad: usize,
    /// The number of swaps whose version took over while keys of the plugin were held.
    pub(crate) while_held: usize,
    /// The number of keys that were held at all of these swaps.
    pub(crate) keys_held: usize,
}

impl Fleet {
    pub(crate) async fn start(kubeconfig: &Path, namespace: &str, form: &Form) -> anyhow::Result<Self> {
        let plugins = tempfile::tempdir()?;
        for plugin in PLUGINS {
            versions::write(plugin, Version::default(), plugins.path())?;
        }
        let versions = form.versions();
        compile(&versions, kubeconfig).await?;
        let arguments = arguments(kubeconfig, namespace, plugins.path(), form);
        // The elder runs every plugin at first, so that its memory already includes what each plugin needs when it is
        // measured.
        let elder = Host::start_as("elder", &arguments)?;
        elder.says_times("lease won", PLUGINS.len()).await?;
        let mortal = Host::start_as("mortal-1", &arguments)?;
        admin::address(&mortal).await?;
        let (versions, swaps) = (versions.into(), Swaps::default());
        Ok(Self { arguments, plugins, elder, mortal, started: 1, versions, swaps, ended: Vec::new() })
    }

    /// Kills the replica that is not the elder, and starts another one at once.
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

    /// The next plugin to swap.
    pub(crate) fn swapped_next(&self) -> anyhow::Result<&'static str> {
        Ok(self.versions.front().context("a version for each swap")?.0)
    }

    /// Installs the next version while `held` keys of its plugin are held, and waits until it has taken over. Returns
    /// `held`, or 0 if the version has not taken over in time because no replica runs the plugin.
    pub(crate) async fn swap(&mut self, held: usize) -> anyhow::Result<usize> {
        let (plugin, version) = self.versions.pop_front().context("a version for each swap")?;
        let before = self.taken_over();
        versions::write(plugin, version, self.plugins.path())?;
        let taken_over = until_within(TAKE_OVER_WAIT, "it has taken over", || async {
            if self.taken_over() > before { Ok(()) } else { Err(before) }
        });
        let held = if taken_over.await.is_ok() { held } else { 0 };
        self.swaps.all += 1;
        self.swaps.bad += usize::from(version.traps);
        self.swaps.while_held += usize::from(held > 0);
        self.swaps.keys_held += held;
        Ok(held)
    }

    /// The number of takeovers on the replicas that run.
    fn taken_over(&self) -> usize {
        let of = |host: &Host| host.log().matches("a new generation has taken over").count();
        of(&self.elder) + of(&self.mortal)
    }

    /// Checks that a replica runs the controllers of each present plugin, and that no outcome of a write is unknown. A
    /// takeover waits for such writes, and the held keys would be free by then.
    pub(crate) async fn is_at_work(&self) -> anyhow::Result<()> {
        let mut running = BTreeSet::new();
        for host in [&self.elder, &self.mortal] {
            for plugin in plugins_of(admin::address(host).await?).await?["plugins"].as_array().context("a list")? {
                let controllers = plugin["controllers"].as_array().context("controllers")?;
                if controllers.iter().all(|controller| controller["state"] == "running") {
                    running.insert(plugin["name"].as_str().context("a name")?.to_owned());
                }
            }
        }
        ensure!(PLUGINS.iter().all(|plugin| running.contains(*plugin)), "only {running:?} run");
        self.is_zero("windlass_workqueue_settling").await
    }

    /// The number of keys of `plugin` that are held on both replicas.
    pub(crate) async fn held(&self, plugin: &str) -> anyhow::Result<usize> {
        let mut held = 0;
        for host in [&self.elder, &self.mortal] {
            for (series, value) in gauge(host, "windlass_workqueue_parked").await? {
                if series.contains(&format!("plugin=\"{plugin}\"")) {
                    // The metric is written as a fraction.
                    held += value.trim_end_matches(".0").parse::<usize>().with_context(|| value.clone())?;
                }
            }
        }
        Ok(held)
    }

    /// The elder's memory, in KiB.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        let id = self.elder.id().context("the elder runs")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Ok(line.context("the elder has no memory: it has ended")?.trim().trim_end_matches(" kB").parse()?)
    }

    /// Waits until no key is given up, in the slow lane or held. Checks that no key was lost, and that no version was
    /// rolled back or rejected, according to both replicas.
    pub(crate) async fn is_healthy(&self) -> anyhow::Result<()> {
        for name in KEYS_IN_TROUBLE {
            until(&format!("{name} is 0 on both replicas"), || self.is_zero(name)).await?;
        }
        self.is_zero(LOST_KEYS).await?;
        for host in [&self.elder, &self.mortal] {
            for plugin in plugins_of(admin::address(host).await?).await?["plugins"].as_array().context("a list")? {
                ensure!(plugin["rejected"].is_null() && plugin["notTaken"].is_null(), "{plugin}");
            }
        }
        Ok(())
    }

    /// Checks that a metric is 0 on both replicas. A replica that runs no plugin may not report it, but one of the two
    /// must.
    async fn is_zero(&self, name: &str) -> anyhow::Result<()> {
        let mut reported = 0;
        for host in [&self.elder, &self.mortal] {
            let all = gauge(host, name).await?;
            reported += all.len();
            let bad: Vec<_> = all.iter().filter(|(_, value)| value.parse() != Ok(0.0)).collect();
            if !bad.is_empty() {
                anyhow::bail!("{bad:?}: {}", plugins_of(admin::address(host).await?).await?);
            }
        }
        ensure!(reported > 0, "no replica reports {name}");
        Ok(())
    }

    pub(crate) fn kills(&self) -> usize {
        self.started - 1
    }

    pub(crate) fn swaps(&self) -> Swaps {
        self.swaps
    }

    /// The whole log so far.
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
        // Allow many writes, because the test is not about the rate limiter.
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

/// The series of a metric that `host` reports, and their values.
async fn gauge(host: &Host, name: &str) -> anyhow::Result<Vec<(String, String)>> {
    let metrics = admin::get(admin::address(host).await?, "/metrics").await?.1;
    let series =
        metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name} ")));
    Ok(series
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(series, value)| (series.to_owned(), value.to_owned()))
        .collect())
}

/// Compiles the versions in advance, into the hosts' cache. Otherwise the watches would no longer lag when a swap takes
/// place.
async fn compile(versions: &[(&'static str, Version)], kubeconfig: &Path) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    for (plugin, version) in versions {
        versions::write(plugin, *version, directory.path())?;
        let mut inspect = Command::new(paths::windlass()?);
        inspect.env("WINDLASS_CACHE_DIR", paths::cache()?).arg("inspect").arg("--kubeconfig").arg(kubeconfig);
        let inspected = inspect.arg(directory.path().join(format!("{plugin}.wasm"))).output();
        let inspected =
            tokio::time::timeout(CONDITION_TIMEOUT, inspected).await.context("windlass inspect takes too long")??;
        // The plugin has no policy and so lacks rights: exit code 1.
        let is_loaded = matches!(inspected.status.code(), Some(0 | 1));
        ensure!(is_loaded, "{plugin}, {version:?}: {}", String::from_utf8_lossy(&inspected.stderr));
    }
    Ok(())
}
