//! Tests that a plugin in a hot loop is slowed down, and other plugins are not.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_tests::chameleon;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use crate::admin::{get, plugin, watched};

/// The annotation in which the guest counts its runs. Each run writes it into its object.
const RUNS: &str = "chameleon.windlass.dev/runs";

/// Waits until the object has been written this many times.
async fn written(server: &Server, name: &str, runs: &str) -> anyhow::Result<()> {
    until(&format!("{name} has been written {runs} times"), || async {
        let object = server.objects().get("ConfigMap", name).await?.context("it is there")?;
        let found = &object["metadata"]["annotations"][RUNS];
        ensure!(found == runs, "{found}");
        Ok(())
    })
    .await
}

/// The guest writes its object in each call and asks for the next call, six times in all. Here, three writes count as a
/// hot loop.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_in_a_hot_loop_pauses_until_its_object_is_changed() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let bait = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "bait", "labels": {"chameleon": "true"}}, "data": {"a": "1"},
    });
    server.objects().apply(&bait).await?;
    let plugins = tempfile::tempdir()?;
    chameleon::write("requeue", &plugins.path().join("chameleon.wasm"))?;
    // A rate so low that a write waits for the next token even on a slow machine.
    let arguments = ["--hot-loop-writes=3", "--writes-per-second=1", "--writes-burst=1", "--leases=none"];
    let (host, address) = watched(&server, plugins.path(), &arguments).await?;
    let said = host.says("hot loop").await?;
    assert!(said.contains("ConfigMap") && said.contains("bait") && said.contains("plugin=chameleon"), "{said}");
    written(&server, "bait", "3").await?;
    let event = until("an Event tells of it", || async {
        let events = server.objects().list("Event", "").await?;
        events.into_iter().find(|event| event["reason"] == "HotLoop").context("none yet")
    })
    .await?;
    assert!(event["note"].as_str().is_some_and(|note| note.contains("bait") && note.contains("3 times")), "{event}");
    let slow: Value = plugin(address, "chameleon").await?["controllers"][0]["slowLane"].clone();
    assert_eq!(slow[0]["object"].as_str().map(|it| it.starts_with("ConfigMap ")), Some(true), "{slow}");
    let metrics = get(address, "/metrics").await?.1;
    for line in ["windlass_hot_loops_total{", "windlass_keys_in_slow_lane{", "windlass_writes_waited_total{"] {
        let value = metrics.lines().find(|it| it.starts_with(line)).with_context(|| line.to_owned())?;
        assert!(!value.ends_with(" 0"), "{value}");
    }
    // The guest requested its fourth call long ago. Only this change lets that call run.
    server.objects().merge("ConfigMap", "bait", &json!({"data": {"a": "2"}})).await?;
    written(&server, "bait", "6").await?;
    assert!(host.terminate().await?.success());
    Ok(())
}
