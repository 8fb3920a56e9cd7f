//! A host with growing work: many plugins beside many cached Pods, and many unchanged objects of which some change. The
//! embedded server runs in this process; the server and the load use the same processors as the host.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::ListParams;
use windlass_tests::process::mebibytes;
use windlass_tests::server::{Kind, Server};
use windlass_tests::{hostile, paths};

use crate::load::{self, CONCURRENT_REQUESTS_MAX, Watches};
use crate::milliseconds;
use crate::support::create;
use crate::support::process::Watched;

/// The longest time until a host with so much work is at rest.
const REST_TIMEOUT: Duration = Duration::from_mins(20);
/// The time for which a host at rest is watched.
const REST_WATCH_TIME: Duration = Duration::from_secs(10);
/// The number of seconds in which objects change.
const CHANGING_SECONDS: usize = 20;
/// Lifts the limit on a plugin's writes; the default is 500 per second in the long run.
const LIFTED: &[&str] = &["--writes-per-second=0"];

/// Measures idle plugins beside the `ReplicaSet` plugin, for which the host caches every Pod, at each number of Pods.
pub(crate) async fn pods(plugins: usize, sizes: &[usize]) -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let folder = tempfile::tempdir()?;
    (0..plugins).try_for_each(|number| hostile::write(&format!("idle-{number}"), folder.path()))?;
    copy("replicaset.wasm", folder.path())?;
    // The first host compiles the plugins.
    Watched::with_controllers(&server, folder.path(), plugins + 1, &[]).await?.0.end().await?;
    let api = server.objects().api("Pod")?;
    let mut there = 0;
    for &size in sizes {
        stream::iter(there..size)
            .map(Ok)
            .try_for_each_concurrent(CONCURRENT_REQUESTS_MAX, |number| create(&api, load::pod(number)))
            .await?;
        there = size;
        print_start(&server, folder.path(), plugins + 1, &format!("{plugins} plugins, {size} Pods"))
            .await?
            .end()
            .await?;
    }
    Ok(())
}

/// Measures at each number of `WebApp`s: a host that creates their children; then a different host that finds
/// everything done; then a change of one percent of the objects each second.
pub(crate) async fn objects(sizes: &[usize]) -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let folder = tempfile::tempdir()?;
    copy("webapp.wasm", folder.path())?;
    let mut there = 0;
    for &size in sizes {
        let (host, _) = Watched::with_controllers(&server, folder.path(), 1, LIFTED).await?;
        let (began, used) = (Instant::now(), host.cpu()?);
        load::create(server.objects(), there..size).await?;
        let took = host.process()?.at_rest(REST_TIMEOUT).await?.saturating_duration_since(began).as_secs_f64();
        let used = (host.cpu()?.saturating_sub(used)).as_secs_f64();
        let children = server.objects().api("Deployment")?.list_metadata(&ListParams::default()).await?.items.len();
        ensure!(children == size, "{children} Deployments of {size} WebApps");
        let new = (size - there) as f64;
        println!(
            "{} more WebApps: {took:.1} s, {:.0} a second; {:.2} ms of the host each",
            size - there,
            new / took,
            used * 1e3 / new
        );
        host.end().await?;
        let host = print_start(&server, folder.path(), 1, &format!("{size} WebApps and their children")).await?;
        change(&server, &host, size, "defaults").await?;
        host.end().await?;
        let (host, _) = Watched::with_controllers(&server, folder.path(), 1, LIFTED).await?;
        host.process()?.at_rest(REST_TIMEOUT).await?;
        change(&server, &host, size, "no write budget").await?;
        host.end().await?;
        there = size;
    }
    Ok(())
}

/// Changes one percent of the objects each second.
async fn change(server: &Server, host: &Watched, size: usize, settings: &str) -> anyhow::Result<()> {
    let a_second = size / 100;
    let mut watches = Watches::start(server.objects()).await?;
    let (began, used) = (Instant::now(), host.cpu()?);
    let count = a_second * CHANGING_SECONDS;
    let pace = Duration::from_secs(1) / u32::try_from(a_second)?;
    let image = format!("nginx:{size}-{}", settings.replace(' ', "-"));
    let times = load::edit_each(server.objects(), &mut watches, count, Some(pace), &image).await?;
    let took = began.elapsed().as_secs_f64();
    let used = host.cpu()?.saturating_sub(used).as_secs_f64();
    println!(
        "  {settings}: {a_second} changes a second were asked for, {:.0} came: p50 {:.1} ms, p99 {:.1} ms until the child's change; the host {:.2} ms each, {:.0} ms a second",
        count as f64 / took,
        milliseconds(load::percentile(&times, 50)),
        milliseconds(load::percentile(&times, 99)),
        used * 1e3 / count as f64,
        used * 1e3 / took,
    );
    let memory = host.memory().await?;
    println!("  then {:.0} MiB, {:.0} anonymous", mebibytes(memory.proportional), mebibytes(memory.anonymous));
    Ok(())
}

/// Starts a host that finds everything done, and prints the cost.
async fn print_start(server: &Server, plugins: &Path, controllers: usize, what: &str) -> anyhow::Result<Watched> {
    let began = Instant::now();
    let (host, ready) = Watched::with_controllers(server, plugins, controllers, &[]).await?;
    let at_rest = host.process()?.at_rest(REST_TIMEOUT).await?.saturating_duration_since(began);
    let start = host.cpu()?;
    let memory = host.memory().await?;
    let used = host.process()?.cpu_over(REST_WATCH_TIME).await?.as_secs_f64() / REST_WATCH_TIME.as_secs_f64();
    println!(
        "{what}: ready in {:.1} s, at rest in {:.1} s with {:.1} s of processor time; {:.0} MiB, {:.0} anonymous, peak {:.0}; at rest {:.1} ms a second",
        ready.as_secs_f64(),
        at_rest.as_secs_f64(),
        start.as_secs_f64(),
        mebibytes(memory.proportional),
        mebibytes(memory.anonymous),
        mebibytes(memory.peak),
        used * 1e3,
    );
    Ok(host)
}

fn copy(plugin: &str, folder: &Path) -> anyhow::Result<()> {
    let built = paths::plugins()?.join(plugin);
    std::fs::copy(&built, folder.join(plugin)).with_context(|| format!("copy {}", built.display()))?;
    Ok(())
}
