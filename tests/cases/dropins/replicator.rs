//! `plugins/replicator`: copies of Secrets and `ConfigMap`s follow their sources.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_tests::kubectl::Kubectl;
use windlass_tests::objects::Objects;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{gives_no_finding, installed, running};

/// The prefix of the original's annotations.
const PREFIX: &str = "replicator.v1.mittwald.de";

fn config_map(name: &str, annotations: &[(&str, &str)], data: &Value) -> Value {
    let annotations: Value = annotations.iter().map(|(key, value)| (format!("{PREFIX}/{key}"), *value)).collect();
    let metadata = json!({"name": name, "annotations": annotations});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

/// A further namespace of the test, with objects of its own.
async fn namespace(objects: &Objects, suffix: &str) -> anyhow::Result<Objects> {
    let name = format!("{}-{suffix}", objects.namespace());
    objects.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await?;
    Ok(Objects::new(objects.client().clone(), &name))
}

/// Waits until the `ConfigMap` has exactly this data, or is gone if `data` is null.
async fn has(objects: &Objects, name: &str, data: &Value) -> anyhow::Result<()> {
    until(&format!("{}/{name} has {data}", objects.namespace()), || async {
        let found = objects.get("ConfigMap", name).await?;
        let found = found.as_ref().map_or(&Value::Null, |it| &it["data"]);
        ensure!(found == data, "{found}");
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

async fn copies_follow_their_sources(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let (objects, plugins) = (server.objects(), installed("replicator")?);
    let own = objects.namespace();
    let (a, b) = (namespace(objects, "a").await?, namespace(objects, "b").await?);
    // The original has made one copy before. The other object only has the same name.
    let copied = [("replicated-from-version", "1"), ("replicated-keys", "mode,old")];
    a.apply(&config_map("pushed", &copied, &json!({"mode": "slow", "old": "x"}))).await?;
    b.apply(&config_map("pushed", &[], &json!({"own": "kept"}))).await?;
    let everywhere = format!("{own}-[a-z]");
    objects.apply(&config_map("pushed", &[("replicate-to", &everywhere)], &json!({"mode": "fast"}))).await?;
    let host = running(&server, &plugins).await?;
    has(&a, "pushed", &json!({"mode": "fast"})).await?;
    has(&b, "pushed", &json!({"mode": "fast", "own": "kept"})).await?;

    // A user changes the source, damages copies, and adds a namespace.
    let kubectl = Kubectl::new(server.kubeconfig(), own);
    kubectl
        .run(&["patch", "configmap", "pushed", "--type=merge", "--patch={\"data\":{\"mode\":null,\"level\":\"1\"}}"])
        .await?;
    has(&a, "pushed", &json!({"level": "1"})).await?;
    has(&b, "pushed", &json!({"level": "1", "own": "kept"})).await?;
    a.delete("ConfigMap", "pushed").await?;
    b.merge("ConfigMap", "pushed", &json!({"data": {"level": "9"}})).await?;
    let c = namespace(objects, "c").await?;
    for (place, data) in
        [(&a, json!({"level": "1"})), (&b, json!({"level": "1", "own": "kept"})), (&c, json!({"level": "1"}))]
    {
        has(place, "pushed", &data).await?;
    }

    // A target pulls as soon as the source permits it.
    let from = format!("{own}/base");
    a.apply(&config_map("pulled", &[("replicate-from", &from)], &json!({"own": "kept"}))).await?;
    objects.apply(&config_map("base", &[], &json!({"key": "1"}))).await?;
    let note = event(&a, "SourceUnavailable", "pulled").await?;
    ensure!(note.contains("does not exist, or does not permit replication"), "{note}");
    for annotation in ["replication-allowed=true", &format!("replication-allowed-namespaces={everywhere}")] {
        kubectl.run(&["annotate", "configmap", "base", &format!("{PREFIX}/{annotation}")]).await?;
    }
    has(&a, "pulled", &json!({"key": "1", "own": "kept"})).await?;

    // A typo in the annotation of a source deletes no copies.
    let push_to = async |destinations: &str| {
        let annotation = format!("{PREFIX}/replicate-to={destinations}");
        kubectl.run(&["annotate", "--overwrite", "configmap", "pushed", &annotation]).await
    };
    push_to(&format!("{own}-c,{own}-(")).await?;
    let note = event(objects, "InvalidAnnotation", "pushed").await?;
    ensure!(note.contains("is not closed"), "{note}");
    kubectl.run(&["patch", "configmap", "pushed", "--type=merge", "--patch={\"data\":{\"level\":\"2\"}}"]).await?;
    has(&c, "pushed", &json!({"level": "2"})).await?;
    has(&a, "pushed", &json!({"level": "1"})).await?;

    // The host is down while the source goes and its destinations shrink.
    ensure!(host.terminate().await?.success());
    kubectl.run(&["delete", "configmap", "base"]).await?;
    push_to(&format!("{own}-c")).await?;
    let host = running(&server, &plugins).await?;
    has(&a, "pulled", &json!({"own": "kept"})).await?;
    has(&a, "pushed", &Value::Null).await?;
    has(&b, "pushed", &json!({"own": "kept"})).await?;
    has(&c, "pushed", &json!({"level": "2"})).await?;
    ensure!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_follow_their_sources_on_the_embedded_server() -> anyhow::Result<()> {
    copies_follow_their_sources(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_follow_their_sources_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    copies_follow_their_sources(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_replicator_gives_no_finding() -> anyhow::Result<()> {
    gives_no_finding("replicator").await
}
