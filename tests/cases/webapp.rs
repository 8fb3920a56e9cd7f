//! The main story. The same code runs on both servers.

use std::path::Path;

use serde_json::json;
use windlass_tests::host::Host;
use windlass_tests::paths;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;

/// A directory with only the `WebApp` plugin.
pub(crate) fn plugin_directory() -> anyhow::Result<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    std::fs::copy(paths::plugins()?.join("webapp.wasm"), directory.path().join("webapp.wasm"))?;
    Ok(directory)
}

/// A host that runs the `WebApp` plugin in the server's namespace.
pub(crate) async fn host(server: &Server, plugins: &Path) -> anyhow::Result<Host> {
    server.install_webapp().await?;
    let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins)?;
    host.says("controller started").await?;
    Ok(host)
}

async fn the_whole_story(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let plugins = plugin_directory()?;
    let host = host(&server, plugins.path()).await?;
    let story = Story::new(server.objects());
    for told in story.whole().await? {
        println!("{kind:?}: {} ({} ms)", told.line, told.took.as_millis());
    }
    let status = host.terminate().await?;
    assert!(status.success(), "SIGTERM must stop the host cleanly: {status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webapp_is_created_healed_and_deleted_on_the_embedded_server() -> anyhow::Result<()> {
    the_whole_story(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webapp_is_created_healed_and_deleted_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    the_whole_story(Kind::Real).await
}

/// Sets an image that the schema accepts but that no plugin can run.
async fn an_empty_image(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let plugins = plugin_directory()?;
    let host = host(&server, plugins.path()).await?;
    let objects = server.objects();
    let webapp = json!({
        "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp",
        "metadata": {"name": "blank"}, "spec": {"image": ""},
    });
    objects.apply(&webapp).await?;
    until("a condition tells of the empty image", || async {
        let it = objects.get("WebApp", "blank").await?.unwrap_or_default();
        let conditions = it["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let told = conditions.iter().any(|it| it["status"] == "False" && it["message"].to_string().contains("image"));
        anyhow::ensure!(told, "{it}");
        Ok(())
    })
    .await?;
    until("a Warning Event tells of it", || async {
        let events = objects.list("Event", "").await?;
        let told = events.iter().any(|it| it["type"] == "Warning" && it["regarding"]["name"] == "blank");
        anyhow::ensure!(told, "{events:?}");
        Ok(())
    })
    .await?;
    host.says("failed for good").await?;
    // The status write returns as a change of the primary and runs the key once more. Then nothing must follow. Instead
    // of sleeping, the test waits for the whole life of another object: a retry storm would show within that time.
    Story::new(objects).create().await?;
    Story::new(objects).run().await?;
    let failures = host.log().matches("failed for good").count();
    assert!(failures <= 3, "{failures} failures of one key are a retry storm:\n{}", host.log());
    assert!(objects.get("Deployment", "blank").await?.is_none(), "nothing must run without an image");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_image_is_reported_and_not_retried_on_the_embedded_server() -> anyhow::Result<()> {
    an_empty_image(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_image_is_reported_and_not_retried_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    an_empty_image(Kind::Real).await
}

async fn replicas_out_of_range(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    server.install_webapp().await?;
    for replicas in [0, 51] {
        let webapp = json!({
            "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp",
            "metadata": {"name": "many"}, "spec": {"image": "nginx", "replicas": replicas},
        });
        let refused = server.objects().apply(&webapp).await.expect_err("out of range");
        let said = format!("{refused:#}");
        assert!(said.contains("spec.replicas: Invalid value: "), "{said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_refuses_replicas_out_of_range_on_the_embedded_server() -> anyhow::Result<()> {
    replicas_out_of_range(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_refuses_replicas_out_of_range_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    replicas_out_of_range(Kind::Real).await
}

/// A reconcile without work to do must not write, or the host would call it again for its own change, for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_converged_webapp_makes_no_further_request() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let plugins = plugin_directory()?;
    let host = host(&server, plugins.path()).await?;
    let story = Story::new(server.objects());
    story.create().await?;
    story.run().await?;
    let writes = || {
        let requests = server.embedded().map(windlass_apiserver::ApiServer::requests).unwrap_or_default();
        let ours = requests
            .into_iter()
            .filter(|it| it.user_agent.starts_with("windlass/") && it.resource != "events.events.k8s.io");
        ours.filter(|it| !matches!(it.verb.as_str(), "get" | "list" | "watch")).map(|it| it.count).sum::<u64>()
    };
    let before = writes();
    // A label is a change that runs the key but requires no work.
    server.objects().merge("WebApp", "shop", &json!({"metadata": {"labels": {"touched": "yes"}}})).await?;
    story.scale().await?;
    let after = writes();
    println!(
        "requests of the host, by verb and resource: {:#?}",
        server.embedded().map(windlass_apiserver::ApiServer::requests)
    );
    assert!(before <= 8, "{before} writes from creation to Running");
    assert!(after - before <= 4, "{} writes for one scaling", after - before);
    drop(host);
    Ok(())
}
