//! Tests bad input. One message says what is wrong, where, and what to do; other plugins are not affected; and the exit
//! code reports the failure.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::json;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::{chameleon, paths};

use crate::webapp::plugin_directory;

/// A component without our export.
const STRANGER: &str = r#"(component
    (component $inner)
    (instance $thing (instantiate $inner))
    (export "example:other/thing@1.0.0" (instance $thing)))"#;
/// A core module.
const CORE: &str = r#"(module (func (export "describe")))"#;
/// A component for an ABI that does not exist yet.
const FUTURE: &str = r#"(component
    (component $inner)
    (instance $reconciler (instantiate $inner))
    (export "windlass:plugin/reconciler@9.9.0" (instance $reconciler)))"#;

fn wat(text: &str, path: &Path) -> anyhow::Result<()> {
    Ok(std::fs::write(path, wat::parse_str(text)?)?)
}

/// Runs the host on a directory with one bad plugin beside the good `webapp`, and returns its messages about the bad
/// one.
async fn beside_a_good_one(make: impl FnOnce(&Path) -> anyhow::Result<()>, file: &str) -> anyhow::Result<String> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    make(&plugins.path().join(file))?;
    let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
    let said = host.says(file).await?;
    Story::new(server.objects()).create().await?;
    Story::new(server.objects()).run().await?;
    assert!(host.terminate().await?.success(), "one bad plugin must not fail the host");
    Ok(said)
}

async fn refused(make: impl FnOnce(&Path) -> anyhow::Result<()>, file: &str, words: &[&str]) -> anyhow::Result<()> {
    let said = beside_a_good_one(make, file).await?;
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    Ok(())
}

async fn refused_mode(mode: &'static str, words: &[&str]) -> anyhow::Result<()> {
    refused(|path| chameleon::write(mode, path), "chameleon.wasm", words).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_core_module_is_refused_with_the_advice_to_make_a_component() -> anyhow::Result<()> {
    refused(|path| wat(CORE, path), "bad.wasm", &["core WebAssembly module", "SDK"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_not_webassembly_are_refused() -> anyhow::Result<()> {
    refused(|path| Ok(std::fs::write(path, b"#!/bin/sh\n")?), "bad.wasm", &["not", "WebAssembly"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_without_our_export_is_told_the_missing_one() -> anyhow::Result<()> {
    refused(|path| wat(STRANGER, path), "bad.wasm", &["windlass:plugin/reconciler@0.3.0"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_abi_version_is_named_beside_ours() -> anyhow::Result<()> {
    refused(|path| wat(FUTURE, path), "bad.wasm", &["9.9.0", "0.2.0", "0.3.0"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_describe_that_traps_shows_its_panic() -> anyhow::Result<()> {
    refused_mode("describe-traps", &["describe", "told to trap"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_describe_that_answers_differently_twice_is_refused() -> anyhow::Result<()> {
    refused_mode("describe-unstable", &["describe", "differ"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_with_an_unknown_field_names_it() -> anyhow::Result<()> {
    refused_mode("manifest-unknown-field", &["colour"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_claims_another_name_is_refused() -> anyhow::Result<()> {
    let claim = |path: &Path| Ok(std::fs::copy(paths::plugins()?.join("webapp.wasm"), path).map(|_| ())?);
    refused(claim, "impostor.wasm", &["webapp", "impostor"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_whose_crd_is_missing_waits_for_it_and_says_so() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    chameleon::write("missing-crd", &plugins.path().join("chameleon.wasm"))?;
    let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
    let said = host.says("missing.windlass.dev/v1").await?;
    assert!(said.contains("Missing") && said.contains("CustomResourceDefinition"), "{said}");
    Story::new(server.objects()).create().await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

/// Runs a host that must fail, and returns its output.
async fn fails<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<String> {
    let mut host = Host::start(arguments, None)?;
    let status = host.ends().await?;
    assert_eq!(status.code(), Some(1), "{}", host.log());
    let said = host.log();
    assert!(said.contains("windlass: "), "{said}");
    Ok(said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_directory_is_named() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let kubeconfig = server.kubeconfig().to_string_lossy();
    let said = fails(&["run", "--kubeconfig", &kubeconfig, "--plugins", "/nowhere/at/all"]).await?;
    assert!(said.contains("/nowhere/at/all") && said.contains("--plugins"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_only_bad_plugins_warns_and_waits_for_better_ones() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let plugins = tempfile::tempdir()?;
    wat(CORE, &plugins.path().join("bad.wasm"))?;
    let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
    host.says("bad.wasm").await?;
    host.says("no plugin runs").await?;
    std::fs::copy(paths::plugins()?.join("webapp.wasm"), plugins.path().join("webapp.wasm"))?;
    Story::new(server.objects()).create().await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

/// Each call that can be in progress reserves address space, even if the call does not use it.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_little_address_space_warns_and_begins_fewer_calls() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let plugins = tempfile::tempdir()?;
    let arguments =
        ["run", "--kubeconfig", &server.kubeconfig().to_string_lossy(), "--concurrent-calls=2", "--leases=none"];
    let plugins = ["--plugins", &plugins.path().to_string_lossy()];
    let host = Host::start_within(200, &[&arguments[..], &plugins[..]].concat())?;
    let said = host.says("fewer calls can run at once").await?;
    anyhow::ensure!(said.contains("wanted=64"), "{said}");
    host.says("connected").await?;
    anyhow::ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_does_not_answer_is_named() -> anyhow::Result<()> {
    let plugins = plugin_directory()?;
    // Nothing listens on this port, which was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let server = format!("http://127.0.0.1:{port}");
    let kubeconfig = plugins.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "dead",
        "clusters": [{"name": "dead", "cluster": {"server": server}}],
        "users": [{"name": "dead", "user": {}}],
        "contexts": [{"name": "dead", "context": {"cluster": "dead", "user": "dead"}}],
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    let kubeconfig = kubeconfig.to_string_lossy();
    let said = fails(&["run", "--kubeconfig", &kubeconfig, "--plugins", &plugins.path().to_string_lossy()]).await?;
    assert!(said.contains(&server) && said.contains(&*kubeconfig), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_kubeconfig_is_named() -> anyhow::Result<()> {
    let plugins = plugin_directory()?;
    let directory = plugins.path().to_string_lossy();
    let missing = fails(&["run", "--kubeconfig", "/nowhere/kubeconfig", "--plugins", &directory]).await?;
    assert!(missing.contains("/nowhere/kubeconfig"), "{missing}");
    let garbage = plugins.path().join("kubeconfig");
    std::fs::write(&garbage, "]: not yaml [")?;
    let garbage = garbage.to_string_lossy();
    let said = fails(&["run", "--kubeconfig", &garbage, "--plugins", &directory]).await?;
    assert!(said.contains(&*garbage), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_does_not_start_with_an_open_or_uncertified_admin_address() -> anyhow::Result<()> {
    let (server, plugins) = (Server::start(Kind::Embedded).await?, plugin_directory()?);
    let kubeconfig = server.kubeconfig().to_string_lossy();
    let directory = plugins.path().to_string_lossy();
    let run = ["run", "--kubeconfig", &kubeconfig, "--plugins", &directory];
    let mut open = Host::start(&[&run[..], &["--admin-address", "0.0.0.0:0"]].concat(), None)?;
    assert_eq!(open.ends().await?.code(), Some(2), "{}", open.log());
    for choice in ["0.0.0.0:0", "--admin-auth", "`token`", "`none`"] {
        assert!(open.log().contains(choice), "{choice} is not in: {}", open.log());
    }
    let own = [&run[..], &["--admin-address=127.0.0.1:0"]].concat();
    let pair = ["--admin-tls-cert-file=/nowhere/tls.crt", "--admin-tls-private-key-file=/nowhere/tls.key"];
    let said = fails(&[&own[..], &pair].concat()).await?;
    assert!(said.contains("/nowhere/tls.crt (--admin-tls-cert-file): No such file"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_context_is_named() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let plugins = plugin_directory()?;
    let kubeconfig = server.kubeconfig().to_string_lossy();
    let directory = plugins.path().to_string_lossy();
    let said = fails(&["run", "--kubeconfig", &kubeconfig, "--context", "staging", "--plugins", &directory]).await?;
    assert!(said.contains("staging"), "{said}");
    Ok(())
}

/// Runs the chameleon in `mode` on a `ConfigMap` and waits until the host's log contains all of `words`.
async fn misbehaves(mode: &'static str, words: &[&str]) -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let plugins = plugin_directory()?;
    chameleon::write(mode, &plugins.path().join("chameleon.wasm"))?;
    let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
    let bait = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bait", "labels": {"chameleon": "true"}},
    });
    server.objects().apply(&bait).await?;
    for word in words {
        host.says(word).await?;
    }
    Story::new(server.objects()).create().await?;
    Story::new(server.objects()).run().await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_that_traps_shows_its_panic_and_hurts_no_neighbour() -> anyhow::Result<()> {
    misbehaves("reconcile-traps", &["told to trap", "retry_in"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_that_fails_is_retried_with_backoff() -> anyhow::Result<()> {
    misbehaves("reconcile-transient", &["attempt=0", "attempt=3"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_that_exceeds_its_memory_limit_is_stopped() -> anyhow::Result<()> {
    misbehaves("reconcile-allocates", &["memory"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_list_of_failures_is_called_a_bug_of_the_plugin() -> anyhow::Result<()> {
    misbehaves("reconcile-empty-failures", &["without saying why"]).await
}
