//! Kinds are added and removed while the host runs. The host reports that, and needs no restart.

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use windlass_tests::chameleon;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;

use crate::webapp::plugin_directory;

const DEFINITION: &str = "missings.missing.windlass.dev";

/// The definition that the chameleon waits for in the mode `missing-crd`.
pub(crate) fn definition(scope: &str, size: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": DEFINITION},
        "spec": {
            "group": "missing.windlass.dev", "scope": scope,
            "names": {"kind": "Missing", "plural": "missings", "singular": "missing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": size}}},
                }}},
            }],
        },
    })
}

async fn create(client: &Client, namespace: Option<&str>, name: &str, size: Value) -> anyhow::Result<()> {
    create_of(client, "Missing", namespace, name, size).await
}

/// Creates an object of `kind`, whose definition is as [`definition`], as soon as the server accepts it.
pub(crate) async fn create_of(
    client: &Client,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
    size: Value,
) -> anyhow::Result<()> {
    let singular = kind.to_lowercase();
    let group = format!("{singular}.windlass.dev");
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", kind), &format!("{singular}s"));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{group}/v1"), "kind": kind,
        "metadata": {"name": name, "labels": {"chameleon": "true"}}, "spec": {"size": size},
    }))?;
    until(&format!("{name} is created"), || async { api.create(&PostParams::default(), &object).await }).await?;
    Ok(())
}

async fn delete_definition(server: &Server) -> anyhow::Result<()> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        "customresourcedefinitions",
    );
    let api: Api<DynamicObject> = Api::all_with(server.objects().client().clone(), &resource);
    api.delete(DEFINITION, &DeleteParams::default()).await?;
    until("the definition is gone", || async {
        let found = server.objects().get("CustomResourceDefinition", DEFINITION).await?;
        anyhow::ensure!(found.is_none(), "{found:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn says(host: &Host, words: &[&str], times: usize) -> anyhow::Result<()> {
    let what = format!("{words:?} {times} times");
    let said = until(&what, || async {
        let log = host.log();
        let found = log.lines().filter(|line| words.iter().all(|word| line.contains(word))).count();
        if found >= times { Ok(()) } else { Err(found) }
    });
    said.await.map_err(|error| error.context(host.log()))
}

async fn a_kind_comes_goes_and_comes_back_as_another(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    server.install_webapp().await?;
    let (objects, client) = (server.objects(), server.objects().client());
    let plugins = plugin_directory()?;
    chameleon::write("missing-crd", &plugins.path().join("chameleon.wasm"))?;
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    says(&host, &["waiting", "missing.windlass.dev"], 1).await?;

    objects.apply(&definition("Namespaced", "string")).await?;
    says(&host, &["controller started", "chameleon"], 1).await?;
    create(client, Some(objects.namespace()), "first", json!("large")).await?;
    says(&host, &["chameleon reconciled", "first"], 1).await?;

    delete_definition(&server).await?;
    says(&host, &["controller stopped", "chameleon", "Missing"], 1).await?;
    Story::new(objects).create().await?;
    Story::new(objects).run().await?;

    objects.apply(&definition("Cluster", "integer")).await?;
    says(&host, &["controller started", "chameleon"], 2).await?;
    create(client, None, "second", json!(3)).await?;
    says(&host, &["chameleon reconciled", "second"], 1).await?;

    // Recreate the definition without a pause, as an upgrade does.
    delete_definition(&server).await?;
    objects.apply(&definition("Namespaced", "boolean")).await?;
    says(&host, &["controller stopped", "chameleon", "Missing"], 2).await?;
    says(&host, &["controller started", "chameleon"], 3).await?;
    create(client, Some(objects.namespace()), "third", json!(true)).await?;
    says(&host, &["chameleon reconciled", "third"], 1).await?;

    assert_eq!(host.log().matches("controller started plugin=webapp").count(), 1, "{}", host.log());
    delete_definition(&server).await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_can_be_added_removed_and_restored_on_the_embedded_server() -> anyhow::Result<()> {
    a_kind_comes_goes_and_comes_back_as_another(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_can_be_added_removed_and_restored_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_kind_comes_goes_and_comes_back_as_another(Kind::Real).await
}
