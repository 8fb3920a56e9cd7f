//! A crash at every write: the host is killed just before and just after its k-th write, for each k in turn, and
//! started again. Each time all wanted children must exist, and none may be created or deleted without need.
//!
//! The proxy stops the host at that write: either nothing that the host sends from then on arrives, or the write
//! arrives and its response does not. Then the host is killed, so neither clean-up nor retries interfere.
//!
//! Short by default. `WINDLASS_CRASHES=full` goes on until there is no k-th write.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;
use tempfile::TempDir;
use windlass_proxy::{Fault, Loss, Match, RuleHandle};
use windlass_tests::children::{Entry, Parent, Recorder, What, uid};
use windlass_tests::host::Host;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait;

use crate::replicas::audit::{self, Figures};
use crate::{replicas, webapp};

/// Longer than any test.
const BEYOND_ANY_TEST: Duration = Duration::from_hours(1);

/// The moment at which the host is killed.
#[derive(Clone, Copy, Debug)]
enum Side {
    /// The k-th write never reaches the server.
    Before,
    /// The k-th write is carried out, but its response is lost.
    After,
}

/// How many writes are tried.
fn last_write(short: u64) -> u64 {
    let is_full = std::env::var("WINDLASS_CRASHES").is_ok_and(|form| form == "full");
    if is_full { u64::MAX } else { short }
}

/// Stops the host at one of its writes, for the rest of the host's life.
struct Trap {
    side: Side,
    lost: Option<RuleHandle>,
    stopped: RuleHandle,
}

impl Trap {
    fn set(proxy: &Proxied, agent: &str, side: Side, write: u64) -> Self {
        // Count only the plugin's writes. The host's own writes are tested elsewhere.
        let writes = || Match::writes().agent(agent);
        let carried_out = || proxy.add(Fault::Lose(Loss::Silence).on(writes()).skip(write - 1).times(1));
        let lost = matches!(side, Side::After).then(carried_out);
        // This rule does not count a lost request, so it stops the requests after it.
        let stopped = proxy.add(Fault::DelayRequest(BEYOND_ANY_TEST..=BEYOND_ANY_TEST).on(writes()).skip(write - 1));
        Self { side, lost, stopped }
    }

    /// Whether the host has reached the write, and the write was lost or carried out as intended.
    fn has_sprung(&self) -> bool {
        match self.side {
            Side::Before => self.stopped.fired() > 0,
            Side::After => self.lost.as_ref().is_some_and(|lost| lost.lost() > 0),
        }
    }
}

/// A server, a proxy in front of it, and a host that is killed and restarted.
struct Scene {
    kind: Kind,
    server: Server,
    proxy: Proxied,
    plugins: TempDir,
    recorder: Recorder,
    /// `None` just after a kill.
    host: Option<Host>,
    crashes: u64,
    begun: Instant,
}

impl Scene {
    async fn start(kind: Kind, plugins: TempDir, parents: &str, children: &[&str]) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let server = Server::start(kind).await?;
        if parents == "WebApp" {
            server.install_webapp().await?;
        }
        let proxy = Proxied::start(&server, 1).await?;
        let host = Some(start_host(&server, &proxy, plugins.path()).await?);
        let recorder = Recorder::start(server.objects(), parents, children).await?;
        Ok(Self { kind, server, proxy, plugins, recorder, host, crashes: 0, begun })
    }

    /// Makes a change and waits until nothing more happens. If the host reaches the write of the trap, it crashes
    /// there. Returns whether it did.
    async fn see_through(&mut self, trap: Trap, parent: &str, rest: impl Fn(&Parent) -> bool) -> anyhow::Result<bool> {
        let host = self.host.take().context("a host runs")?;
        let resting = self.recorder.until("the host comes to rest", parent, wait::CONDITION_TIMEOUT, &rest);
        tokio::select! {
            rests = resting => rests.with_context(|| format!("the host logged:\n{}", host.log()))?,
            () = self.proxy.until(|| trap.has_sprung()) => {}
        }
        let sprung = trap.has_sprung();
        // Kill the host even if nothing more happens: the trap may have stopped only one of its Events.
        host.kill().await?;
        drop(trap);
        let host = start_host(&self.server, &self.proxy, self.plugins.path()).await?;
        let resting = self.recorder.until("the next host brings it to rest", parent, wait::CONDITION_TIMEOUT, &rest);
        resting.await.with_context(|| format!("the next host logged:\n{}", host.log()))?;
        self.host = Some(host);
        self.crashes += u64::from(sprung);
        Ok(sprung)
    }

    fn entries(&self, parent: &str) -> Vec<Entry> {
        self.recorder.entries().into_iter().filter(|entry| entry.parent == parent).collect()
    }

    async fn end(mut self, story: &str, writes: u64) -> anyhow::Result<()> {
        println!(
            "figures: {:?} {story}: {} crashes, at up to {writes} writes, before and after each, in {:.0?}",
            self.kind,
            self.crashes,
            self.begun.elapsed()
        );
        let status = self.host.take().context("a host runs")?.terminate().await?;
        ensure!(status.success(), "SIGTERM must stop the host cleanly: {status}");
        Ok(())
    }
}

async fn start_host(server: &Server, proxy: &Proxied, plugins: &Path) -> anyhow::Result<Host> {
    let host = Host::run(proxy.kubeconfig(), server.objects().namespace(), plugins)?;
    host.says("controller started").await?;
    Ok(host)
}

fn rests(parent: &Parent) -> bool {
    parent.is_converged() && parent.is_reported()
}

/// Three Pods are created, and two of them are deleted again.
async fn a_set_with_crashes(kind: Kind, last: u64) -> anyhow::Result<()> {
    let mut scene = Scene::start(kind, replicas::plugin_directory()?, "PodSet", &["Pod"]).await?;
    let mut writes = 0;
    for side in [Side::Before, Side::After] {
        for write in 1..=last {
            let name = format!("{side:?}-{write}").to_lowercase();
            let trap = Trap::set(&scene.proxy, "(replicaset@", side, write);
            let made = scene.server.objects().apply(&replicas::pod_set(&name, 3)).await?;
            let parent = uid(&made)?.to_owned();
            let in_making = scene.see_through(trap, &parent, rests).await?;

            let trap = Trap::set(&scene.proxy, "(replicaset@", side, write);
            scene.server.objects().merge("PodSet", &name, &json!({"spec": {"replicas": 1}})).await?;
            let one = |parent: &Parent| parent.asked == 1 && rests(parent);
            let in_cutting = scene.see_through(trap, &parent, one).await?;

            let entries = scene.entries(&parent);
            let figures = audit::by_need(&entries.iter().collect::<Vec<_>>(), &BTreeSet::new());
            let expected = Figures { created: 3, deleted: 2, ..Figures::default() };
            assert_eq!(figures, expected, "{side:?} write {write}: {entries:#?}");
            if !in_making && !in_cutting {
                break;
            }
            writes = writes.max(write);
        }
    }
    scene.end("a PodSet", writes).await
}

/// A Deployment and a Service are created, and the Deployment is scaled.
async fn a_webapp_with_crashes(kind: Kind, last: u64) -> anyhow::Result<()> {
    let mut scene = Scene::start(kind, webapp::plugin_directory()?, "WebApp", &["Deployment", "Service"]).await?;
    let mut writes = 0;
    for side in [Side::Before, Side::After] {
        for write in 1..=last {
            let name = format!("{side:?}-{write}").to_lowercase();
            let app = json!({
                "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp",
                "metadata": {"name": name}, "spec": {"image": "nginx", "replicas": 2},
            });
            let runs = |parent: &Parent| parent.live.len() == 2 && parent.is_reported();
            let trap = Trap::set(&scene.proxy, "(webapp@", side, write);
            let made = scene.server.objects().apply(&app).await?;
            let parent = uid(&made)?.to_owned();
            let in_making = scene.see_through(trap, &parent, runs).await?;

            let trap = Trap::set(&scene.proxy, "(webapp@", side, write);
            scene.server.objects().merge("WebApp", &name, &json!({"spec": {"replicas": 3}})).await?;
            let runs_with_three = |parent: &Parent| parent.asked == 3 && runs(parent);
            let in_scaling = scene.see_through(trap, &parent, runs_with_three).await?;

            let entries = scene.entries(&parent);
            let children: Vec<_> =
                entries.iter().filter(|entry| matches!(entry.what, What::Appeared(_) | What::Went(_))).collect();
            let all_appeared = children.iter().all(|entry| matches!(entry.what, What::Appeared(_)));
            assert!(children.len() == 2 && all_appeared, "{side:?} write {write}: {entries:#?}");
            if !in_making && !in_scaling {
                break;
            }
            writes = writes.max(write);
        }
    }
    scene.end("a WebApp", writes).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_recovers_from_a_crash_at_any_write_on_the_embedded_server() -> anyhow::Result<()> {
    a_set_with_crashes(Kind::Embedded, last_write(3)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webapp_recovers_from_a_crash_at_any_write_on_the_embedded_server() -> anyhow::Result<()> {
    a_webapp_with_crashes(Kind::Embedded, last_write(3)).await
}

/// The short form tries one write, to show that the embedded server's results hold for the real one too.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_recovers_from_a_crash_at_any_write_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_set_with_crashes(Kind::Real, last_write(1)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webapp_recovers_from_a_crash_at_any_write_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_webapp_with_crashes(Kind::Real, last_write(1)).await
}
