//! The steady case: a cluster in which all objects are correct, and contenders that only keep them in their caches.

use std::time::Duration;

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use windlass_tests::objects::Objects;
use windlass_tests::process::mebibytes;

use crate::cases::Figures;
use crate::contender::Ready;
use crate::load::{self, CONCURRENT_REQUESTS_MAX};
use crate::server::{Counts, Server};

/// The number of Pods for each `WebApp`.
const PODS_OF_WEBAPP: usize = 5;
/// The time for which a contender at rest is watched.
const OPERATORS_WATCH_TIME: Duration = Duration::from_secs(20);
/// For this time, the Deployments report their status.
const HEARTBEATS_TIME: Duration = Duration::from_secs(30);
/// One in so many Deployments reports its status each second.
const DEPLOYMENTS_OF_HEARTBEAT: usize = 100;
/// The longest time until a contender is at rest.
const CONTENDER_REST_TIMEOUT: Duration = Duration::from_mins(10);

/// A server with `WebApp`s, all of their children and statuses, and Pods without an owner. The contenders share it,
/// because none of them has anything to write.
pub(crate) async fn fill(count: usize) -> anyhow::Result<Server> {
    let server = Server::start().await?;
    load::create(&server.objects, 0..count).await?;
    let apps = server.objects.list("WebApp", "").await?;
    stream::iter(&apps)
        .map(Ok)
        .try_for_each_concurrent(CONCURRENT_REQUESTS_MAX, |app| bring_about(&server.objects, app))
        .await?;
    let pods = server.objects.api("Pod")?;
    let create = async |number: usize| {
        pods.create(&PostParams::default(), &serde_json::from_value(load::pod(number))?).await?;
        anyhow::Ok(())
    };
    stream::iter(0..count * PODS_OF_WEBAPP).map(Ok).try_for_each_concurrent(CONCURRENT_REQUESTS_MAX, create).await?;
    Ok(server)
}

/// Writes everything that a contender would write for a `WebApp`.
async fn bring_about(objects: &Objects, app: &Value) -> anyhow::Result<()> {
    let name = app["metadata"]["name"].as_str().unwrap_or_default();
    let selector = json!({"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": name});
    let mut labels = selector.clone();
    labels["app.kubernetes.io/managed-by"] = json!("windlass");
    let owner = json!({
        "apiVersion": app["apiVersion"], "kind": "WebApp", "name": name, "uid": app["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    });
    let metadata = json!({"name": name, "labels": labels, "ownerReferences": [owner]});
    let ports = json!([{"name": "http", "containerPort": app["spec"]["port"], "protocol": "TCP"}]);
    let template = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": app["spec"]["image"], "ports": ports}]},
    });
    let spec = json!({
        "replicas": app["spec"]["replicas"], "selector": {"matchLabels": selector}, "template": template,
    });
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
    let ports = json!([{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]);
    let spec = json!({"selector": selector, "ports": ports});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
    for (kind, child) in [("Deployment", deployment), ("Service", service)] {
        objects.api(kind)?.create(&PostParams::default(), &serde_json::from_value(child)?).await?;
    }
    let patch = Patch::Merge(json!({"status": status(app)}));
    objects.api("WebApp")?.patch_status(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

fn status(app: &Value) -> Value {
    let generation = &app["metadata"]["generation"];
    let condition = |of: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": of, "status": status, "reason": reason, "message": message, "observedGeneration": generation,
            "lastTransitionTime": app["metadata"]["creationTimestamp"],
        })
    };
    let count = format!("0 of {} replicas are ready", app["spec"]["replicas"]);
    let conditions = [
        condition("Ready", "False", "ReplicasNotReady", &count),
        condition("Progressing", "True", "RollingOut", "the Deployment is rolling out this spec"),
    ];
    json!({"observedGeneration": generation, "readyReplicas": 0, "phase": "Pending", "conditions": conditions})
}

/// Starts a contender, waits until it is at rest, watches it for a while, also while Deployments report their status,
/// and ends it.
pub(crate) async fn run(
    server: &Server,
    ready: &Ready,
    objects: usize,
    round: u32,
) -> anyhow::Result<(Figures, Counts)> {
    let before = server.counts().await?;
    let running = ready.start_with_pods(server, &format!("steady-{round}")).await?;
    let process = running.process()?;
    let at_rest = process.at_rest(CONTENDER_REST_TIMEOUT).await?.duration_since(running.began);
    let cpu_start = process.cpu()?;
    let at_rest_cpu = process.cpu_over(OPERATORS_WATCH_TIME).await?;
    let memory = process.memory()?;
    let counts = server.counts().await?.since(&before, &[]);
    let written: u64 = counts.requests.iter().filter(|(it, _)| is_write(it)).map(|(_, count)| count).sum();
    ensure!(written == 0, "{} wrote although there was nothing to do: {:?}", ready.name(), counts.requests);
    let (beats, heartbeats_cpu) = tokio::try_join!(heartbeats(server, objects), process.cpu_over(HEARTBEATS_TIME))?;
    running.stop().await?;
    let ours = [("PATCH deployments/status", beats)];
    let after = server.counts().await?.since(&before, &ours);
    ensure!(
        after.requests.iter().all(|(it, _)| !is_write(it)),
        "{} wrote for a heartbeat: {:?}",
        ready.name(),
        after.requests
    );
    let figures = Figures::from([
        ("at_rest_s", at_rest.as_secs_f64()),
        ("start_cpu_s", cpu_start.as_secs_f64()),
        ("heartbeats_cpu_ms_s", heartbeats_cpu.as_secs_f64() * 1e3 / HEARTBEATS_TIME.as_secs_f64()),
        ("rest_cpu_ms_s", at_rest_cpu.as_secs_f64() * 1e3 / OPERATORS_WATCH_TIME.as_secs_f64()),
        ("pss_mib", mebibytes(memory.proportional)),
        ("anonymous_mib", mebibytes(memory.anonymous)),
        ("peak_rss_mib", mebibytes(memory.peak)),
        ("told_mib", mebibytes(counts.response_bytes)),
    ]);
    Ok((figures, counts))
}

/// Lets the Deployment of each of the first `count` objects report the same status again, with a new time. The numbers
/// of replicas, which a contender needs, stay.
pub(crate) async fn heartbeat(objects: &Objects, count: usize, pace: Option<Duration>) -> anyhow::Result<()> {
    let (api, began) = (objects.api("Deployment")?, tokio::time::Instant::now());
    let report = async |number: usize| {
        if let Some(pace) = pace {
            tokio::time::sleep_until(began + pace * u32::try_from(number)?).await;
        }
        let condition = json!({
            "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "it has progressed",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": Timestamp::now(),
        });
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        api.patch_status(&load::name(number), &PatchParams::default(), &patch).await?;
        anyhow::Ok(())
    };
    stream::iter(0..count).map(Ok).try_for_each_concurrent(CONCURRENT_REQUESTS_MAX, report).await
}

/// Lets some of the Deployments report their status each second, and returns the number of reports.
async fn heartbeats(server: &Server, objects: usize) -> anyhow::Result<u64> {
    let of_a_second = objects.div_ceil(DEPLOYMENTS_OF_HEARTBEAT);
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    for _ in 0..HEARTBEATS_TIME.as_secs() {
        ticks.tick().await;
        heartbeat(&server.objects, of_a_second, None).await?;
    }
    Ok((of_a_second as u64) * HEARTBEATS_TIME.as_secs())
}

fn is_write(request: &str) -> bool {
    !["GET", "LIST", "WATCH"].iter().any(|verb| request.starts_with(verb))
}
