//! Runs replicas of two host versions side by side, as during an upgrade, with one API server, one plugin directory and
//! one cache directory. `make soak STORIES=skew` runs this with a host of another commit, and `make test` with the same
//! host twice.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::TempDir;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;
use windlass_tests::{admin, paths};

use crate::admin::plugin;
use crate::swap_judged::{object, put};
use crate::webapp::plugin_directory;

/// One lease for all plugins, so that it is not rebalanced. It is long enough for a busy machine's delays, but expires
/// soon after a crash.
const FLAGS: [&str; 8] = [
    "--grants=manifest",
    "--leases=single",
    "--lease-duration=9s",
    "--lease-renew-deadline=6s",
    "--lease-retry-period=500ms",
    "--lease-stability=2s",
    "--admin-address",
    "127.0.0.1:0",
];
const ALL: &str = "windlass-main-all";
const REJECTED: &str = "windlass-main-rejected";

/// A version of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Built from the other commit.
    Old,
    /// Built from this commit.
    New,
}

use Version::{New, Old};

impl Version {
    fn binary(self) -> anyhow::Result<PathBuf> {
        match self {
            Old => paths::other_windlass(),
            New => paths::windlass(),
        }
    }

    fn other(self) -> Self {
        match self {
            Old => New,
            New => Old,
        }
    }
}

/// The server and the directories that all replicas share.
struct Shared {
    server: Server,
    plugins: TempDir,
    cache: TempDir,
    /// The number of replicas started so far.
    started: u32,
}

struct Replica {
    version: Version,
    /// The name of its Pod.
    name: String,
    host: Host,
}

impl Shared {
    async fn new(kind: Kind, plugins: TempDir) -> anyhow::Result<Self> {
        let (server, cache) = (Server::start(kind).await?, tempfile::tempdir()?);
        server.install_webapp().await?;
        Ok(Self { server, plugins, cache, started: 0 })
    }

    /// Starts a replica, and waits until it has all plugins and the other replicas know it.
    async fn start(&mut self, version: Version) -> anyhow::Result<Replica> {
        self.started += 1;
        let name = format!("{version:?}-{}", self.started).to_lowercase();
        let [kubeconfig, plugins, cache] = [self.server.kubeconfig(), self.plugins.path(), self.cache.path()]
            .map(|it| it.to_string_lossy().into_owned());
        let namespace = self.server.objects().namespace();
        let mut arguments = vec!["run", "--kubeconfig", &kubeconfig, "--namespace", namespace, "--plugins", &plugins];
        arguments.extend(["--cache-dir", &cache]);
        arguments.extend(FLAGS);
        let host = Host::start_binary(&version.binary()?, &arguments, &[("POD_NAME", &name)])?;
        let replica = Replica { version, name, host };
        until("it is a member", || async {
            let members = self.leases("member").await?;
            let is_there = members.iter().any(|it| replica.is(&it["spec"]["holderIdentity"]));
            ensure!(is_there, "{}\n{members:?}", replica.host.log());
            Ok(())
        })
        .await?;
        Ok(replica)
    }

    async fn leases(&self, kind: &str) -> anyhow::Result<Vec<Value>> {
        self.server.objects().list("Lease", &format!("windlass.dev/lease={kind}")).await
    }

    /// Waits until `replica` holds the lease of all plugins; returns how long that took.
    async fn held_by(&self, replica: &Replica) -> anyhow::Result<Duration> {
        let since = Instant::now();
        until(&format!("{} holds the lease", replica.name), || async {
            let lease = self.server.objects().get("Lease", ALL).await?.context("no lease")?;
            ensure!(replica.is(&lease["spec"]["holderIdentity"]), "{lease}\n{}", replica.host.log());
            Ok(())
        })
        .await?;
        Ok(since.elapsed())
    }
}

impl Replica {
    /// Whether `holder` is this replica. A replica's name is its Pod's name plus a random suffix.
    fn is(&self, holder: &Value) -> bool {
        holder.as_str().and_then(|it| it.strip_prefix(&self.name)).is_some_and(|rest| rest.starts_with('-'))
    }

    /// Checks that the replica logged no error and found no unusable file in the cache.
    fn is_content(&self) -> anyhow::Result<()> {
        let log = self.host.log();
        let bad = log.lines().find(|line| line.contains("ERROR") || line.contains("in the cache is not used"));
        ensure!(bad.is_none(), "{} says: {bad:?}", self.name);
        Ok(())
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.is_content()?;
        let (name, status) = (self.name.clone(), self.host.terminate().await?);
        ensure!(status.success(), "{name} ends with {status}");
        Ok(())
    }
}

/// The servers to test. Without another version, one server is enough.
fn kinds() -> Vec<Kind> {
    if std::env::var_os("WINDLASS_SKEW_BIN").is_some() {
        vec![Kind::Embedded, Kind::Real]
    } else {
        vec![Kind::Embedded]
    }
}

/// The holder crashes, and the other version takes over. Then the same happens with the roles swapped.
async fn failover(kind: Kind) -> anyhow::Result<()> {
    let mut shared = Shared::new(kind, plugin_directory()?).await?;
    let mut holder = shared.start(Old).await?;
    shared.held_by(&holder).await?;
    begin_story(&shared).await?;
    for turn in [Old, New] {
        ensure!(holder.version == turn, "{} is the holder", holder.name);
        let standby = shared.start(turn.other()).await?;
        shared.held_by(&holder).await?;
        holder.is_content()?;
        holder.host.kill().await?;
        let took = shared.held_by(&standby).await?.as_secs_f64();
        let healed = Story::new(shared.server.objects()).delete_deployment().await?.took.as_secs_f64();
        let to = turn.other();
        println!("figures: {kind:?}: {to:?} took over {took:.1} s after {turn:?} crashed, and healed in {healed:.1} s");
        holder = standby;
    }
    Story::new(shared.server.objects()).delete().await?;
    holder.stop().await
}

/// Scales the `WebApp` to four replicas, which the later steps need.
async fn begin_story(shared: &Shared) -> anyhow::Result<()> {
    let story = Story::new(shared.server.objects());
    for step in [story.create().await?, story.run().await?, story.scale().await?] {
        println!("{}", step.line);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_version_takes_over_from_the_other_when_it_crashes() -> anyhow::Result<()> {
    for kind in kinds() {
        failover(kind).await?;
    }
    Ok(())
}

/// The rolled-back plugin, as `replica` shows it.
async fn shown(replica: &Replica) -> anyhow::Result<Value> {
    plugin(admin::address(&replica.host).await?, "chameleon").await
}

/// Waits until `replica` shows the file with the digest `bad` as rolled back, or no such file.
async fn knows(replica: &Replica, bad: &Value) -> anyhow::Result<()> {
    until(&format!("{} knows {bad}", replica.name), || async {
        let shown = shown(replica).await?;
        ensure!(shown["rejected"]["digest"] == *bad, "{shown}\n{}", replica.host.log());
        Ok(())
    })
    .await
}

/// A replica of the version `first` rolls a file back. The other version knows that, even when it takes over, and the
/// first version still knows it after a restart. When a new file comes, the other version clears the rollback for both.
async fn rollback(first: Version) -> anyhow::Result<()> {
    let plugins = tempfile::tempdir()?;
    put("steady-0", plugins.path())?;
    let mut shared = Shared::new(Kind::Embedded, plugins).await?;
    for number in 0..8 {
        shared.server.objects().apply(&object(&format!("key-{number}"))).await?;
    }
    let holder = shared.start(first).await?;
    shared.held_by(&holder).await?;
    holder.host.says("steady end key-7 0").await?;
    let standby = shared.start(first.other()).await?;
    let good = shown(&holder).await?["digest"].clone();
    put("steady-1-traps", shared.plugins.path())?;
    let bad = until("it is rolled back", || async {
        let shown = shown(&holder).await?;
        ensure!(shown["rejected"]["digest"].is_string() && shown["digest"] == good, "{shown}");
        Ok::<_, anyhow::Error>(shown["rejected"]["digest"].clone())
    })
    .await?;
    knows(&standby, &bad).await?;
    holder.host.kill().await?;
    shared.held_by(&standby).await?;
    standby.host.says("steady end key-7 0").await?;
    let taken = shown(&standby).await?;
    ensure!(taken["digest"] == good, "it runs what was rolled back: {taken}");
    let again = shared.start(first).await?;
    knows(&again, &bad).await?;

    put("steady-2", shared.plugins.path())?;
    standby.host.says("steady end key-7 2").await?;
    until("nobody is told of it any more", || async {
        let lease = shared.server.objects().get("Lease", REJECTED).await?.unwrap_or_default();
        let note = &lease["metadata"]["annotations"]["rejected.windlass.dev/chameleon"];
        ensure!(note.is_null(), "{lease}");
        Ok(())
    })
    .await?;
    for replica in [&standby, &again] {
        knows(replica, &Value::Null).await?;
    }
    println!("figures: rolled back by {first:?}, and known to {:?}, which forgot it for both", first.other());
    again.host.terminate().await?;
    standby.host.terminate().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_rolled_back_by_one_host_version_is_not_run_by_the_other() -> anyhow::Result<()> {
    for first in [Old, New] {
        rollback(first).await?;
    }
    Ok(())
}

/// Replaces two replicas one by one, as a Deployment does, and then back again. After each step the `WebApp` converges.
async fn rolling_upgrade(kind: Kind) -> anyhow::Result<()> {
    let mut shared = Shared::new(kind, plugin_directory()?).await?;
    let mut fleet = VecDeque::from([shared.start(Old).await?, shared.start(Old).await?]);
    begin_story(&shared).await?;
    for to in [New, Old] {
        let mut slowest = Duration::ZERO;
        for _ in 0..fleet.len() {
            fleet.push_back(shared.start(to).await?);
            let goes = fleet.pop_front().context("a replica")?;
            goes.stop().await?;
            let story = Story::new(shared.server.objects());
            for step in [story.delete_deployment().await?, story.edit_service().await?] {
                slowest = slowest.max(step.took);
            }
            one_manager(&shared).await?;
        }
        ensure!(fleet.iter().all(|replica| replica.version == to), "all are of one version");
        let slowest = slowest.as_secs_f64();
        println!(
            "figures: {kind:?}: two replicas replaced by {to:?}; the WebApp healed within {slowest:.1} s each time"
        );
    }
    Story::new(shared.server.objects()).delete().await?;
    for replica in fleet {
        replica.stop().await?;
    }
    let (files, engines) = compiled(shared.cache.path())?;
    println!("figures: {kind:?}: the shared cache has {files} compiled files, for {engines} engines");
    Ok(())
}

/// Both versions write as the same field manager, so neither sees the other's fields as foreign.
async fn one_manager(shared: &Shared) -> anyhow::Result<()> {
    for kind in ["Deployment", "Service"] {
        let it = shared.server.objects().get(kind, windlass_tests::story::NAME).await?.unwrap_or_default();
        let entries = it["metadata"]["managedFields"].as_array().context("managed fields")?;
        let managers = entries.iter().filter_map(|entry| entry["manager"].as_str());
        let ours: BTreeSet<_> = managers.filter(|manager| manager.starts_with("windlass/")).collect();
        ensure!(ours == BTreeSet::from(["windlass/webapp"]), "{kind}: {entries:?}");
    }
    Ok(())
}

/// The number of compiled files in a cache directory, and of the engines that they are for.
fn compiled(cache: &Path) -> anyhow::Result<(usize, usize)> {
    let mut engines = Vec::new();
    for entry in std::fs::read_dir(cache)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "code") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            engines.push(name.split('.').nth(1).context("an engine")?.to_owned());
        }
    }
    Ok((engines.len(), engines.iter().collect::<BTreeSet<_>>().len()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_upgrade_and_the_way_back_keep_the_webapp_right() -> anyhow::Result<()> {
    for kind in kinds() {
        rolling_upgrade(kind).await?;
    }
    Ok(())
}
