//! A real etcd is restored from a backup under a running host. The host writes nothing before its caches show the
//! restored state, and does not recreate objects that the backup lacks.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use windlass_tests::admin::{at_rest, get};
use windlass_tests::busy;
use windlass_tests::cluster::OwnCluster;
use windlass_tests::objects::Objects;
use windlass_tests::server::Server;
use windlass_tests::wait::until;

use crate::admin::watched_at;
use crate::webapp::plugin_directory;

/// The `WebApp`s that are created after the backup.
const LOST_WEBAPPS: usize = 5;
/// The number of writes after the backup. The server itself makes fewer writes while it starts.
const WRITES_AFTER_BACKUP: usize = 300;

fn web_app(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "metadata": {"name": name},
        "spec": {"image": "nginx:1.29", "replicas": replicas, "port": 80},
    })
}

async fn has_replicas(objects: &Objects, name: &str, replicas: u32) -> anyhow::Result<()> {
    until(&format!("the Deployment {name} has {replicas} replicas"), || async {
        let deployment = objects.get("Deployment", name).await?.context("no Deployment")?;
        ensure!(deployment["spec"]["replicas"] == replicas, "{deployment}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restore_of_etcd_nothing_is_written_before_all_caches_show_it() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let mut cluster = OwnCluster::start(&[]).await?;
    let server = Server::join(cluster.running()?).await?;
    let objects = server.objects();
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    let log_level = ["--log-level=info,windlass::audit=debug"];
    let (host, address) = watched_at(server.kubeconfig(), objects.namespace(), plugins.path(), &log_level).await?;
    host.says("controller started").await?;
    objects.apply(&web_app("kept", 1)).await?;
    has_replicas(objects, "kept", 1).await?;
    at_rest(address).await?;
    cluster.back_up().await?;

    objects.apply(&web_app("kept", 2)).await?;
    for number in 0..LOST_WEBAPPS {
        objects.apply(&web_app(&format!("lost-{number}"), 1)).await?;
    }
    for number in 0..LOST_WEBAPPS {
        has_replicas(objects, &format!("lost-{number}"), 1).await?;
    }
    has_replicas(objects, "kept", 2).await?;
    for number in 0..WRITES_AFTER_BACKUP {
        let value = number.to_string();
        let written = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "w"}, "data": {"n": value}});
        objects.apply(&written).await?;
    }
    cluster.restore().await?;

    host.says("as when its etcd is restored from a backup").await?;
    until("each cache has been listed", || async {
        let (_, metrics) = get(address, "/metrics").await?;
        ensure!(metrics.contains("windlass_server_restores_total{} 1"), "no restore");
        ensure!(!metrics.lines().any(|line| line.starts_with("windlass_informer_unproven") && line.ends_with(" 1")));
        Ok(())
    })
    .await?;
    has_replicas(objects, "kept", 1).await?;
    at_rest(address).await?;
    let log = host.log();
    let (_, after) = log.split_once("as when its etcd is restored from a backup").context("it has been said")?;
    let shown = |kind: &str| {
        let mut lines = after.lines().enumerate();
        let line = lines
            .find(|(_, line)| line.contains("listed again after the API server was restored") && line.contains(kind));
        line.map(|(at, _)| at).with_context(|| format!("{kind} was not listed:\n{after}"))
    };
    let all_shown = shown("WebApp")?.max(shown("Deployment")?).max(shown("Service")?);
    let written = |line: &&str| line.contains("windlass::audit");
    let early: Vec<_> =
        after.lines().take(all_shown).filter(written).filter(|line| !line.contains("not sent")).collect();
    ensure!(early.is_empty(), "written before all caches were listed: {early:#?}");
    let phantoms: Vec<_> = after.lines().filter(written).filter(|line| line.contains("lost-")).collect();
    ensure!(phantoms.iter().all(|line| line.contains("not sent")), "written about what is gone: {phantoms:#?}");
    for number in 0..LOST_WEBAPPS {
        let name = format!("lost-{number}");
        ensure!(objects.get("Deployment", &name).await?.is_none(), "{name} came back");
    }
    ensure!(host.terminate().await?.success());
    cluster.stop()
}
