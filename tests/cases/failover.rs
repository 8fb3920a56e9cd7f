//! Replicas are killed, paused and cut off while objects change, on a real kube-apiserver. Each time another replica
//! takes over, no replica writes without its lease, and in the end every object exists exactly once as wanted.
//!
//! The test reads the events from the server's audit log (`audited`), not from the hosts' logs. The short form, with
//! scaled lease times, runs with all tests; `WINDLASS_FAILOVER=full` is for `docs/soak`, with the default times.

mod audited;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use windlass_core::life::sharing;
use windlass_tests::host::Host;
use windlass_tests::objects::Objects;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::Server;
use windlass_tests::wait::{until, until_within};
use windlass_tests::{busy, cluster, paths};

use crate::replicas::pod_set;

const PLUGINS: [&str; 2] = ["webapp", "replicaset"];
const INSTANCE: &str = "failover";
const WANTED_REPLICAS_MAX: u32 = 4;

/// The length of the test.
struct Size {
    hosts: usize,
    rounds: usize,
    webapps: usize,
    sets: usize,
    lease: Duration,
    renew: Duration,
    retry: Duration,
}

impl Size {
    fn chosen(hosts: usize) -> Self {
        let [seconds, milliseconds] = [Duration::from_secs, Duration::from_millis];
        if std::env::var("WINDLASS_FAILOVER").is_ok_and(|form| form == "full") {
            let (lease, renew, retry) = (seconds(15), seconds(10), seconds(2));
            Self { hosts, rounds: 30, webapps: 200, sets: 50, lease, renew, retry }
        } else {
            let (lease, renew, retry) = (seconds(4), milliseconds(2_500), milliseconds(500));
            Self { hosts, rounds: 3, webapps: 10, sets: 5, lease, renew, retry }
        }
    }
}

/// The trouble that happens to the holder of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// kill -9.
    Kill,
    /// SIGSTOP until another replica has taken over, then SIGCONT.
    Pause,
    /// Its connection to the server goes silent until another replica has taken over.
    Cut,
}

const TROUBLES: [Trouble; 3] = [Trouble::Kill, Trouble::Pause, Trouble::Cut];

/// One process, and its proxy.
struct Replica {
    name: String,
    way: Proxied,
    host: Host,
}

struct Run {
    size: Size,
    server: Server,
    plugins: tempfile::TempDir,
    audit: std::path::PathBuf,
    replicas: Vec<Replica>,
    started: usize,
}

/// The course of one fault.
#[derive(Debug)]
struct Takeover {
    trouble: Trouble,
    plugin: &'static str,
    from: String,
    at: Timestamp,
}

impl Run {
    async fn start_replica(&mut self) -> anyhow::Result<()> {
        self.started += 1;
        let name = format!("host-{}", self.started);
        let way = Proxied::start(&self.server, self.started as u64).await?;
        let namespace = self.server.objects().namespace();
        let seconds = |time: Duration| format!("{}ms", time.as_millis());
        let arguments = [
            "run".to_owned(),
            format!("--kubeconfig={}", way.kubeconfig().display()),
            format!("--namespace={namespace}"),
            format!("--plugins={}", self.plugins.path().display()),
            "--grants=manifest".to_owned(),
            // Allow many writes, so that as many as possible are in flight when a fault occurs.
            "--writes-per-second=1000".to_owned(),
            "--writes-burst=1000".to_owned(),
            "--leases=shards".to_owned(),
            format!("--lease-namespace={namespace}"),
            format!("--instance={INSTANCE}"),
            format!("--lease-duration={}", seconds(self.size.lease)),
            format!("--lease-renew-deadline={}", seconds(self.size.renew)),
            format!("--lease-retry-period={}", seconds(self.size.retry)),
            format!("--lease-stability={}", seconds(self.size.lease)),
        ];
        let host = Host::start_as(&name, &arguments)?;
        self.replicas.push(Replica { name, way, host });
        Ok(())
    }

    /// The lease that lets a replica run `plugin`.
    fn lease(plugin: &str) -> String {
        format!("windlass-{INSTANCE}-shard-{:02}", sharing::shard_of(plugin))
    }

    /// The replica that holds the lease of `plugin` now, according to the lease.
    async fn holder(&self, plugin: &str) -> anyhow::Result<usize> {
        let lease = self.server.objects().get("Lease", &Self::lease(plugin)).await?.context("there is no lease yet")?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let at = self.replicas.iter().position(|replica| is_of(holder, &replica.name));
        at.with_context(|| format!("held by {holder:?}, which is none of ours"))
    }

    /// Injects one fault, and ends it when another replica has taken over.
    async fn round(&mut self, trouble: Trouble, plugin: &'static str) -> anyhow::Result<Takeover> {
        let holder = until(&format!("{plugin} is held"), || self.holder(plugin)).await?;
        let mut victim = self.replicas.swap_remove(holder);
        let (from, at) = (victim.name.clone(), Timestamp::now());
        match trouble {
            Trouble::Kill => victim.host.signal("KILL").await?,
            Trouble::Pause => victim.host.signal("STOP").await?,
            Trouble::Cut => victim.way.go_silent(),
        }
        let patience = self.size.lease * 4 + Duration::from_mins(1);
        let taken = until_within(patience, &format!("{plugin} is taken over"), || self.holder(plugin)).await;
        taken.with_context(|| self.logs())?;
        match trouble {
            Trouble::Kill => {
                victim.host.ends().await?;
                self.start_replica().await?;
            }
            Trouble::Pause => {
                victim.host.signal("CONT").await?;
                self.replicas.push(victim);
            }
            Trouble::Cut => {
                victim.way.come_back();
                self.replicas.push(victim);
            }
        }
        Ok(Takeover { trouble, plugin, from, at })
    }

    fn logs(&self) -> String {
        let log = |replica: &Replica| format!("--- {}\n{}", replica.name, replica.host.log());
        self.replicas.iter().map(log).collect::<Vec<_>>().join("\n")
    }

    /// Waits until each set has exactly the wanted children and each `WebApp` has what it declares.
    async fn converged(&self) -> anyhow::Result<()> {
        let objects = self.server.objects();
        until_within(self.size.lease * 10 + Duration::from_mins(2), "everything is as it should be", || async {
            for set in objects.list("PodSet", "").await? {
                let name = set["metadata"]["name"].as_str().context("it has a name")?;
                let pods = objects.list("Pod", &format!("set={name}")).await?;
                let live = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count() as u64;
                ensure!(set["spec"]["replicas"] == live, "{name} has {live} children: {}", set["spec"]);
            }
            for webapp in objects.list("WebApp", "").await? {
                let name = webapp["metadata"]["name"].as_str().context("it has a name")?;
                let deployment = objects.get("Deployment", name).await?.context("no Deployment")?;
                ensure!(deployment["spec"]["replicas"] == webapp["spec"]["replicas"], "{deployment}");
                objects.get("Service", name).await?.context("no Service")?;
                ensure!(webapp["status"]["observedGeneration"] == webapp["metadata"]["generation"], "{webapp}");
            }
            Ok::<_, anyhow::Error>(())
        })
        .await
        .with_context(|| self.logs())
    }
}

/// Whether a lease's `holder` is the process `name`. The holder's name has a suffix that differs with each start.
fn is_of(holder: &str, name: &str) -> bool {
    holder.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Changes an object now and then until it is told to stop. Returns the number of changes.
async fn churn(objects: Objects, webapps: usize, sets: usize, end: Arc<AtomicBool>) -> anyhow::Result<u64> {
    let mut random = SmallRng::seed_from_u64(20_261_121);
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    let mut changes = 0;
    while !end.load(Ordering::Relaxed) {
        pace.tick().await;
        let replicas = json!({"spec": {"replicas": random.random_range(1..=WANTED_REPLICAS_MAX)}});
        if random.random_bool(0.5) {
            objects.merge("WebApp", &format!("app-{}", random.random_range(0..webapps)), &replicas).await?;
        } else {
            objects.merge("PodSet", &format!("set-{}", random.random_range(0..sets)), &replicas).await?;
        }
        changes += 1;
    }
    Ok(changes)
}

async fn replicas_fail(hosts: usize) -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let directory = tempfile::tempdir()?;
    let audit = directory.path().join("audit.log");
    let cluster = cluster::start(&["--audit-log", &audit.to_string_lossy()])?;
    let server = Server::join(&cluster).await?;
    server.install_webapp().await?;
    let plugins = tempfile::tempdir()?;
    for plugin in PLUGINS {
        let file = format!("{plugin}.wasm");
        std::fs::copy(paths::plugins()?.join(&file), plugins.path().join(&file))?;
    }
    let size = Size::chosen(hosts);
    let mut run = Run { size, server, plugins, audit, replicas: Vec::new(), started: 0 };
    for _ in 0..run.size.hosts {
        run.start_replica().await?;
    }
    run.make_objects().await?;
    run.converged().await?;

    let end = Arc::new(AtomicBool::new(false));
    let objects = run.server.objects().clone();
    let churning = tokio::spawn(churn(objects, run.size.webapps, run.size.sets, end.clone()));
    let mut takeovers = Vec::new();
    for round in 0..run.size.rounds {
        let (trouble, plugin) = (TROUBLES[round % TROUBLES.len()], PLUGINS[round / TROUBLES.len() % PLUGINS.len()]);
        takeovers.push(run.round(trouble, plugin).await?);
    }
    end.store(true, Ordering::Relaxed);
    let changes = churning.await??;
    run.converged().await?;
    for replica in std::mem::take(&mut run.replicas) {
        let Replica { name, mut host, way: _way } = replica;
        host.signal("TERM").await?;
        let status = host.ends().await?;
        // A host that was cut off during a write does not learn its result for up to 20 seconds, and logs that. It may
        // then end with an error.
        let was_troubled = takeovers.iter().any(|takeover| takeover.from == name);
        ensure!(status.success() || was_troubled, "{name} ended with {status}:\n{}", host.log());
    }
    println!("figures: {hosts} hosts, {} rounds, {changes} changes meanwhile, always converged", takeovers.len());
    run.judge(&takeovers)
}

impl Run {
    async fn make_objects(&self) -> anyhow::Result<()> {
        let objects = self.server.objects();
        until("the kinds are served", || objects.list("PodSet", "")).await?;
        for number in 0..self.size.webapps {
            objects
                .apply(&json!({
                    "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "metadata": {"name": format!("app-{number}")},
                    "spec": {"image": "registry.example/shop:1", "replicas": 1, "port": 8080},
                }))
                .await?;
        }
        for number in 0..self.size.sets {
            objects.apply(&pod_set(&format!("set-{number}"), 2)).await?;
        }
        Ok(())
    }

    /// Reads from the audit log how long each takeover took, and whether any replica wrote without its lease.
    fn judge(&self, takeovers: &[Takeover]) -> anyhow::Result<()> {
        let writes = audited::writes(&self.audit)?;
        for Takeover { trouble, plugin, from, at } in takeovers {
            let turns = audited::turns(&writes, &Self::lease(plugin));
            let next = turns.iter().find(|turn| turn.began > *at && !is_of(&turn.replica, from));
            let next = next.with_context(|| format!("nobody took {plugin} over from {from}"))?;
            let seconds = (next.began - *at).total(jiff::Unit::Second)?;
            println!("figures: {trouble:?} of {from}: {} took {plugin} over after {seconds:.1} s", next.replica);
        }
        let was_paused =
            |replica: &str| takeovers.iter().any(|it| it.trouble == Trouble::Pause && is_of(replica, &it.from));
        for plugin in PLUGINS {
            let turns = audited::turns(&writes, &Self::lease(plugin));
            let own = writes.iter().filter(|write| write.by == plugin).count();
            ensure!(own > 0, "the audit log has no write of {plugin}");
            let late = audited::out_of_turn(&writes, plugin, &turns, self.size.lease);
            for (replica, late) in &late {
                println!("figures: {plugin}: {replica} sent {} of {own} writes out of turn", late.len());
                ensure!(was_paused(replica), "{replica} was not paused, and wrote out of turn: {late:#?} {turns:#?}");
            }
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_two_hosts_one_always_leads_and_none_writes_outside_its_term() -> anyhow::Result<()> {
    replicas_fail(2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_three_hosts_one_always_leads_and_none_writes_outside_its_term() -> anyhow::Result<()> {
    replicas_fail(3).await
}
