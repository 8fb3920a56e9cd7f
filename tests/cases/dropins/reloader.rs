//! `plugins/reloader`: Pods are replaced when their `ConfigMap`s and Secrets change.

use anyhow::ensure;
use serde_json::{Value, json};
use windlass_tests::kubectl::Kubectl;
use windlass_tests::objects::Objects;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{gives_no_finding, installed, running};

/// The value that the original has written into the Pod template of the test's Deployment.
const OF_THE_ORIGINAL: &str = "c9510996b6bf028c1e143a3005ef7bd21c633954";

/// A workload with the annotations of the original, whose container has this environment and uses the `ConfigMap` app.
fn workload(kind: &str, name: &str, annotations: &Value, environment: &Value) -> Value {
    let labels = json!({"app": name});
    let source = json!([{"configMapRef": {"name": "app"}}]);
    let container = json!({"name": "main", "image": "example", "env": environment, "envFrom": source});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    let mut spec = json!({"selector": {"matchLabels": labels}, "template": template});
    if kind == "StatefulSet" {
        spec["serviceName"] = json!(name);
    }
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "annotations": annotations}, "spec": spec})
}

/// The value of a variable of the container; empty if there is none.
async fn variable(objects: &Objects, kind: &str, name: &str, variable: &str) -> anyhow::Result<String> {
    let found = objects.get(kind, name).await?.unwrap_or_default();
    let variables = found["spec"]["template"]["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
    let value = variables.iter().find(|it| it["name"] == variable).map(|it| it["value"].clone()).unwrap_or_default();
    Ok(value.as_str().unwrap_or_default().to_owned())
}

/// Waits until the variable has another value than before, and returns it.
async fn reloads(objects: &Objects, kind: &str, name: &str, source: &str, before: &str) -> anyhow::Result<String> {
    until(&format!("{kind} {name} reloads for {source}"), || async {
        let value = variable(objects, kind, name, source).await?;
        ensure!(!value.is_empty() && value != before, "{value}");
        Ok(value)
    })
    .await
}

/// Waits until the plugin has written down with which sources the workload runs.
async fn is_seen(objects: &Objects, kind: &str, name: &str, source: &str) -> anyhow::Result<()> {
    until(&format!("{kind} {name} is seen with {source}"), || async {
        let found = objects.get(kind, name).await?.unwrap_or_default();
        let annotation = found["metadata"]["annotations"]["reloader.windlass.dev/seen"].as_str().unwrap_or_default();
        ensure!(annotation.contains(source), "{found}");
        Ok(())
    })
    .await
}

async fn pods_follow_their_sources(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let (objects, plugins) = (server.objects(), installed("reloader")?);
    let kubectl = Kubectl::new(server.kubeconfig(), objects.namespace());
    let change = async |kind: &str, name: &str, data: Value| {
        let patch = json!({if kind == "secret" { "stringData" } else { "data" }: data});
        kubectl.run(&["patch", kind, name, "--type=merge", "-p", &patch.to_string()]).await
    };
    objects
        .apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"a": "1"}}))
        .await?;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token-1"}, "stringData": {"a": "1"}});
    objects.apply(&secret).await?;
    let marked = json!([{"name": "STAKATER_APP_CONFIGMAP", "value": OF_THE_ORIGINAL}]);
    let auto = json!({"reloader.stakater.com/auto": "true"});
    objects.apply(&workload("Deployment", "web", &auto, &marked)).await?;
    let search = json!({"reloader.stakater.com/search": "true"});
    objects.apply(&workload("DaemonSet", "agent", &search, &json!([]))).await?;
    let named = json!({"secret.reloader.stakater.com/reload": "token-[0-9], missing"});
    objects.apply(&workload("StatefulSet", "queue", &named, &json!([]))).await?;

    // The switch from the original replaces no Pod, and a change does.
    let host = running(&server, &plugins).await?;
    is_seen(objects, "Deployment", "web", "ConfigMap/app").await?;
    is_seen(objects, "StatefulSet", "queue", "Secret/token-1").await?;
    let first = variable(objects, "Deployment", "web", "STAKATER_APP_CONFIGMAP").await?;
    ensure!(first == OF_THE_ORIGINAL, "{first}");
    change("configmap", "app", json!({"a": "2"})).await?;
    let second = reloads(objects, "Deployment", "web", "STAKATER_APP_CONFIGMAP", &first).await?;
    change("secret", "token-1", json!({"a": "2"})).await?;
    reloads(objects, "StatefulSet", "queue", "STAKATER_TOKEN_1_SECRET", "").await?;
    until("an Event names the source", || async {
        let events = kubectl.run(&["get", "events"]).await?;
        ensure!(events.contains("because these changed: ConfigMap/app"), "{events}");
        Ok(())
    })
    .await?;

    // A ConfigMap that is marked counts for the DaemonSet from then on.
    ensure!(variable(objects, "DaemonSet", "agent", "STAKATER_APP_CONFIGMAP").await?.is_empty());
    kubectl.run(&["annotate", "configmap", "app", "reloader.stakater.com/match=true"]).await?;
    is_seen(objects, "DaemonSet", "agent", "ConfigMap/app").await?;

    // A change while the host is down is not lost.
    ensure!(host.terminate().await?.success());
    change("configmap", "app", json!({"a": "3"})).await?;
    let host = running(&server, &plugins).await?;
    reloads(objects, "Deployment", "web", "STAKATER_APP_CONFIGMAP", &second).await?;
    reloads(objects, "DaemonSet", "agent", "STAKATER_APP_CONFIGMAP", "").await?;
    ensure!(host.terminate().await?.success());

    // With the other strategy, an annotation of the Pod template names the source.
    let config = "apiVersion: windlass.dev/v1alpha1\nkind: PluginConfig\nplugin: reloader\n\
                  config: {reloadStrategy: annotations, namespaceSelector: reload}\n";
    std::fs::write(plugins.path().join("reloader.config.yaml"), config)?;
    let host = running(&server, &plugins).await?;
    until("the namespace is not selected", || async {
        let found = objects.get("StatefulSet", "queue").await?.unwrap_or_default();
        ensure!(found["metadata"]["annotations"]["reloader.windlass.dev/seen"].is_null(), "{found}");
        Ok(())
    })
    .await?;
    kubectl.run(&["label", "namespace", objects.namespace(), "reload=yes"]).await?;
    is_seen(objects, "StatefulSet", "queue", "Secret/token-1").await?;
    change("secret", "token-1", json!({"a": "3"})).await?;
    until("the annotation names the Secret", || async {
        let found = objects.get("StatefulSet", "queue").await?.unwrap_or_default();
        let annotations = &found["spec"]["template"]["metadata"]["annotations"];
        let origin = annotations["reloader.stakater.com/last-reloaded-from"].as_str().unwrap_or_default();
        ensure!(origin.starts_with(r#"{"type":"SECRET","name":"token-1","#), "{found}");
        Ok(())
    })
    .await?;
    ensure!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_follow_their_sources_on_the_embedded_server() -> anyhow::Result<()> {
    pods_follow_their_sources(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_follow_their_sources_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    pods_follow_their_sources(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reloader_gives_no_finding() -> anyhow::Result<()> {
    gives_no_finding("reloader").await
}
