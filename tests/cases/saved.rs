//! Tests that calls which can change nothing are not made, with the feature `SavedCalls`.

use std::net::SocketAddr;

use anyhow::ensure;
use serde_json::{Value, json};
use windlass_tests::chameleon;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use crate::admin::{get, watched};

const SAVED: &str = "windlass_calls_saved_total{";
const MADE: &str = "controller_runtime_reconcile_total{";

/// The sum of the metrics whose lines begin with `name`.
async fn sum(address: SocketAddr, name: &str) -> anyhow::Result<u64> {
    let text = get(address, "/metrics").await?.1;
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with(name)).collect();
    ensure!(!lines.is_empty(), "no {name} in {text}");
    lines.into_iter().map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<u64>()?)).sum()
}

/// Every Namespace concerns all objects of this guest, and it reads none of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_a_plugin_does_not_read_makes_no_call() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let objects = server.objects();
    let bait = |value: &str| {
        let metadata = json!({"name": "bait", "labels": {"chameleon": "true"}});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}})
    };
    objects.apply(&bait("1")).await?;
    let plugins = tempfile::tempdir()?;
    chameleon::write("concerned", &plugins.path().join("chameleon.wasm"))?;
    let (host, address) = watched(&server, plugins.path(), &["--feature-gates=SavedCalls=true"]).await?;
    host.says("chameleon reconciled").await?;
    let handled = async || anyhow::Ok(sum(address, SAVED).await? + sum(address, MADE).await?);
    let mut change = 0;
    while sum(address, SAVED).await? < 5 {
        change += 1;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("n{change}")}});
        // Some calls are made as audits, so not each change saves one.
        ensure!(change < 200, "{} calls were saved", sum(address, SAVED).await?);
        let before = handled().await?;
        objects.apply(&namespace).await?;
        until("the change has been handled", || async {
            ensure!(handled().await? > before, "not yet");
            Ok(())
        })
        .await?;
    }
    let key = format!("/plugins/chameleon/keys/{}/bait", objects.namespace());
    let shown: Value = serde_json::from_str(&get(address, &key).await?.1)?;
    ensure!(shown.to_string().contains("savedCalls"), "{shown}");
    let runs = || host.log().lines().filter(|line| line.contains("chameleon reconciled")).count();
    let before = runs();
    objects.apply(&bait("2")).await?;
    until("the plugin is called for a change that it reads", || async {
        ensure!(runs() > before, "{}", host.log());
        Ok(())
    })
    .await?;
    assert_eq!(sum(address, "windlass_calls_mispredicted_total{").await?, 0);
    assert!(host.terminate().await?.success());
    Ok(())
}
