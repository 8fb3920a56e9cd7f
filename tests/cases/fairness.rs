//! Plugins share the host: one that always wants more does not hold up another.

use std::ffi::OsStr;

use serde_json::json;
use windlass_tests::chameleon;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;

use crate::webapp::plugin_directory;

/// So many keys ask to run again all the time that more than the hungry plugin's 64 workers always have work.
const KEYS: usize = 300;
/// The call that is at work, and those that begin while the machine does other things than to wake who takes the key. A plugin
/// that had no share of its own would wait for all the other's workers.
const A_FEW: usize = 24;

/// With one call at a time over all plugins, the order of calls is the order of permits.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_with_a_single_key_waits_for_a_few_calls_of_one_that_is_always_hungry() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    for number in 0..KEYS {
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
    host.says(&format!("key={}/bait-{}", server.objects().namespace(), KEYS - 1)).await?;
    Story::new(server.objects()).create().await?;
    let called = |line: &str| line.contains("plugin=webapp") && line.contains(": begins");
    let log = until("the single key has been called", || async {
        let log = host.log();
        if log.lines().any(called) { Ok(log) } else { Err("not yet") }
    })
    .await?;
    // That the key is queued may be told after its call has begun.
    let until_called = log.lines().take_while(|line| !called(line));
    let since_queued = until_called.skip_while(|line| !(line.contains("queued") && line.contains("WebApp")));
    let before = since_queued.filter(|line| line.contains(": begins")).count();
    assert!(before <= A_FEW, "{before} calls of the hungry plugin came before it");
    assert!(host.terminate().await?.success());
    Ok(())
}
