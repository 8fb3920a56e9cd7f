//! Tests that plugins share the host: a plugin that always has work must not delay the others.

use std::ffi::OsStr;

use anyhow::Context as _;
use serde_json::json;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::{busy, chameleon};

use crate::webapp::plugin_directory;

/// The number of keys that ask to run again all the time. They keep all 64 workers of the busy plugin occupied.
const HUNGRY_KEYS: usize = 300;
/// The maximum number of calls for which the other plugin may wait: the running call, and the calls that begin before
/// the machine wakes the key's worker. A plugin without its own share would wait for all of the busy plugin's workers.
const CALLS_WAITED_FOR_MAX: usize = 24;
/// How often the other plugin gets a key to run. The machine may sometimes delay its worker by hundreds of calls.
/// Without shares, the busy plugin would delay it each time.
const CALLS_OF_OTHER_PLUGIN: usize = 5;

/// The number of calls of the busy plugin that began between the event that queued `key` and the key's first call.
fn calls_before(log: &str, key: &str) -> usize {
    let begins = |line: &str, plugin: &str| line.contains(plugin) && line.contains(" begins ");
    let until_called = log.lines().take_while(|line| !(begins(line, "plugin=webapp") && line.contains(key)));
    // The line about the queued key may come after the key's call has begun.
    let queued = |line: &str| line.contains("queued") && line.contains("WebApp") && line.contains(key);
    until_called.skip_while(|line| !queued(line)).filter(|line| begins(line, "plugin=chameleon")).count()
}

/// Only one call runs at a time, over all plugins, so the calls have the order of their permits.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_with_one_key_waits_for_few_calls_of_a_busy_neighbour() -> anyhow::Result<()> {
    let _turn = busy::turn().await?;
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    for number in 0..HUNGRY_KEYS {
        let bait = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("bait-{number}"), "labels": {"chameleon": "true"}},
        });
        server.objects().apply(&bait).await?;
    }
    let plugins = plugin_directory()?;
    chameleon::write("hungry", &plugins.path().join("chameleon.wasm"))?;
    let arguments: [&OsStr; 12] = [
        "run".as_ref(),
        "--grants=manifest".as_ref(),
        "--kubeconfig".as_ref(),
        server.kubeconfig().as_ref(),
        "--namespace".as_ref(),
        server.objects().namespace().as_ref(),
        "--plugins".as_ref(),
        plugins.path().as_ref(),
        "--concurrent-calls".as_ref(),
        "1".as_ref(),
        "--log-level".as_ref(),
        "windlass::feed=trace,windlass::dispatch=trace,info".as_ref(),
    ];
    let host = Host::start(&arguments, None)?;
    host.says("controller started plugin=webapp").await?;
    host.says(&format!("key={}/bait-{}", server.objects().namespace(), HUNGRY_KEYS - 1)).await?;
    let mut keys = Vec::new();
    for number in 0..CALLS_OF_OTHER_PLUGIN {
        let name = format!("single-{number}");
        let webapp = json!({
            "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "metadata": {"name": name},
            "spec": {"image": "nginx:1.29", "replicas": 1, "port": 80},
        });
        server.objects().apply(&webapp).await?;
        let key = format!("key={}/{name}", server.objects().namespace());
        host.says(&format!("plugin=webapp controller=webapp {key} ")).await.context("it is called")?;
        keys.push(key);
    }
    let log = host.log();
    let mut before: Vec<_> = keys.iter().map(|key| calls_before(&log, key)).collect();
    println!("calls of the hungry plugin before each of the other's: {before:?}");
    before.sort_unstable();
    assert!(
        before[CALLS_OF_OTHER_PLUGIN / 2] <= CALLS_WAITED_FOR_MAX,
        "so many calls of the hungry plugin came before the other's: {before:?}"
    );
    assert!(host.terminate().await?.success());
    Ok(())
}
