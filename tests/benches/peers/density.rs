//! The density case: many operators, each with its own kind, and each owner of Pods and `ConfigMap`s. A host is one
//! process with a plugin for each operator; a peer has a process for each operator.

use std::path::Path;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::json;
use windlass_tests::chameleon;
use windlass_tests::process::mebibytes;

use crate::cases::Figures;
use crate::contender::{Ready, Running};
use crate::load::{self, CONCURRENT_REQUESTS_MAX};
use crate::server::{NAMESPACE, Server};

/// The number of Pods, and the number of `ConfigMap`s.
const CACHED_OBJECTS: usize = 1_000;
/// The number of objects of each operator's own kind.
const OWN_OBJECTS: usize = 2;
/// The time for which operators at rest are watched.
const OPERATORS_WATCH_TIME: Duration = Duration::from_secs(20);
/// The time in which the operators come to rest, before they are watched.
const SETTLING_TIME: Duration = Duration::from_secs(5);

/// A server with the kinds of the operators, objects of these kinds, and the objects that all operators cache.
pub(crate) async fn fill(operators: usize) -> anyhow::Result<Server> {
    let server = Server::start().await?;
    let post = PostParams::default();
    let define = async |number: usize| {
        server.objects.apply(&definition(number)).await?;
        anyhow::Ok(())
    };
    stream::iter(0..operators).map(Ok).try_for_each_concurrent(CONCURRENT_REQUESTS_MAX, define).await?;
    let (pods, maps) = (server.objects.api("Pod")?, server.objects.api("ConfigMap")?);
    let cache = async |number: usize| {
        pods.create(&post, &serde_json::from_value(load::pod(number))?).await?;
        maps.create(&post, &serde_json::from_value(map(number))?).await?;
        anyhow::Ok(())
    };
    stream::iter(0..CACHED_OBJECTS).map(Ok).try_for_each_concurrent(CONCURRENT_REQUESTS_MAX, cache).await?;
    let own = async |number: usize| {
        let (group, kind) = (group(number), format!("Op{number}"));
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", &kind), &format!("op{number}s"));
        let own = Api::<DynamicObject>::namespaced_with(server.client().clone(), NAMESPACE, &resource);
        for of in 0..OWN_OBJECTS {
            let object = DynamicObject::new(&format!("own-{of}"), &resource);
            windlass_tests::wait::until("its kind is served", || own.create(&post, &object)).await?;
        }
        anyhow::Ok(())
    };
    stream::iter(0..operators).map(Ok).try_for_each_concurrent(CONCURRENT_REQUESTS_MAX, own).await?;
    Ok(server)
}

fn group(number: usize) -> String {
    format!("op{number}.density.windlass.dev")
}

fn definition(number: usize) -> serde_json::Value {
    let (group, plural) = (group(number), format!("op{number}s"));
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": format!("Op{number}"), "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// A `ConfigMap` of about 2 KB.
fn map(number: usize) -> serde_json::Value {
    let data = json!({"settings.yaml": format!("number: {number}\n").repeat(150)});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{number:05}")}, "data": data})
}

/// Starts the operators, watches them at rest, and ends them.
pub(crate) async fn run(server: &Server, ready: &Ready, operators: usize, round: u32) -> anyhow::Result<Figures> {
    let plugins = tempfile::tempdir()?;
    let host = ready.contender.is_a_host();
    if host {
        write(operators, plugins.path())?;
        // As in all cases, each plugin is compiled once before the measurement.
        stop(start(server, ready, operators, plugins.path(), "compiles").await?).await?;
    }
    let before = server.watches().await?;
    let began = Instant::now();
    let running = start(server, ready, operators, plugins.path(), &format!("density-{operators}-{round}")).await?;
    let ready_s = began.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLING_TIME).await;
    let used = cpu(&running)?;
    tokio::time::sleep(OPERATORS_WATCH_TIME).await;
    let used = cpu(&running)?.saturating_sub(used);
    let (mut proportional, mut anonymous) = (0, 0);
    for process in &running {
        let memory = process.process()?.memory()?;
        proportional += memory.proportional;
        anonymous += memory.anonymous;
    }
    let watches = server.watches().await? - before;
    stop(running).await?;
    Ok(Figures::from([
        ("pss_mib", mebibytes(proportional)),
        ("pss_each_mib", mebibytes(proportional) / operators as f64),
        ("anonymous_mib", mebibytes(anonymous)),
        ("watches", watches),
        ("ready_s", ready_s),
        ("rest_cpu_ms_s", used.as_secs_f64() * 1e3 / OPERATORS_WATCH_TIME.as_secs_f64()),
    ]))
}

/// Writes the plugins of the operators, with different bytes.
fn write(operators: usize, folder: &Path) -> anyhow::Result<()> {
    let plugin = |number| (format!("operator-{number}"), folder.join(format!("operator-{number}.wasm")));
    (0..operators).map(plugin).try_for_each(|(mode, path)| chameleon::write(&mode, &path))
}

async fn start(
    server: &Server,
    ready: &Ready,
    operators: usize,
    plugins: &Path,
    occasion: &str,
) -> anyhow::Result<Vec<Running>> {
    if ready.contender.is_a_host() {
        let plugins = format!("--plugins={}", plugins.display());
        let arguments = ["run".to_owned(), plugins, "--grants=manifest".to_owned(), "--leases=none".to_owned()];
        return Ok(vec![ready.start_with(&arguments, operators, server, occasion).await?]);
    }
    let start = |number: usize| async move {
        let arguments = [format!("--operator={number}"), "--strip".to_owned()];
        ready.start_with(&arguments, 1, server, &format!("{occasion}-{number}")).await
    };
    stream::iter(0..operators).map(start).buffered(CONCURRENT_REQUESTS_MAX).try_collect().await
}

async fn stop(running: Vec<Running>) -> anyhow::Result<()> {
    stream::iter(running).map(Ok).try_for_each_concurrent(CONCURRENT_REQUESTS_MAX, Running::stop).await
}

fn cpu(running: &[Running]) -> anyhow::Result<Duration> {
    running.iter().map(|it| it.process()?.cpu()).sum()
}
