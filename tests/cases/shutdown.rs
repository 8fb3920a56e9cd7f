//! Stops the host during work, during a hanging call, in an outage, at its start, and by a second signal.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_proxy::{Fault, Match};
use windlass_tests::admin::at_rest;
use windlass_tests::busy;
use windlass_tests::host::Host;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::{until, until_within};

use crate::admin::{get, watched_at};
use crate::webapp::plugin_directory;

/// The number of objects that change all the time.
const CHANGING_WEBAPPS: usize = 120;
/// The number of writes that the plugin makes before the test stops the host. The plugin is then far from done.
const WRITES_BEFORE_STOP: u64 = 40;
/// A host that stops within this time has not waited for anything, even on a busy machine: waiting for a call or the
/// server takes longer.
const QUICK_STOP_MAX: Duration = Duration::from_secs(15);
/// The names of the phases, in their order.
const PHASES: [&str; 6] = ["intake", "drain", "calls", "events", "release", "watches"];

/// The plugin's writes, without Events.
fn writes() -> [Match; 3] {
    ["deployments", "services", "webapps/status"].map(|resource| Match::writes().resource(resource).agent("(webapp@"))
}

fn written(proxy: &Proxied) -> u64 {
    writes().iter().map(|writes| proxy.count(writes)).sum()
}

fn name(number: usize) -> String {
    format!("shop-{number}")
}

/// Changes one `WebApp` after the other, for ever.
async fn change(server: &Server) -> anyhow::Result<()> {
    for round in 0_usize.. {
        for number in 0..CHANGING_WEBAPPS {
            let replicas = 1 + (round + number) % 3;
            server.objects().merge("WebApp", &name(number), &json!({"spec": {"replicas": replicas}})).await?;
        }
    }
    Ok(())
}

/// Waits until each `WebApp` has the Deployment that it wants.
async fn converged(server: &Server) -> anyhow::Result<()> {
    // This wait needs the longest limit: on a slow machine, a minute was not enough.
    until_within(Duration::from_mins(5), "every WebApp has its Deployment", || async {
        let deployments = server.objects().list("Deployment", "").await?;
        for webapp in server.objects().list("WebApp", "").await? {
            let name = &webapp["metadata"]["name"];
            let deployment = deployments.iter().find(|it| it["metadata"]["name"] == *name).unwrap_or(&Value::Null);
            anyhow::ensure!(
                deployment["spec"]["replicas"] == webapp["spec"]["replicas"] && webapp["spec"]["replicas"].is_u64(),
                "{name}: {} of {}",
                deployment["spec"]["replicas"],
                webapp["spec"]["replicas"]
            );
        }
        Ok(())
    })
    .await
}

/// Checks that each phase is logged once, in order, after the line about the signal.
fn assert_in_order(log: &str) {
    let lines: Vec<_> = log.lines().skip_while(|line| !line.contains("a second signal ends at once")).collect();
    let phases = lines.iter().filter_map(|line| line.split_once("phase=")?.1.split(' ').next());
    let goes_by_leases = log.contains("standing for election");
    let expected = PHASES.into_iter().filter(|phase| *phase != "release" || goes_by_leases);
    assert_eq!(phases.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{log}");
    assert!(lines.last().is_some_and(|line| line.contains("stopped clean=true")), "{log}");
}

async fn a_stop_under_load(kind: Kind) -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let server = Server::start(kind).await?;
    server.install_webapp().await?;
    for number in 0..CHANGING_WEBAPPS {
        let webapp = json!({
            "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "metadata": {"name": name(number)},
            "spec": {"image": "nginx:1.29", "replicas": 1, "port": 80},
        });
        server.objects().apply(&webapp).await?;
    }
    let proxy = Proxied::start(&server, 6).await?;
    // Each call makes three writes, so even with all its workers the controller finishes far from all objects in five
    // seconds.
    let slow = Duration::from_millis(400)..=Duration::from_millis(1_200);
    let _slow = writes().map(|writes| proxy.add(Fault::DelayResponse(slow.clone()).on(writes)));
    let plugins = plugin_directory()?;
    let (mut host, address) = watched_at(
        proxy.kubeconfig(),
        server.objects().namespace(),
        plugins.path(),
        &["--log-level", "windlass::audit=debug,info"],
    )
    .await?;
    let stopped = async {
        until_within(Duration::from_mins(5), "some is written", || async {
            let written = written(&proxy);
            if written >= WRITES_BEFORE_STOP { Ok(()) } else { Err(written) }
        })
        .await?;
        host.signal("TERM").await?;
        host.says("a second signal ends at once").await?;
        // The host logs it beforehand.
        until("it is not ready any more", || async {
            let (status, why) = get(address, "/readyz").await?;
            anyhow::ensure!(status == 503 && why.contains("the host stops"), "{status} {why}");
            Ok(())
        })
        .await?;
        anyhow::ensure!(get(address, "/healthz").await?.0 == 200, "it still answers");
        host.ends().await
    };
    let status = tokio::select! {
        status = stopped => status?,
        changed = change(&server) => return changed,
    };
    let log = host.log();
    assert!(status.success(), "{status}: {log}");
    assert_in_order(&log);
    // The host waited for every write that was sent.
    let ended = log.lines().filter(|line| line.contains(" mutation plugin=webapp "));
    let outcome =
        |line: &str| line.split_once(" outcome=").and_then(|(_, rest)| rest.split(' ').next()).map(str::to_owned);
    let (unknown, ended): (Vec<_>, Vec<_>) = ended.partition(|line| outcome(line).as_deref() == Some("unknown"));
    let was_sent = |line: &&str| outcome(line).is_some_and(|end| ["committed", "refused"].contains(&&*end));
    let sent = ended.into_iter().filter(was_sent).count();
    assert_eq!((unknown, sent as u64), (vec![], written(&proxy)), "{log}");
    assert!(log.contains("the queued keys are dropped"), "the test is one of a host that is far from done: {log}");

    // The next host does the work that was dropped.
    drop(proxy);
    let mut host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
    converged(&server).await?;
    host.signal("TERM").await?;
    let status = host.ends().await?;
    assert!(status.success(), "{status}: {}", host.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_under_load_cuts_nothing_on_the_embedded_server() -> anyhow::Result<()> {
    a_stop_under_load(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_under_load_cuts_nothing_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_stop_under_load(Kind::Real).await
}

/// A host with a call whose write is not answered for a long time.
async fn hanging() -> anyhow::Result<(Host, (Server, Proxied, TempDir))> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let proxy = Proxied::start(&server, 7).await?;
    let long = Duration::from_mins(2);
    proxy.add(Fault::DelayResponse(long..=long).on(Match::writes().resource("deployments"))).keep();
    let plugins = plugin_directory()?;
    let host = Host::run(proxy.kubeconfig(), server.objects().namespace(), plugins.path())?;
    let [webapp] = windlass_tests::objects::documents(&windlass_tests::paths::example("webapp.yaml"))?
        .try_into()
        .map_err(|all| anyhow::anyhow!("one document: {all:?}"))?;
    server.objects().apply(&webapp).await?;
    until("the write is sent", || async {
        let sent = proxy.count(&Match::writes().resource("deployments"));
        if sent == 1 { Ok(()) } else { Err(sent) }
    })
    .await?;
    Ok((host, (server, proxy, plugins)))
}

/// When the time for calls is over, the server can no longer carry out the write.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_gets_no_answer_is_waited_for_and_the_stop_is_clean() -> anyhow::Result<()> {
    let (mut host, _stage) = hanging().await?;
    let began = Instant::now();
    host.signal("TERM").await?;
    let status = host.ends().await?;
    let (log, took) = (host.log(), began.elapsed());
    assert!(status.success() && log.contains("stopped clean=true"), "{status}: {log}");
    assert!(took < Duration::from_secs(25), "{took:?}: {log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_hangs_is_cut_in_the_end_and_the_exit_code_says_so() -> anyhow::Result<()> {
    let (mut host, (_server, proxy, _plugins)) = hanging().await?;
    // After the first write has failed, the plugin sends the next one, which is not answered either.
    let endless = Duration::from_mins(2);
    proxy.add(Fault::DelayResponse(endless..=endless).on(Match::writes().resource("services"))).keep();
    let began = Instant::now();
    host.signal("TERM").await?;
    let status = host.ends().await?;
    let (log, took) = (host.log(), began.elapsed());
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(took >= Duration::from_secs(24) && took < Duration::from_secs(40), "{took:?}: {log}");
    let cut =
        log.lines().find(|line| line.contains("were stopped") && line.contains("keys=")).context("whose calls")?;
    assert!(cut.contains("/shop"), "{cut}");
    assert!(log.contains("have not ended within 20s and are stopped") && log.contains("stopped clean=false"), "{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_host_at_once_whatever_hangs() -> anyhow::Result<()> {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let (mut host, _stage) = hanging().await?;
        host.signal("TERM").await?;
        host.says("a second signal ends at once").await?;
        let began = Instant::now();
        host.signal(signal).await?;
        let status = host.ends().await?;
        assert_eq!(status.code(), Some(code), "{}", host.log());
        assert!(began.elapsed() < QUICK_STOP_MAX, "{:?}", began.elapsed());
    }
    Ok(())
}

async fn a_stop_while_the_server_is_dead(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    server.install_webapp().await?;
    let proxy = Proxied::start(&server, 8).await?;
    let plugins = plugin_directory()?;
    let (mut host, address) =
        watched_at(proxy.kubeconfig(), server.objects().namespace(), plugins.path(), &["--leases=none"]).await?;
    host.says("controller started").await?;
    let story = Story::new(server.objects());
    story.create().await?;
    story.run().await?;
    at_rest(address).await?;
    proxy.go_dark();
    host.says("cannot be reached").await?;
    let began = Instant::now();
    host.signal("TERM").await?;
    let status = host.ends().await?;
    let (log, took) = (host.log(), began.elapsed());
    assert!(took < QUICK_STOP_MAX, "{took:?}: {log}");
    assert!(status.success() && log.contains("no call begins, and queued keys are dropped"), "{status}: {log}");
    assert_in_order(&log);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_stops_quickly_while_the_server_is_dead_on_the_embedded_server() -> anyhow::Result<()> {
    a_stop_while_the_server_is_dead(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_stops_quickly_while_the_server_is_dead_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_stop_while_the_server_is_dead(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_waiting_for_a_silent_server_stops_before_its_first_controller() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let proxy = Proxied::start(&server, 9).await?;
    proxy.go_silent();
    let plugins = plugin_directory()?;
    let mut host = Host::run(proxy.kubeconfig(), server.objects().namespace(), plugins.path())?;
    until("the host asks", || async {
        let connections = proxy.connections();
        if connections.accepted > 0 { Ok(()) } else { Err(connections) }
    })
    .await?;
    let began = Instant::now();
    host.signal("TERM").await?;
    assert!(host.ends().await?.success(), "{}", host.log());
    assert!(began.elapsed() < QUICK_STOP_MAX, "{:?}", began.elapsed());
    assert!(host.log().contains("stopped before the first controller started"), "{}", host.log());
    Ok(())
}
