//! Tests definitions in a plugin's manifest. If the operator allows it, the host installs them before the plugin's
//! controllers look for their kinds, and never in a way that loses objects.

use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use tokio::sync::Mutex;
use windlass_tests::chameleon;
use windlass_tests::host::Host;
use windlass_tests::objects::Objects;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

const DEFINITION: &str = "broughts.brought.windlass.dev";

/// Held by each test of this file: definitions have no namespace, so on the real server the tests would see each
/// other's definitions.
static DEFINITIONS: Mutex<()> = Mutex::const_new(());

async fn create_an_object(objects: &Objects) -> anyhow::Result<()> {
    let gvk = GroupVersionKind::gvk("brought.windlass.dev", "v1", "Brought");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "broughts");
    let api: Api<DynamicObject> = Api::namespaced_with(objects.client().clone(), objects.namespace(), &resource);
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "brought.windlass.dev/v1", "kind": "Brought",
        "metadata": {"name": "first", "labels": {"chameleon": "true"}}, "spec": {},
    }))?;
    until("an object is created", || async { api.create(&PostParams::default(), &object).await }).await?;
    Ok(())
}

/// Deletes the definition, and waits until it is gone.
async fn clean_up(objects: &Objects) -> anyhow::Result<()> {
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "customresourcedefinitions");
    let api: Api<DynamicObject> = Api::all_with(objects.client().clone(), &resource);
    api.delete(DEFINITION, &DeleteParams::default()).await?;
    until("the definition has gone", || async {
        api.get_opt(DEFINITION).await?.map_or(Ok(()), |it| Err(anyhow::anyhow!("{it:?}")))
    })
    .await
}

async fn a_plugin_brings_its_kind(kind: Kind) -> anyhow::Result<()> {
    let _alone = DEFINITIONS.lock().await;
    let server = Server::start(kind).await?;
    let (objects, plugins) = (server.objects(), tempfile::tempdir()?);
    let component = plugins.path().join("chameleon.wasm");
    chameleon::write("bringing", &component)?;
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    host.says("definition installed").await?;
    host.says("controller started").await?;
    create_an_object(objects).await?;
    host.says("chameleon reconciled").await?;
    assert!(host.terminate().await?.success());

    // An existing definition is left alone.
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
    clean_up(objects).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_brings_its_kind_to_the_embedded_server() -> anyhow::Result<()> {
    a_plugin_brings_its_kind(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_brings_its_kind_to_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_plugin_brings_its_kind(Kind::Real).await
}

/// The API server deletes all objects of the kind with the definition. New objects are reconciled as before.
async fn a_running_plugins_deleted_definition_returns(kind: Kind) -> anyhow::Result<()> {
    let _alone = DEFINITIONS.lock().await;
    let server = Server::start(kind).await?;
    let (objects, plugins) = (server.objects(), tempfile::tempdir()?);
    let component = plugins.path().join("chameleon.wasm");
    chameleon::write("bringing", &component)?;
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    host.says("controller started").await?;
    objects.delete("CustomResourceDefinition", DEFINITION).await?;
    host.says("a definition of the plugin was deleted or replaced").await?;
    host.says_times("definition installed", 2).await?;
    host.says_times("controller started", 2).await?;
    create_an_object(objects).await?;
    host.says("chameleon reconciled").await?;

    std::fs::remove_file(&component)?;
    host.says("plugin unloaded").await?;
    clean_up(objects).await?;
    let log = host.log();
    assert!(host.terminate().await?.success());
    assert_eq!(log.matches("definition installed").count(), 2, "{log}");
    assert_eq!(objects.get("CustomResourceDefinition", DEFINITION).await?, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_plugins_deleted_definition_returns_on_the_embedded_server() -> anyhow::Result<()> {
    a_running_plugins_deleted_definition_returns(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_plugins_deleted_definition_returns_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_running_plugins_deleted_definition_returns(Kind::Real).await
}

const HEAD: &str = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: chameleon\n";
const RULES: &str = "rules: [{apiGroups: [\"\", brought.windlass.dev], resources: [\"*\"], verbs: [\"*\"]}]\n";
const CRDS: &str = "crds: [broughts.brought.windlass.dev]\n";

/// An operator sees a plugin wait, writes a policy, reads it, and grants the definition last.
async fn a_definition_waits_for_its_policy(kind: Kind) -> anyhow::Result<()> {
    let _alone = DEFINITIONS.lock().await;
    let server = Server::start(kind).await?;
    let (objects, plugins) = (server.objects(), tempfile::tempdir()?);
    let grant = |text: String| std::fs::write(plugins.path().join("chameleon.policy.yaml"), text);
    chameleon::write("bringing", &plugins.path().join("chameleon.wasm"))?;
    let host = Host::run_with(server.kubeconfig(), objects.namespace(), plugins.path(), &["--grants=policy"])?;
    let told = host.says("the plugin waits").await?;
    assert!(told.contains(DEFINITION), "what it would install is said: {told}");

    // The policy that `windlass grant` writes has no effect until someone has read it.
    grant(format!("{HEAD}paused: true\n{RULES}{CRDS}"))?;
    host.says("paused by its policy").await?;
    grant(format!("{HEAD}{RULES}"))?;
    let told = host.says("definitions not installed").await?;
    assert!(told.contains("crds") && told.contains(DEFINITION), "what is missing is said: {told}");
    assert_eq!(objects.get("CustomResourceDefinition", DEFINITION).await?, None);
    assert!(!host.log().contains("definition installed"), "{}", host.log());

    grant(format!("{HEAD}{RULES}{CRDS}"))?;
    host.says("definition installed").await?;
    host.says("controller started").await?;
    create_an_object(objects).await?;
    host.says("chameleon reconciled").await?;
    assert!(host.terminate().await?.success());
    clean_up(objects).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_waits_for_its_policy_on_the_embedded_server() -> anyhow::Result<()> {
    a_definition_waits_for_its_policy(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_waits_for_its_policy_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_definition_waits_for_its_policy(Kind::Real).await
}
