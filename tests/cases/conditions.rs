//! A plugin whose primaries are chosen by an annotation (`where` in its manifest).

use serde_json::{Value, json};
use windlass_tests::chameleon;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

const FINALIZER: &str = "windlass.dev/chameleon";
const AUTO: &str = "chameleon.windlass.dev/auto";

async fn create(server: &Server, name: &str, annotations: Value) -> anyhow::Result<()> {
    let metadata = json!({"name": name, "annotations": annotations});
    server.objects().apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await?;
    Ok(())
}

async fn get(server: &Server, name: &str) -> anyhow::Result<Value> {
    Ok(server.objects().get("ConfigMap", name).await?.unwrap_or_default())
}

async fn annotate(server: &Server, name: &str, value: Value) -> anyhow::Result<()> {
    server.objects().merge("ConfigMap", name, &json!({"metadata": {"annotations": {AUTO: value}}})).await?;
    Ok(())
}

async fn an_annotation_makes_an_object_a_primary(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let plugins = tempfile::tempdir()?;
    chameleon::write("choosy", &plugins.path().join("chameleon.wasm"))?;
    create(&server, "before", json!({})).await?;
    let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
    host.says("controller started").await?;
    create(&server, "first", json!({AUTO: "no"})).await?;
    create(&server, "second", json!({AUTO: "true"})).await?;
    host.says("chameleon sees second with 1 finalizers").await?;
    for name in ["before", "first"] {
        assert!(get(&server, name).await?["metadata"]["finalizers"].is_null(), "{name} is no primary");
    }

    annotate(&server, "first", json!("true")).await?;
    host.says("chameleon sees first with 1 finalizers").await?;
    annotate(&server, "first", Value::Null).await?;
    host.says("chameleon misses first").await?;
    assert_eq!(get(&server, "first").await?["metadata"]["finalizers"], json!([FINALIZER]), "it was not cleaned up");

    server.objects().delete("ConfigMap", "first").await?;
    host.says("chameleon cleans up first").await?;
    server.objects().merge("ConfigMap", "first", &json!({"data": {"cleaned": "yes"}})).await?;
    host.says("chameleon has cleaned up first").await?;
    until("first is gone", || async {
        let left = get(&server, "first").await?;
        anyhow::ensure!(left.is_null(), "{left}");
        Ok(())
    })
    .await?;
    assert!(!host.log().lines().any(|line| line.contains("chameleon") && line.contains(" before")), "{}", host.log());
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_makes_an_object_a_primary_on_the_embedded_server() -> anyhow::Result<()> {
    an_annotation_makes_an_object_a_primary(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_makes_an_object_a_primary_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    an_annotation_makes_an_object_a_primary(Kind::Real).await
}
