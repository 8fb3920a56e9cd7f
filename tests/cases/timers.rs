//! A plugin that a timer calls: when it is due, what its calls are about, and what a later replica knows.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use windlass_tests::chameleon;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use crate::admin::{plugin, watched};
use crate::leases::TIMES;

/// The lease in which replicas keep when timers were due last.
const TIMERS_LEASE: &str = "windlass-main-timers";
const TIMED: &str = "chameleon, as the Timer chameleon,";

/// The last due time that is kept for later replicas.
async fn kept(server: &Server) -> anyhow::Result<String> {
    let lease = server.objects().get("Lease", TIMERS_LEASE).await?.context("the lease is there")?;
    let note = &lease["metadata"]["annotations"]["timers.windlass.dev/chameleon"];
    let timers: Value = serde_json::from_str(note.as_str().context("an annotation")?)?;
    let last = timers["chameleon"]["last"].as_str().with_context(|| timers.to_string())?;
    Ok(last.to_owned())
}

async fn a_due_time_is_called_once_whichever_replica_runs_the_plugin(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let (objects, plugins) = (server.objects(), tempfile::tempdir()?);
    chameleon::write("timed", &plugins.path().join("chameleon.wasm"))?;
    let labelled = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": {"chameleon": "true"}}});
    objects.apply(&labelled("Secret", "read")).await?;
    let flags = [&["--leases=single"], &TIMES[..]].concat();

    let (first, address) = watched(&server, plugins.path(), &flags).await?;
    // The end of the first list of ConfigMaps may call the plugin before that, without a due time.
    let said = first.says(&format!("{TIMED} is due at 2")).await?;
    ensure!(said.contains("after never and sees 1 secrets"), "{said}");
    first.says("the timer waits until it is due").await?;
    until("the due time is kept for other replicas", || async { kept(&server).await.map(drop) }).await?;
    let last = kept(&server).await?;
    ensure!(said.contains(&last), "{said} has {last}");
    let timer = plugin(address, "chameleon").await?["controllers"][0]["timer"].clone();
    ensure!(timer["lastDueTime"] == *last && timer["nextDueTime"].as_str() > Some(&last), "{timer}");

    // A change of a watched object calls the plugin too. The Secret's does not, because it is mapped to none.
    objects.apply(&labelled("Secret", "another")).await?;
    objects.apply(&labelled("ConfigMap", "first")).await?;
    let between = format!("{TIMED} is due at never after {last} and sees 2 secrets");
    until("a call between due times sees both Secrets", || async {
        let log = first.log();
        if !log.contains(&between) {
            objects.merge("ConfigMap", "first", &json!({"data": {"seen": log.len().to_string()}})).await?;
        }
        ensure!(log.contains(&between), "{log}");
        Ok(())
    })
    .await?;
    ensure!(first.terminate().await?.success());

    // The first list of ConfigMaps calls the plugin of the next replica, which knows the last due time.
    let (second, address) = watched(&server, plugins.path(), &flags).await?;
    second.says(&between).await?;
    let timer = plugin(address, "chameleon").await?["controllers"][0]["timer"].clone();
    ensure!(timer["lastDueTime"] == *last && timer["dueTime"].is_null(), "{timer}");
    ensure!(!second.log().contains("is due at 2"), "{}", second.log());
    ensure!(second.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_time_is_called_once_on_the_embedded_server() -> anyhow::Result<()> {
    a_due_time_is_called_once_whichever_replica_runs_the_plugin(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_time_is_called_once_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_due_time_is_called_once_whichever_replica_runs_the_plugin(Kind::Real).await
}
