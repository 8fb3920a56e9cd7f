//! The API server becomes unavailable and returns while the host runs.

use std::time::Instant;

use serde_json::Value;
use windlass_tests::admin::at_rest;
use windlass_tests::proxied::Proxied;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::{NAME, Story};
use windlass_tests::wait::until;

use crate::admin::watched_at;
use crate::webapp::plugin_directory;

async fn an_outage(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    server.install_webapp().await?;
    let proxy = Proxied::start(&server, 9).await?;
    let plugins = plugin_directory()?;
    let (host, address) =
        watched_at(proxy.kubeconfig(), server.objects().namespace(), plugins.path(), &["--leases=none"]).await?;
    host.says("controller started").await?;
    let story = Story::new(server.objects());
    story.create().await?;
    story.run().await?;
    at_rest(address).await?;

    proxy.go_dark();
    host.says("cannot be reached").await?;
    let before = server.objects().get("Deployment", NAME).await?.unwrap_or_default()["metadata"]["uid"].clone();
    server.objects().delete("Deployment", NAME).await?;
    proxy.come_back();
    let back = Instant::now();
    host.says("answers again").await?;
    until("the Deployment comes back", || async {
        let deployment = server.objects().get("Deployment", NAME).await?.unwrap_or_default();
        let uid = &deployment["metadata"]["uid"];
        anyhow::ensure!(*uid != Value::Null && *uid != before, "{deployment}");
        Ok(())
    })
    .await?;
    println!("{kind:?}: healed {:?} after the server came back", back.elapsed());
    let log = host.log();
    assert!(!log.contains("retry_in="), "no call is made, and none fails, while the server is away:\n{log}");
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_pauses_in_an_outage_and_heals_at_once_on_the_embedded_server() -> anyhow::Result<()> {
    an_outage(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_pauses_in_an_outage_and_heals_at_once_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    an_outage(Kind::Real).await
}
