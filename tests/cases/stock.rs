//! Plugins built by stock toolchains, without our SDK or adapter. Each prints, reads the clock, draws a random number,
//! is refused a file, and creates a `WebApp`'s `ConfigMap` (`tests/stock`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use regex::Regex;
use serde_json::json;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;
use windlass_tests::{busy, paths};

/// The time limit for loading a large component for the first time, beside other tests.
const LARGE_COMPILE_TIMEOUT: Duration = Duration::from_mins(4);

/// Flags for a host without policies, and with enough time to compile on a busy machine.
const FLAGS: [&str; 6] =
    ["--grants=manifest", "--leases=none", "--limit", "compile-deadline=4m", "--limit", "compile-cpu=4m"];

/// Runs only the plugin `name`, whose file access must be refused with `words`.
async fn converges(name: &str, words: &str) -> anyhow::Result<()> {
    let began = seconds()?;
    let plugins = tempfile::tempdir()?;
    std::fs::copy(paths::stock(name)?, plugins.path().join(format!("{name}.wasm")))?;
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let objects = server.objects();
    let host = {
        let _turn = busy::turn().await?;
        let host = Host::run_with(server.kubeconfig(), objects.namespace(), plugins.path(), &FLAGS)?;
        host.says_within(LARGE_COMPILE_TIMEOUT, &["controller started"]).await?;
        host
    };
    let webapp = json!({
        "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp",
        "metadata": {"name": "shop"}, "spec": {"image": "nginx"},
    });
    objects.apply(&webapp).await?;
    let converged = until("the WebApp has its ConfigMap", || async {
        let it = objects.get("ConfigMap", &format!("shop-{name}")).await?.context("it is not there")?;
        let owner = &it["metadata"]["ownerReferences"][0];
        ensure!(owner["kind"] == "WebApp" && owner["controller"] == true && it["data"]["file"] == "refused", "{it}");
        Ok(())
    });
    converged.await.with_context(|| host.log())?;

    let line = host.says("for shop at ").await?;
    let said = Regex::new(r"for shop at (\d+) drew ([0-9a-f]{8}), and /etc/hostname: (.+)")?;
    let said = said.captures(&line).with_context(|| format!("it is no whole line: {line}"))?;
    println!("{line}");
    let at: u64 = said[1].parse()?;
    ensure!((began..=seconds()?).contains(&at), "the clock is not the host's: {line}");
    ensure!(&said[2] != "00000000", "nothing was drawn: {line}");
    ensure!(said[3].contains(words) && line.contains(name), "{line}");
    let status = host.terminate().await?;
    ensure!(status.success(), "{status}");
    Ok(())
}

fn seconds() -> anyhow::Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_by_componentize_py_converges_prints_and_is_refused_a_file() -> anyhow::Result<()> {
    converges("stock-python", "/etc/hostname").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_by_componentize_js_converges_prints_and_is_refused_a_file() -> anyhow::Result<()> {
    converges("stock-js", "fetch").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zig_cc_plugin_in_the_standard_adapter_converges_and_opens_no_file() -> anyhow::Result<()> {
    converges("stock-c", "No such file").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_go_plugin_in_the_standard_adapter_converges_and_opens_no_file() -> anyhow::Result<()> {
    converges("stock-go", "Bad file number").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_by_cargo_for_wasip2_converges_prints_and_is_refused_a_file() -> anyhow::Result<()> {
    converges("stock-rust", "No such file").await
}
