//! `plugins/downscaler`: workloads go down outside of their hours, and come up again with their size.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_tests::kubectl::Kubectl;
use windlass_tests::objects::Objects;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{gives_no_finding, installed, running};

/// The annotation with the number of replicas before a downtime.
const ORIGINAL: &str = "downscaler/original-replicas";

fn deployment(name: &str, annotations: &Value) -> Value {
    let template =
        json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "web", "image": "web"}]}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": template});
    let metadata = json!({"name": name, "annotations": annotations});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
}

/// Waits until the Deployment has so many replicas, and the annotation about its original ones has this value.
async fn has(objects: &Objects, name: &str, replicas: u64, original: &Value) -> anyhow::Result<()> {
    until(&format!("{name} has {replicas} replicas, and {original} before"), || async {
        let found = objects.get("Deployment", name).await?.unwrap_or_default();
        let before = &found["metadata"]["annotations"][ORIGINAL];
        ensure!(found["spec"]["replicas"] == replicas && before == original, "{found}");
        Ok(())
    })
    .await
}

/// The embedded server alone: the plugin concerns all namespaces, and other stories share the real one.
#[tokio::test(flavor = "multi_thread")]
async fn workloads_go_down_and_come_up_again() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let (objects, plugins) = (server.objects(), installed("downscaler")?);
    let config = plugins.path().join("downscaler.config.yaml");
    let text = std::fs::read_to_string(&config)?;
    std::fs::write(&config, text.replace("gracePeriodSeconds: 900", "gracePeriodSeconds: 0"))?;

    // The original has scaled one workload down, whose downtime ends while no downscaler runs.
    let mut former = deployment("former", &json!({ORIGINAL: "4", "downscaler/uptime": "always"}));
    former["spec"]["replicas"] = json!(0);
    objects.apply(&former).await?;
    for (name, annotations) in [
        ("web", json!({})),
        ("kept", json!({"downscaler/exclude": "true"})),
        ("one", json!({"downscaler/downtime-replicas": "1"})),
    ] {
        objects.apply(&deployment(name, &annotations)).await?;
    }
    let host = running(&server, &plugins).await?;
    has(objects, "former", 4, &Value::Null).await?;

    // The namespace gets a schedule, and then users work at night.
    let kubectl = Kubectl::new(server.kubeconfig(), objects.namespace());
    let annotate = async |annotation: &str| {
        kubectl.run(&["annotate", "--overwrite", "namespace", objects.namespace(), annotation]).await
    };
    annotate("downscaler/uptime=never").await?;
    has(objects, "web", 0, &json!("3")).await?;
    has(objects, "one", 1, &json!("3")).await?;
    kubectl.run(&["scale", "deployment", "web", "--replicas=5"]).await?;
    has(objects, "web", 0, &json!("5")).await?;
    annotate("downscaler/force-uptime=true").await?;
    has(objects, "web", 5, &Value::Null).await?;
    has(objects, "one", 3, &Value::Null).await?;
    annotate("downscaler/force-uptime-").await?;
    has(objects, "web", 0, &json!("5")).await?;

    // A mistake changes nothing, and the workload says so.
    annotate("downscaler/uptime=Mon-Fri 07:00-19:00 Berlin").await?;
    until("an Event about the mistake", || async {
        let events = objects.list("Event", "").await?;
        let found = events.iter().find(|it| it["reason"] == "InvalidAnnotation" && it["regarding"]["name"] == "web");
        let note = found.map(|it| it["note"].to_string()).with_context(|| format!("{events:?}"))?;
        ensure!(note.contains("'Berlin' is not a time zone"), "{note}");
        Ok(())
    })
    .await?;
    has(objects, "web", 0, &json!("5")).await?;

    // The uptime begins while the host is down.
    ensure!(host.terminate().await?.success());
    annotate("downscaler/uptime=Mon-Sun 00:00-24:00 Europe/Berlin").await?;
    let host = running(&server, &plugins).await?;
    has(objects, "web", 5, &Value::Null).await?;
    has(objects, "kept", 3, &Value::Null).await?;
    ensure!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_downscaler_gives_no_finding() -> anyhow::Result<()> {
    gives_no_finding("downscaler").await
}
