//! `plugins/janitor`: objects are deleted at their times, by annotations and by rules.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_tests::kubectl::Kubectl;
use windlass_tests::objects::Objects;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{gives_no_finding, installed, running};

fn config_map(name: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations}})
}

/// Waits until the object does not exist.
async fn gone(objects: &Objects, kind: &str, name: &str) -> anyhow::Result<()> {
    until(&format!("{kind} {name} is deleted"), || async {
        ensure!(objects.get(kind, name).await?.is_none(), "it exists");
        Ok(())
    })
    .await
}

/// Waits until an Event of this reason is about the object, and returns its text.
async fn event(objects: &Objects, reason: &str, name: &str) -> anyhow::Result<String> {
    until(&format!("an Event {reason} about {name}"), || async {
        let events = objects.list("Event", "").await?;
        let found = events.iter().find(|it| it["reason"] == reason && it["regarding"]["name"] == name);
        found.map(|it| it["note"].to_string()).with_context(|| format!("{events:?}"))
    })
    .await
}

/// The embedded server alone: the rules are about all namespaces, and other stories share the real one.
#[tokio::test(flavor = "multi_thread")]
async fn objects_are_deleted_at_their_times() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let (objects, plugins) = (server.objects(), installed("janitor")?);
    // A rule that looks at metadata only, with a time that a test can wait for.
    let config = plugins.path().join("janitor.config.yaml");
    let text = std::fs::read_to_string(&config)?;
    std::fs::write(&config, text.replace("ttl: 4h", "ttl: 1s").replace("  deleteNotificationSeconds: 600\n", ""))?;

    // One object expires before the plugin runs.
    objects.apply(&config_map("early", &json!({"janitor/expires": "2020-01-01"}))).await?;
    let host = running(&server, &plugins).await?;
    gone(objects, "ConfigMap", "early").await?;
    let note = event(objects, "ExpiryTimeReached", "early").await?;
    ensure!(note.contains("janitor/expires=2020-01-01"), "{note}");

    // A user gives an object a time to live, and another one first makes a mistake.
    let kubectl = Kubectl::new(server.kubeconfig(), objects.namespace());
    for (name, annotations) in [
        ("kept", json!({"janitor/ttl": "forever"})),
        ("mistaken", json!({"janitor/ttl": "soon"})),
        ("plain", json!({})),
    ] {
        objects.apply(&config_map(name, &annotations)).await?;
    }
    let note = event(objects, "InvalidAnnotation", "mistaken").await?;
    ensure!(note.contains("is not a time to live"), "{note}");
    kubectl.run(&["annotate", "configmap", "plain", "janitor/ttl=1s"]).await?;
    gone(objects, "ConfigMap", "plain").await?;
    kubectl.run(&["annotate", "--overwrite", "configmap", "mistaken", "janitor/ttl=1s"]).await?;
    gone(objects, "ConfigMap", "mistaken").await?;

    // The rule is about Deployments whose names begin with `pr-`, unless an annotation takes precedence.
    for (name, annotations) in [("pr-7", json!({})), ("pr-8", json!({"janitor/ttl": "1h"})), ("web", json!({}))] {
        let template =
            json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "web", "image": "web"}]}});
        let spec = json!({"selector": {"matchLabels": {"app": name}}, "template": template});
        let metadata = json!({"name": name, "annotations": annotations});
        objects
            .apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}))
            .await?;
    }
    gone(objects, "Deployment", "pr-7").await?;
    let note = event(objects, "TimeToLiveExpired", "pr-7").await?;
    ensure!(note.contains("temporary-pull-requests"), "{note}");

    // A namespace takes its objects along, and the time of another object passes while the host is down.
    kubectl.run(&["create", "namespace", "preview"]).await?;
    kubectl.run(&["annotate", "namespace", "preview", "janitor/ttl=1s"]).await?;
    gone(objects, "Namespace", "preview").await?;
    ensure!(host.terminate().await?.success());
    objects.apply(&config_map("late", &json!({"janitor/expires": "2020-01-01"}))).await?;
    objects.apply(&config_map("zero", &json!({"janitor/ttl": "0s"}))).await?;
    let host = running(&server, &plugins).await?;
    gone(objects, "ConfigMap", "late").await?;
    for (kind, name) in [("ConfigMap", "kept"), ("ConfigMap", "zero"), ("Deployment", "pr-8"), ("Deployment", "web")] {
        ensure!(objects.get(kind, name).await?.is_some(), "{kind} {name} was deleted");
    }
    ensure!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_janitor_gives_no_finding() -> anyhow::Result<()> {
    gives_no_finding("janitor").await
}
