//! Replicas share out plugins by leases. The tests check which replica runs a plugin when another replica crashes,
//! stops, is paused or is cut off, and that no replica writes for a plugin while another replica may write for it.
//!
//! The times are scaled. `Match` counts each replica's requests at its own proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::task::AbortOnDropHandle;
use windlass_core::life::sharing::{rank, shard_of};
use windlass_proxy::Match;
use windlass_tests::host::Host;
use windlass_tests::objects::Objects;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;
use windlass_tests::{chameleon, paths, probe};

use crate::webapp::plugin_directory;

const LEASE_DURATION: Duration = Duration::from_secs(15);
const LEASE_RETRY_PERIOD: Duration = Duration::from_millis(400);
/// The delay that a busy machine may add.
const MACHINE_SLACK: Duration = Duration::from_secs(15);
/// Short lease times, so that leases change hands fast. A busy machine alone can make a host lose such a lease.
pub(crate) const TIMES: [&str; 8] = [
    "--lease-duration",
    "4s",
    "--lease-renew-deadline",
    "2500ms",
    "--lease-retry-period",
    "400ms",
    "--lease-stability",
    "2s",
];
/// Lease times so long that a holder loses a lease only if the test makes it lose it.
const HELD: [&str; 8] = [TIMES[0], "15s", TIMES[2], "10s", TIMES[4], TIMES[5], TIMES[6], TIMES[7]];
/// Lease times that exceed all slack. A replica that wins a lease sooner has not waited for its expiry.
const LASTING: [&str; 8] = [TIMES[0], "1m", TIMES[2], "40s", TIMES[4], TIMES[5], TIMES[6], TIMES[7]];
/// [`HELD`] with one lease for all plugins. This lease is not rebalanced by hash while a test watches which replica
/// writes.
const SINGLE: [&str; 9] = [HELD[0], HELD[1], HELD[2], HELD[3], HELD[4], HELD[5], HELD[6], HELD[7], IN_ONE];
const IN_ONE: &str = "--leases=single";
/// The user agent of requests by plugins, not by the host.
const AGENT: &str = "(chameleon@";

/// A replica's log line about winning or losing a lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    at: String,
    lease: String,
    won: bool,
}

/// The time of a log line. Hosts' times are comparable: they run on one machine.
fn when(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

/// A host behind a proxy of its own.
struct Replica {
    /// The holder's name in its leases.
    name: String,
    host: Host,
    proxy: Proxied,
}

impl Replica {
    async fn start(server: &Server, plugins: &TempDir) -> anyhow::Result<Self> {
        Self::start_with(server, plugins, &HELD).await
    }

    async fn start_with(server: &Server, plugins: &TempDir, flags: &[&str]) -> anyhow::Result<Self> {
        let proxy = Proxied::start(server, 3).await?;
        let arguments = [&["--grants=manifest"], flags].concat();
        let namespace = server.objects().namespace();
        let host = Host::run_with(proxy.kubeconfig(), namespace, plugins.path(), &arguments)?;
        let said = host.says("standing for election").await?;
        let name = said.split_once("replica=").and_then(|(_, rest)| rest.split_whitespace().next());
        Ok(Self { name: name.with_context(|| said.clone())?.to_owned(), host, proxy })
    }

    /// The host's log lines about leases won and lost.
    fn turns(&self) -> Vec<Turn> {
        let mut turns = Vec::new();
        for line in self.host.log().lines() {
            let Some(lease) = line.split("lease=").nth(1).and_then(|rest| rest.split_whitespace().next()) else {
                continue;
            };
            let won = line.contains("lease won");
            if line.contains("could not be renewed in time") {
                // Ignore this line and the earlier ones: the host stopped by its own clock, so the line may be logged
                // late.
                turns.retain(|turn: &Turn| turn.lease != lease);
            } else if won || line.contains("lease released") || line.contains("lease lost") {
                turns.push(Turn { at: when(line).to_owned(), lease: lease.to_owned(), won });
            }
        }
        turns
    }

    /// The leases that the host holds, according to its log.
    fn holds(&self) -> BTreeSet<String> {
        let mut held = BTreeSet::new();
        for Turn { lease, won, .. } in self.turns() {
            if won {
                held.insert(lease)
            } else {
                held.remove(&lease)
            };
        }
        held
    }

    fn writes(&self) -> u64 {
        self.proxy.count(&Match::writes().agent(AGENT))
    }

    async fn writes_more(&self, times: u64) -> anyhow::Result<()> {
        let before = self.writes();
        until("it writes", || async {
            let now = self.writes();
            if now >= before + times { Ok(()) } else { Err(now) }
        })
        .await
        .with_context(|| format!("it logged:\n{}", self.host.log()))
    }
}

/// A server with one busy plugin, and two replicas. The first one runs the plugin.
struct Pair {
    first: Replica,
    second: Replica,
    _busy: AbortOnDropHandle<()>,
    _plugins: TempDir,
    server: Server,
}

impl Pair {
    async fn start(kind: Kind, flags: &[&str]) -> anyhow::Result<Self> {
        let server = Server::start(kind).await?;
        let plugins = tempfile::tempdir()?;
        chameleon::write("requeue", &plugins.path().join("chameleon.wasm"))?;
        server.objects().apply(&busy(0)).await?;
        let first = Replica::start_with(&server, &plugins, flags).await?;
        first.host.says("controller started").await?;
        let second = Replica::start_with(&server, &plugins, flags).await?;
        until("the second one sees the first", || async {
            let (log, first) = (second.host.log(), first.host.log());
            anyhow::ensure!(log.contains("the set of live replicas has changed"), "{log}\n{first}");
            Ok(())
        })
        .await?;
        let objects = server.objects().clone();
        let busy = AbortOnDropHandle::new(tokio::spawn(keep_busy(objects)));
        // Either replica may run the plugin, because the hash decides.
        let pair = Self { first, second, _busy: busy, _plugins: plugins, server };
        pair.settled(!flags.contains(&IN_ONE)).await
    }

    /// Waits until one replica runs the plugin, keeps it, and writes. Returns the pair with this replica as the first.
    async fn settled(mut self, by_hash: bool) -> anyhow::Result<Self> {
        until("the plugin runs where it is meant to", || async {
            let held = [&self.first, &self.second].map(|it| (it.name.clone(), it.holds()));
            let (shards, members) = leases(self.server.objects()).await?;
            let is_settled = !by_hash || shards.iter().all(|(lease, holder)| rank(lease, holder, &members) == 0);
            // Compare the leases with the logs, which are read later.
            let of =
                |it: &str| shards.iter().filter(|(_, holder)| holder == it).map(|(lease, _)| lease.clone()).collect();
            let is_said = shards.len() == 1 && held.iter().all(|(name, said)| *said == of(name));
            anyhow::ensure!(members.len() == 2 && is_settled && is_said, "{held:?} {shards:?}");
            Ok(())
        })
        .await?;
        if self.first.holds().is_empty() {
            std::mem::swap(&mut self.first, &mut self.second);
        }
        self.first.writes_more(3).await?;
        assert_eq!(self.second.holds().len(), 0);
        Ok(self)
    }

    /// Waits until the second replica has won the lease and writes. Returns how long it took to win it.
    async fn taken_over(&self, since: Instant) -> anyhow::Result<Duration> {
        // `says` is not enough, because it could find a line from an earlier term.
        until("the other has it", || async { if self.second.holds().is_empty() { Err(()) } else { Ok(()) } }).await?;
        let took = since.elapsed();
        self.second.writes_more(3).await?;
        Ok(took)
    }
}

fn busy(turn: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "busy", "labels": {"chameleon": "true"}}, "data": {"turn": turn.to_string()},
    })
}

/// Makes the plugin write as long as this task runs.
async fn keep_busy(objects: Objects) {
    for turn in 1.. {
        // The last write may fail because the server ends with its test.
        let _ = objects.merge("ConfigMap", "busy", &json!({"data": {"turn": turn.to_string()}})).await;
        // Write often enough that a write is in flight whenever the lease is lost, but do not flood the server.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn a_crash(kind: Kind) -> anyhow::Result<()> {
    let pair = Pair::start(kind, &HELD).await?;
    let killed = Instant::now();
    pair.first.host.signal("KILL").await?;
    let took = pair.taken_over(killed).await?;
    println!("{kind:?}: taken over {took:?} after kill -9");
    // The member lease may expire a little later than the plugin's lease.
    assert!(took < LEASE_DURATION + 3 * LEASE_RETRY_PERIOD + MACHINE_SLACK, "{took:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crashed_replica_is_replaced_within_a_lease_on_the_embedded_server() -> anyhow::Result<()> {
    a_crash(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crashed_replica_is_replaced_within_a_lease_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_crash(Kind::Real).await
}

async fn a_stop(kind: Kind) -> anyhow::Result<()> {
    let pair = Pair::start(kind, &LASTING).await?;
    pair.first.host.signal("TERM").await?;
    pair.first.host.says("lease released").await?;
    let took = pair.taken_over(Instant::now()).await?;
    println!("{kind:?}: taken over {took:?} after a graceful stop");
    assert!(took < LEASE_RETRY_PERIOD + MACHINE_SLACK, "{took:?}");
    let Pair { first: Replica { mut host, proxy, .. }, .. } = pair;
    assert!(host.ends().await?.success(), "{}", host.log());
    assert!(!host.log().contains("not all leases are released"), "{}", host.log());
    drop(proxy);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stops_is_replaced_at_once_on_the_embedded_server() -> anyhow::Result<()> {
    a_stop(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stops_is_replaced_at_once_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_stop(Kind::Real).await
}

async fn a_pause(kind: Kind) -> anyhow::Result<()> {
    let pair = Pair::start(kind, &SINGLE).await?;
    pair.first.host.signal("STOP").await?;
    pair.taken_over(Instant::now()).await?;
    let before = pair.first.writes();
    pair.first.host.signal("CONT").await?;
    let said = pair.first.host.says("lease lost").await?;
    assert!(said.contains("could not be renewed in time"), "{said}");
    pair.second.writes_more(5).await?;
    assert_eq!(pair.first.writes(), before, "one that stood still wrote when it went on:\n{}", pair.first.host.log());
    // The first replica is a candidate again: it takes over when the other replica stops.
    pair.second.host.signal("TERM").await?;
    pair.first.writes_more(3).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_replica_writes_nothing_on_resuming_on_the_embedded_server() -> anyhow::Result<()> {
    a_pause(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_replica_writes_nothing_on_resuming_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_pause(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_cut_off_stops_before_another_takes_over() -> anyhow::Result<()> {
    let pair = Pair::start(Kind::Embedded, &SINGLE).await?;
    pair.first.proxy.go_silent();
    let cut = Instant::now();
    let lost = pair.first.host.says("lease lost").await?;
    let stopped = cut.elapsed();
    let took = pair.taken_over(cut).await?;
    // Compare the times in the logs, which come from one clock, because this test may read the logs late.
    let won = pair.second.host.says("lease won").await?;
    assert!(when(&lost) < when(&won), "the other took over before: {won}, and {lost}");
    println!("cut off: stopped after {stopped:?}, taken over after {took:?}");
    let before = pair.first.writes();
    pair.first.proxy.come_back();
    pair.second.writes_more(5).await?;
    assert_eq!(pair.first.writes(), before, "it wrote when it was back:\n{}", pair.first.host.log());
    Ok(())
}

/// The leases of plugins with their holders, and the live replicas, as the server has them.
async fn leases(objects: &Objects) -> anyhow::Result<(Vec<(String, String)>, BTreeSet<Arc<str>>)> {
    let (mut shards, mut members) = (Vec::new(), BTreeSet::new());
    for lease in objects.list("Lease", "windlass.dev/instance=main").await? {
        let name = lease["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if lease["metadata"]["labels"]["windlass.dev/lease"] == "member" {
            members.insert(holder.into());
        } else {
            shards.push((name, holder.to_owned()));
        }
    }
    Ok((shards, members))
}

/// The number of leases in use for the three plugins.
fn in_use() -> usize {
    ["chameleon", "probe", "webapp"].map(shard_of).into_iter().collect::<BTreeSet<_>>().len()
}

/// Waits until the replica that the hash prefers holds each lease, and checks that no two replicas held a lease at
/// once.
async fn shared_out(objects: &Objects, replicas: &[&Replica]) -> anyhow::Result<()> {
    let what = format!("plugins are shared out over {} replicas", replicas.len());
    let turns = until(&what, || async {
        let turns: Vec<_> = replicas.iter().map(|replica| replica.turns()).collect();
        let held: Vec<_> = replicas.iter().flat_map(|replica| replica.holds()).collect();
        let (shards, members) = leases(objects).await?;
        anyhow::ensure!(members.len() == replicas.len(), "{members:?}");
        let all =
            shards.iter().all(|(lease, holder)| members.contains(&**holder) && rank(lease, holder, &members) == 0);
        anyhow::ensure!(all && shards.len() == in_use(), "{shards:?}");
        // Wait until each lease has exactly one holder. Until then, one host's log may lag behind another's.
        let each: BTreeSet<_> = held.iter().collect();
        anyhow::ensure!(held.len() == in_use() && each.len() == in_use(), "{held:?}");
        Ok(turns)
    })
    .await?;
    assert_apart(&turns);
    Ok(())
}

/// Checks that no lease had two holders at once. A holder logs the loss of a lease before it releases it, and the next
/// holder logs its win after that. So the times in the logs show the order, even if the test reads the logs in another
/// order.
fn assert_apart(turns: &[Vec<Turn>]) {
    let mut all: Vec<_> =
        turns.iter().enumerate().flat_map(|(who, turns)| turns.iter().map(move |it| (it, who))).collect();
    all.sort();
    let mut holders = BTreeMap::new();
    for (turn, who) in &all {
        if turn.won {
            let other = holders.insert(&turn.lease, who);
            assert!(other.is_none(), "two replicas hold {}: {all:#?}", turn.lease);
        } else if holders.get(&turn.lease) == Some(&who) {
            holders.remove(&turn.lease);
        }
    }
}

#[test]
#[should_panic(expected = "two replicas hold all")]
fn a_lease_that_two_hold_for_an_instant_is_found() {
    let turn = |at: &str, won| Turn { at: at.to_owned(), lease: "all".to_owned(), won };
    assert_apart(&[vec![turn("1", true), turn("2", false), turn("5", true)], vec![turn("3", true), turn("6", false)]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_plugins_and_never_run_one_twice() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    probe::install(server.objects()).await?;
    let plugins = plugin_directory()?;
    chameleon::write("good", &plugins.path().join("chameleon.wasm"))?;
    std::fs::copy(paths::guest("probe")?, plugins.path().join("probe.wasm"))?;
    let objects = server.objects();

    let first = Replica::start(&server, &plugins).await?;
    shared_out(objects, &[&first]).await?;
    first.host.says_times("controller started", 3).await?;
    let second = Replica::start(&server, &plugins).await?;
    shared_out(objects, &[&first, &second]).await?;
    let third = Replica::start(&server, &plugins).await?;
    shared_out(objects, &[&first, &second, &third]).await?;
    // Each replica renews its leases and its membership once a period, and does not poll.
    let replicas = [&first, &second, &third];
    let (before, since) = (requests(&replicas), Instant::now());
    until("60 more requests about leases", || async {
        let now = requests(&replicas);
        if now >= before + 60 { Ok(()) } else { Err(now) }
    })
    .await?;
    let periods = since.elapsed().as_secs_f64() / LEASE_RETRY_PERIOD.as_secs_f64();
    let each = in_use() + replicas.len();
    println!("60 requests about leases in {periods:.1} periods, for {} leases and three replicas", in_use());
    #[allow(clippy::cast_precision_loss, reason = "a handful")]
    let most = periods * each as f64;
    assert!(most >= 50.0, "more than one request a period for each lease and each replica: 60 instead of {most}");
    let polls = |replica: &Replica| replica.proxy.count(&Match::verb(windlass_proxy::Verb::Get).resource("leases"));
    let looked = [&first, &second, &third].map(polls);
    assert!(looked.iter().all(|&looked| looked <= 20), "{looked:?}: they learn by a watch");

    assert!(third.host.terminate().await?.success());
    shared_out(objects, &[&first, &second]).await?;
    second.host.signal("KILL").await?;
    shared_out_after_a_crash(objects, &first).await?;
    let released = first.host.terminate().await?;
    assert!(released.success());
    let (shards, _) = leases(objects).await?;
    assert!(shards.iter().all(|(_, holder)| holder.is_empty()), "{shards:?}");
    Ok(())
}

/// Waits until the remaining replica runs all plugins. The crashed replica's membership lease stays for a while.
async fn shared_out_after_a_crash(objects: &Objects, left: &Replica) -> anyhow::Result<()> {
    until("the one that is left runs all", || async {
        let (shards, _) = leases(objects).await?;
        anyhow::ensure!(left.holds().len() == in_use(), "{shards:?}");
        Ok(())
    })
    .await
}

fn requests(replicas: &[&Replica]) -> u64 {
    let any = Match::any().resource("leases").agent("; lease)");
    replicas.iter().map(|replica| replica.proxy.count(&any)).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_standby_takes_over_with_its_existing_watch() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let plugins = tempfile::tempdir()?;
    chameleon::write("good", &plugins.path().join("chameleon.wasm"))?;
    server.objects().apply(&busy(0)).await?;
    let first = Replica::start_with(&server, &plugins, &SINGLE).await?;
    first.host.says("chameleon reconciled").await?;
    let second = Replica::start_with(&server, &plugins, &[&SINGLE[..], &["--warm-standby"]].concat()).await?;
    let lists = || second.proxy.count(&Match::verb(windlass_proxy::Verb::List).resource("configmaps"));
    second.proxy.until(|| second.proxy.watching(&Match::watches("configmaps")) == 1).await;
    let warm = lists();
    assert!(!second.host.log().contains("controller started"), "another runs it: {}", second.host.log());
    first.host.signal("KILL").await?;
    second.host.says("chameleon reconciled").await?;
    // To check that the cache is fresh, the replica lists at most one object, or compares versions.
    println!("lists of ConfigMaps: {warm} to fill the cache, then {} to take over", lists() - warm);
    assert!(second.host.log().contains("lease won"), "{}", second.host.log());
    assert_eq!(second.proxy.watching(&Match::watches("configmaps")), 1, "the watch goes on");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_a_plugin_gives_its_lease_to_one_that_has_it() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let (lacking, full) = (plugin_directory()?, plugin_directory()?);
    chameleon::write("good", &full.path().join("chameleon.wasm"))?;
    server.objects().apply(&busy(0)).await?;
    let first = Replica::start_with(&server, &lacking, &SINGLE).await?;
    first.host.says("lease won").await?;
    let second = Replica::start_with(&server, &full, &SINGLE).await?;
    first.host.says("handing over").await?;
    second.host.says("chameleon reconciled").await?;
    assert_eq!((first.holds().len(), second.holds().len()), (0, 1));
    // When no other replica is left, the replica still runs the plugins that it has.
    second.host.signal("KILL").await?;
    first.host.says_times("lease won", 2).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn inconsistent_lease_times_are_refused() -> anyhow::Result<()> {
    let plugins = tempfile::tempdir()?;
    let directory = plugins.path().to_string_lossy();
    let mut host = Host::start(&["run", "--plugins", &directory, "--lease-renew-deadline", "20s"], None)?;
    assert!(!host.ends().await?.success());
    host.says("must be longer than the renew deadline").await?;
    Ok(())
}
