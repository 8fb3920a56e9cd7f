//! Definitions that a plugin brings: installed before its controllers look for their kinds, and never so that objects are lost.

use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use windlass_tests::chameleon;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

const DEFINITION: &str = "broughts.brought.windlass.dev";

async fn a_plugin_brings_its_kind(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let (objects, plugins) = (server.objects(), tempfile::tempdir()?);
    let component = plugins.path().join("chameleon.wasm");
    chameleon::write("bringing", &component)?;
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    host.says("definition installed").await?;
    host.says("controller started").await?;
    let gvk = GroupVersionKind::gvk("brought.windlass.dev", "v1", "Brought");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "broughts");
    let api: Api<DynamicObject> = Api::namespaced_with(objects.client().clone(), objects.namespace(), &resource);
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "brought.windlass.dev/v1", "kind": "Brought",
        "metadata": {"name": "first", "labels": {"chameleon": "true"}}, "spec": {},
    }))?;
    until("an object is created", || async { api.create(&PostParams::default(), &object).await }).await?;
    host.says("chameleon reconciled").await?;
    assert!(host.terminate().await?.success());

    // What is there is left alone.
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    host.says("controller started").await?;
    assert!(!host.log().contains("definition installed"), "{}", host.log());
    assert!(host.terminate().await?.success());

    chameleon::write("bringing-other", &component)?;
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    let told = host.says("waiting: the plugin starts when its definitions can be installed").await?;
    assert!(told.contains(DEFINITION) && told.contains("storedVersions"), "{told}");
    let definition = objects.get("CustomResourceDefinition", DEFINITION).await?.unwrap_or_default();
    assert_eq!(definition["spec"]["versions"][0]["name"], "v1", "{definition}");
    assert!(host.terminate().await?.success(), "one that waits can be stopped");
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "customresourcedefinitions");
    let api: Api<DynamicObject> = Api::all_with(objects.client().clone(), &resource);
    api.delete(DEFINITION, &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_brings_its_kind_to_the_embedded_server() -> anyhow::Result<()> {
    a_plugin_brings_its_kind(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_brings_its_kind_to_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_plugin_brings_its_kind(Kind::Real).await
}
