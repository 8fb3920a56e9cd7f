//! An operator's questions at three in the morning, each answered by one command, and the two ways to make the host try
//! again. `docs/operating/trouble.md` has them in a table. Other modules test further answers: `pods` about a lease,
//! `swap_judged` about a rollback, and `policies` about a forbidden write.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;
use windlass_tests::{chameleon, paths};

use crate::admin::{says, watched, watched_at};
use crate::admin_auth::account;
use crate::caches::noise;
use crate::webapp::plugin_directory;

const REQUESTED: &str = "windlass.dev/run-requested-at";

/// Waits until `windlass WORDS` ends with `code` and its output contains all of `parts`.
async fn shows(address: SocketAddr, words: &[&str], code: i32, parts: &[&str]) -> anyhow::Result<String> {
    until(&format!("windlass {} says {parts:?}", words.join(" ")), || async {
        let said = says(address, words, code).await?;
        let missing: Vec<_> = parts.iter().filter(|part| !said.contains(**part)).collect();
        ensure!(missing.is_empty(), "{missing:?} not in: {said}");
        Ok(said)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_command_shows_why_a_plugin_waits_what_it_uses_and_why_it_stopped() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let objects = server.objects();
    for number in 0..30 {
        let large = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("l{number}")}, "data": {"noise": noise(number)},
        });
        objects.apply(&large).await?;
    }
    let plugins = plugin_directory()?;
    chameleon::write("wide", &plugins.path().join("chameleon.wasm"))?;
    let (host, address) = watched(&server, plugins.path(), &["--plugin-cache-limit", "300Ki"]).await?;

    // A missing definition.
    shows(address, &["status", "webapp", "-o", "wide"], 1, &["waiting", "WebApp"]).await?;
    let early = says(address, &["resume", "webapp"], 1).await?;
    ensure!(early.contains("it is waiting") && early.contains("continues by itself"), "{early}");
    server.install_webapp().await?;
    Story::new(objects).create().await?;
    Story::new(objects).run().await?;

    // Why a plugin stopped: its cache is too large. `windlass resume` starts it again.
    let too_large = ["suspended", "v1 ConfigMap", "a plugin may have 0.3 MiB"];
    shows(address, &["status", "chameleon", "-o", "wide"], 1, &too_large).await?;
    for number in 0..30 {
        objects.delete("ConfigMap", &format!("l{number}")).await?;
    }
    shows(address, &["resume", "chameleon"], 0, &["chameleon: it was suspended", "within the same limits"]).await?;
    shows(address, &["status", "chameleon"], 0, &[" running "]).await?;
    let soon = says(address, &["resume", "chameleon"], 2).await?;
    ensure!(soon.contains("429") && soon.contains("resumed a moment ago"), "{soon}");
    let nothing = says(address, &["resume", "webapp"], 1).await?;
    ensure!(nothing.contains("it runs, and none of its keys waits for another attempt"), "{nothing}");
    let unknown = says(address, &["resume", "camelion"], 1).await?;
    ensure!(unknown.contains("there are: chameleon, webapp"), "{unknown}");

    // Which version runs, and what it uses of the processor and the caches.
    let status: Value = serde_json::from_str(&says(address, &["status", "-o", "json"], 0).await?)?;
    let digest = status["plugins"][1]["digest"].as_str().context("a digest")?;
    shows(address, &["status", "webapp", "-o", "wide"], 0, &["VERSION", "HOLDER", &digest[..12]]).await?;
    shows(address, &["top", "--once", "--sort-by", "cpu"], 0, &["CPU%", "webapp ", "chameleon "]).await?;
    shows(address, &["top", "--once", "--sort-by", "cache"], 0, &["CACHE"]).await?;

    // A paused object.
    let key = format!("{}/shop", objects.namespace());
    let paused = json!({"metadata": {"annotations": {"windlass.dev/paused": "true"}}});
    objects.merge("WebApp", "shop", &paused).await?;
    shows(address, &["keys", "webapp", "--state", "paused"], 0, &[&key, " FOR "]).await?;
    drop(host);
    Ok(())
}

/// Writes the kubeconfig of an account without rights to `path`.
async fn powerless(server: &Server, path: &Path) -> anyhow::Result<()> {
    account(server, "powerless", path).await?;
    let token = std::fs::read_to_string(path)?;
    let administrators = server.embedded().and_then(|it| it.token()).context("it has roles")?;
    let config = std::fs::read_to_string(server.kubeconfig())?;
    Ok(std::fs::write(path, config.replace(administrators, &token))?)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_command_names_the_right_that_the_host_lacks_at_the_api_server() -> anyhow::Result<()> {
    let server = Server::with_roles().await?;
    server.install_webapp().await?;
    let (plugins, files) = (plugin_directory()?, tempfile::tempdir()?);
    let kubeconfig = files.path().join("kubeconfig");
    powerless(&server, &kubeconfig).await?;
    let namespace = server.objects().namespace();
    let (host, address) = watched_at(&kubeconfig, namespace, plugins.path(), &["--leases", "none"]).await?;
    shows(address, &["status", "-o", "wide"], 1, &["list-refused", "forbidden", "webapps"]).await?;
    drop(host);
    Ok(())
}

/// The last calls for the object `shop`.
async fn calls(address: SocketAddr, plugin: &str, key: &str) -> anyhow::Result<Vec<Value>> {
    let shown: Value = serde_json::from_str(&says(address, &["keys", plugin, key, "-o", "json"], 0).await?)?;
    Ok(shown["keys"][0]["calls"].as_array().context("calls")?.clone())
}

/// The plugins watch a `WebApp` only for changes of its generation. An annotation does not change the generation, but
/// the annotation that requests a run counts all the same.
async fn an_annotation_runs_a_key(plugin: &str, file: &Path) -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let (objects, plugins) = (server.objects(), tempfile::tempdir()?);
    std::fs::copy(paths::plugins()?.join(file), plugins.path().join(format!("{plugin}.wasm")))?;
    server.install_webapp().await?;
    let (host, address) = watched(&server, plugins.path(), &[]).await?;
    Story::new(objects).create().await?;
    Story::new(objects).run().await?;
    let key = format!("{}/shop", objects.namespace());
    let annotate = async |value: Value| {
        objects.merge("WebApp", "shop", &json!({"metadata": {"annotations": {REQUESTED: value}}})).await
    };
    let requested = |calls: &[Value]| calls.iter().filter(|it| it.to_string().contains("RunRequested WebApp")).count();
    for (times, value) in [(1, "2026-01-01T03:00:00Z"), (2, "2026-01-01T03:05:00Z")] {
        annotate(json!(value)).await?;
        until("it runs", || async {
            let calls = calls(address, plugin, &key).await?;
            ensure!(requested(&calls) == times, "{calls:?}");
            Ok(())
        })
        .await?;
    }
    annotate(Value::Null).await?;
    // The host has handled this later event, so it has handled the removal too.
    annotate(json!("again")).await?;
    until("it runs", || async {
        let calls = calls(address, plugin, &key).await?;
        ensure!(requested(&calls) == 3, "a removal requests nothing: {calls:?}");
        Ok(())
    })
    .await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_runs_a_key_of_a_reconciler_whatever_its_predicates() -> anyhow::Result<()> {
    an_annotation_runs_a_key("webapp", Path::new("webapp.wasm")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_runs_a_key_of_a_composer_whatever_its_predicates() -> anyhow::Result<()> {
    an_annotation_runs_a_key("webapp-composite", Path::new("composite/webapp-composite.wasm")).await
}
