//! `plugins/imagepullsecret-patcher`: each namespace gets the credentials, and its service accounts use them.

use anyhow::ensure;
use serde_json::{Value, json};
use windlass_tests::kubectl::Kubectl;
use windlass_tests::objects::Objects;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{gives_no_finding, installed, running};

const NAME: &str = "imagepullsecret-patcher";

/// Waits until the namespace has these credentials, in Base64.
async fn has(objects: &Objects, credentials: &str) -> anyhow::Result<()> {
    until(&format!("{} has the credentials {credentials}", objects.namespace()), || async {
        let secret = objects.get("Secret", "image-pull-secret").await?.unwrap_or_default();
        ensure!(secret["data"][".dockerconfigjson"] == credentials, "{secret}");
        Ok(())
    })
    .await
}

/// The embedded server alone: the plugin concerns all namespaces, and other stories share the real one.
#[tokio::test(flavor = "multi_thread")]
async fn every_namespace_gets_the_credentials() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let (objects, plugins) = (server.objects(), installed(NAME)?);
    let named = |name: &str| Objects::new(objects.client().clone(), name);
    let namespace = |name: &str, annotations: &Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}});
    objects.apply(&namespace(NAME, &json!({}))).await?;
    let source = |text: &str| {
        let metadata = json!({"name": "image-pull-secret-src"});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {".dockerconfigjson": text}})
    };
    named(NAME).apply(&source("{\"auths\": {}}")).await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}, "imagePullSecrets": [{"name": "other"}]});
    objects.apply(&account).await?;
    let host = running(&server, &plugins).await?;
    has(objects, "eyJhdXRocyI6IHt9fQ==").await?;
    until("the account pulls with both secrets", || async {
        let account = objects.get("ServiceAccount", "default").await?.unwrap_or_default();
        let secrets: Vec<&Value> =
            account["imagePullSecrets"].as_array().into_iter().flatten().map(|it| &it["name"]).collect();
        ensure!(
            secrets.len() == 2 && secrets.contains(&&json!("image-pull-secret")) && secrets.contains(&&json!("other")),
            "{account}"
        );
        Ok(())
    })
    .await?;

    // A namespace comes later, and another one only ceases to be excluded. Its account makes the plugin run.
    let kubectl = Kubectl::new(server.kubeconfig(), objects.namespace());
    kubectl.run(&["create", "namespace", "later"]).await?;
    objects.apply(&namespace("private", &json!({"k8s.titansoft.com/imagepullsecret-patcher-exclude": "true"}))).await?;
    has(&named("later"), "eyJhdXRocyI6IHt9fQ==").await?;
    ensure!(
        named("private").get("Secret", "image-pull-secret").await?.is_none(),
        "an excluded namespace has the Secret"
    );
    kubectl.run(&["annotate", "namespace", "private", "k8s.titansoft.com/imagepullsecret-patcher-exclude-"]).await?;
    has(&named("private"), "eyJhdXRocyI6IHt9fQ==").await?;
    ensure!(host.terminate().await?.success());

    // The credentials change while the host is down.
    named(NAME).apply(&source("{\"auths\": {\"é\": {}}}")).await?;
    let host = running(&server, &plugins).await?;
    has(objects, "eyJhdXRocyI6IHsiw6kiOiB7fX19").await?;
    ensure!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_imagepullsecret_patcher_gives_no_finding() -> anyhow::Result<()> {
    gives_no_finding(NAME).await
}
