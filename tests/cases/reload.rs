//! Tests the plugin directory while the host runs. Files are added, changed, broken and removed, as an operator or a
//! `ConfigMap` does it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};
use windlass_core::life::sharing::shard_of;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;
use windlass_tests::{chameleon, paths};

use crate::admin::{get, plugin, watched};

/// Waits until `holds` accepts what `/plugins` shows for `name`: the plugin, or `None` if there is no such plugin.
async fn shows(address: SocketAddr, name: &str, holds: impl Fn(Option<&Value>) -> bool) -> anyhow::Result<()> {
    until(&format!("what /plugins shows of {name}"), || async {
        let shown = plugin(address, name).await.ok();
        if holds(shown.as_ref()) { Ok(()) } else { Err(shown) }
    })
    .await
}

fn runs(shown: Option<&Value>) -> bool {
    shown.is_some_and(|it| it["state"] == "running" && it["notTaken"].is_null())
}

/// Copies the component `from` to `to` atomically, with an extra section that makes its bytes differ.
fn another(from: &Path, to: &Path, note: &str) -> anyhow::Result<()> {
    let mut bytes = std::fs::read(from)?;
    let name = b"note";
    let length = u8::try_from(1 + name.len() + note.len())?;
    bytes.extend([0, length, u8::try_from(name.len())?]);
    bytes.extend(name.iter().chain(note.as_bytes()));
    let new = to.with_file_name(".new");
    std::fs::write(&new, bytes)?;
    Ok(std::fs::rename(new, to)?)
}

fn bait(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"chameleon": "true"}}})
}

/// The holder of the lease of `plugin`.
async fn holder(server: &Server, plugin: &str) -> anyhow::Result<String> {
    let lease = format!("windlass-main-shard-{:02}", shard_of(plugin));
    let lease = server.objects().get("Lease", &lease).await?.context("there is one")?;
    Ok(lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
}

async fn a_file_that_breaks_changes_nothing(host: &Host, address: SocketAddr, file: &Path) -> anyhow::Result<()> {
    let before = plugin(address, "webapp").await?["digest"].clone();
    // Write half of the file first, as an unfinished copy would.
    let whole = std::fs::read(paths::plugins()?.join("webapp.wasm"))?;
    std::fs::write(file, &whole[..whole.len() / 2])?;
    host.says("plugin file refused").await?;
    let shown = plugin(address, "webapp").await?;
    assert_eq!((&shown["digest"], &shown["state"]), (&before, &json!("running")));
    assert!(shown["notTaken"]["reason"].as_str().is_some_and(|why| why.contains("webapp.wasm")), "{shown}");
    assert!(shown["notTaken"]["digest"] != before, "{shown}");
    let metrics = get(address, "/metrics").await?.1;
    assert!(metrics.contains(r#"windlass_plugin_loads_total{plugin="webapp",result="loaded"} 1"#), "{metrics}");
    another(&paths::plugins()?.join("webapp.wasm"), file, "two")?;
    shows(address, "webapp", |it| runs(it) && it.is_some_and(|it| it["digest"] != before)).await
}

/// A directory mounted from a `ConfigMap`: files are links through `..data`, which is replaced as a whole.
async fn a_mounted_file_is_followed(host: &Host, address: SocketAddr, plugins: &Path) -> anyhow::Result<()> {
    for (version, mode) in [("..1", "reconcile-transient"), ("..2", "finalizing")] {
        std::fs::create_dir(plugins.join(version))?;
        chameleon::write(mode, &plugins.join(version).join("chameleon.wasm"))?;
        std::os::unix::fs::symlink(version, plugins.join("..new"))?;
        std::fs::rename(plugins.join("..new"), plugins.join("..data"))?;
        if mode == "reconcile-transient" {
            std::os::unix::fs::symlink("..data/chameleon.wasm", plugins.join("chameleon.wasm"))?;
            host.says("told to fail for now").await?;
        }
    }
    shows(address, "chameleon", runs).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_directory_is_followed_from_empty_to_empty() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    server.objects().apply(&bait("bait")).await?;
    let plugins = tempfile::tempdir()?;
    let (host, address) = watched(&server, plugins.path(), &[]).await?;
    assert!(host.says("no plugin in").await?.contains("NAME.wasm"));
    host.says("no plugin runs").await?;
    assert_eq!(get(address, "/readyz").await?.0, 200);

    let file = plugins.path().join("webapp.wasm");
    std::fs::copy(paths::plugins()?.join("webapp.wasm"), &file)?;
    Story::new(server.objects()).create().await?;
    a_file_that_breaks_changes_nothing(&host, address, &file).await?;
    Story::new(server.objects()).scale().await?;

    a_mounted_file_is_followed(&host, address, plugins.path()).await?;
    let finalizers = || async {
        let object = server.objects().get("ConfigMap", "bait").await?.context("it is there")?;
        anyhow::ensure!(object["metadata"]["finalizers"][0] == "windlass.dev/chameleon", "{object}");
        Ok(())
    };
    until("the finalizer is on", finalizers).await?;
    assert!(!holder(&server, "chameleon").await?.is_empty());
    std::fs::remove_file(plugins.path().join("chameleon.wasm"))?;
    let said = host.says("carry the finalizer of the plugin that is gone").await?;
    for words in ["configmaps", "objects=1", "windlass finalizers release chameleon"] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    shows(address, "chameleon", |it| it.is_none()).await?;
    until("its lease is released", || async {
        let holder = holder(&server, "chameleon").await?;
        anyhow::ensure!(holder.is_empty(), "{holder}");
        Ok(())
    })
    .await?;

    std::fs::remove_file(&file)?;
    shows(address, "webapp", |it| it.is_none()).await?;
    let metrics = get(address, "/metrics").await?.1;
    assert!(!metrics.contains(r#"controller_runtime_reconcile_total{controller="webapp""#), "{metrics}");
    server.objects().get("Deployment", "shop").await?.context("what it has made stays")?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_versions_on_the_list_of_allowed_digests_run() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.objects().apply(&bait("bait")).await?;
    let plugins = tempfile::tempdir()?;
    chameleon::write("good", &plugins.path().join("chameleon.wasm"))?;
    let list = plugins.path().join("allowed");
    let allow = |text: &str| {
        let new = plugins.path().join(".allowed");
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &list))
    };
    allow("# nothing yet\n")?;
    let (host, address) = watched(&server, plugins.path(), &["--allowed-digests", &list.to_string_lossy()]).await?;
    let said = host.says("is not allowed").await?;
    assert!(said.contains("chameleon.wasm") && said.contains(&*list.to_string_lossy()), "{said}");
    let shown = plugin(address, "chameleon").await?;
    assert_eq!(shown["state"], "not-loaded");
    let digest = shown["notTaken"]["digest"].as_str().context("it is said")?.to_owned();
    assert!(said.contains(&digest), "{said}");

    allow(&format!("{digest}  chameleon.wasm\n"))?;
    host.says("chameleon reconciled").await?;
    shows(address, "chameleon", runs).await?;
    allow("")?;
    host.says("the former one stays in force").await?;
    allow("# nothing any more\n")?;
    host.says("the plugin is no longer allowed").await?;
    let stopped = |it: Option<&Value>| it.is_some_and(|it| it["state"] == "not-loaded" && it["digest"].is_null());
    shows(address, "chameleon", stopped).await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_and_plugins_may_come_in_either_order() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.objects().apply(&bait("bait")).await?;
    let plugins = tempfile::tempdir()?;
    let (host, address) = watched(&server, plugins.path(), &["--grants=policy"]).await?;
    host.says("no plugin runs").await?;
    let (plugin, policy) = (plugins.path().join("chameleon.wasm"), plugins.path().join("chameleon.policy.yaml"));
    let rules = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: chameleon\nrules:\n\
                 - {apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, patch]}\n";
    std::fs::write(&policy, rules)?;
    host.says("a policy for a plugin that does not exist").await?;
    chameleon::write("good", &plugin)?;
    host.says("chameleon reconciled").await?;
    std::fs::remove_file(&policy)?;
    shows(address, "chameleon", |it| it.is_some_and(|it| it["state"] == "waiting-for-policy")).await?;
    std::fs::remove_file(&plugin)?;
    shows(address, "chameleon", |it| it.is_none()).await?;

    chameleon::write("reconcile-terminal", &plugin)?;
    host.says("the plugin waits").await?;
    shows(address, "chameleon", |it| it.is_some_and(|it| it["state"] == "waiting-for-policy")).await?;
    std::fs::write(&policy, rules)?;
    host.says("told to fail for good").await?;
    shows(address, "chameleon", runs).await?;
    assert!(host.terminate().await?.success());
    Ok(())
}
