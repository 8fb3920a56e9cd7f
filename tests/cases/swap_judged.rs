//! Tests generations that fail their probation, and where this is shown. Also tests swaps during which something else
//! happens: a lease is lost, calls run, or the next generation is delivered.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use windlass_core::life::sharing::shard_of;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;
use windlass_tests::{chameleon, delivery};

use crate::admin::{get, plugin, says, watched};
use crate::leases::TIMES;

/// The lease whose annotations record rollbacks.
const REJECTED: &str = "windlass-main-rejected";

pub(crate) fn object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"chameleon": "true"}}})
}

pub(crate) fn put(mode: &str, plugins: &Path) -> anyhow::Result<()> {
    delivery::replace(&plugins.join("chameleon.wasm"), |next| chameleon::write(mode, next))
}

/// Makes another host compile the plugin in `mode`, so that the hosts of all stories find it compiled. Compiling could
/// exceed a time limit of a story.
async fn compile(mode: &str) -> anyhow::Result<()> {
    let (server, plugins) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?);
    put(mode, plugins.path())?;
    let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
    host.says("plugin loaded").await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}

/// Waits until a line with `text` is logged after this call.
async fn says_again(host: &Host, text: &str) -> anyhow::Result<()> {
    host.says_times(text, host.log().matches(text).count() + 1).await
}

/// The rejected versions of the plugin, as other replicas know them.
async fn rejected(server: &Server) -> anyhow::Result<Value> {
    let lease = server.objects().get("Lease", REJECTED).await?.unwrap_or_default();
    let note = lease["metadata"]["annotations"]["rejected.windlass.dev/chameleon"].as_str().unwrap_or("null");
    Ok(serde_json::from_str(note)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_is_shown_everywhere_and_outlasts_restarts_until_a_new_file() -> anyhow::Result<()> {
    let (server, plugins, cache) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?, tempfile::tempdir()?);
    for number in 0..8 {
        server.objects().apply(&object(&format!("key-{number}"))).await?;
    }
    put("steady-0", plugins.path())?;
    let cache = ["--cache-dir", &cache.path().to_string_lossy()].map(str::to_owned);
    let cache = [&*cache[0], &*cache[1]];
    let (host, address) = watched(&server, plugins.path(), &cache).await?;
    host.says("steady end key-7 0").await?;
    let good = plugin(address, "chameleon").await?["digest"].clone();
    put("steady-1-traps", plugins.path())?;

    let said = host.says("rolled back: the previous generation runs again").await?;
    ensure!(said.contains("chameleon 1 was told") && said.contains(good.as_str().context("a digest")?), "{said}");
    says_again(&host, "steady end key-7 0").await?;
    let shown = until("what /plugins shows", || async {
        let shown = plugin(address, "chameleon").await?;
        ensure!(shown["digest"] == good && !shown["notTaken"].is_null(), "{shown}");
        anyhow::Ok(shown)
    })
    .await?;
    let bad = shown["rejected"]["digest"].clone();
    ensure!(bad.is_string() && bad != good && shown["notTaken"]["digest"] == bad, "{shown}");
    ensure!(shown["state"] == "running" && shown["pending"].is_null(), "{shown}");
    ensure!(shown["rejected"]["reason"].as_str().is_some_and(|why| why.contains("chameleon 1 was told")), "{shown}");
    let told = says(address, &["status", "chameleon", "-o", "wide"], 1).await?;
    ensure!(told.contains("a version was rolled back") && told.contains("chameleon 1 was told"), "{told}");
    let resumed = says(address, &["resume", "chameleon"], 1).await?;
    ensure!(resumed.contains("a version was rolled back"), "nothing is tried again: {resumed}");
    let metrics = get(address, "/metrics").await?.1;
    let counted = r#"windlass_plugin_loads_total{plugin="chameleon",result="rolled-back"} 1"#;
    ensure!(metrics.contains(counted), "{metrics}");
    until("other replicas can know", || async {
        let known = rejected(&server).await?;
        ensure!(known["digest"] == bad && known["former"] == good, "{known}");
        Ok(())
    })
    .await?;
    until("the event", || async {
        let events = server.objects().list("Event", "").await?;
        let event = events.iter().find(|event| event["reason"] == "PluginRolledBack").context("no such event")?;
        ensure!(event["regarding"]["kind"] == "Lease" || event["involvedObject"]["kind"] == "Lease", "{event}");
        ensure!(event.to_string().contains(bad.as_str().unwrap_or("?")), "{event}");
        Ok(())
    })
    .await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");

    // The directory still has the file that was rolled back. The good file is only in the cache.
    let (host, address) = watched(&server, plugins.path(), &cache).await?;
    host.says("the version before the rolled-back one runs again").await?;
    host.says("steady end key-7 0").await?;
    let shown = plugin(address, "chameleon").await?;
    ensure!(shown["digest"] == good && shown["state"] == "running", "{shown}");
    ensure!(shown["rejected"]["digest"] == bad && shown["notTaken"]["digest"] == bad, "{shown}");
    put("steady-2", plugins.path())?;
    host.says("steady end key-7 2").await?;
    until("it is forgotten", || async {
        let (known, shown) = (rejected(&server).await?, plugin(address, "chameleon").await?);
        ensure!(known.is_null() && shown["rejected"].is_null() && shown["notTaken"].is_null(), "{known} {shown}");
        Ok(())
    })
    .await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}

/// The file changes while no host runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_replaced_while_no_host_runs_clears_its_rollback_everywhere() -> anyhow::Result<()> {
    let (server, plugins, cache) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?, tempfile::tempdir()?);
    server.objects().apply(&object("key")).await?;
    put("steady-0", plugins.path())?;
    let cache = cache.path().to_string_lossy();
    let arguments = [&["--cache-dir", &*cache], &TIMES[..]].concat();
    let (host, _) = watched(&server, plugins.path(), &arguments).await?;
    host.says("steady end key 0").await?;
    put("steady-1-traps", plugins.path())?;
    until("other replicas can know", || async {
        let known = rejected(&server).await?;
        ensure!(known["digest"].is_string(), "{known}");
        Ok(())
    })
    .await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    put("steady-2", plugins.path())?;
    let (host, _) = watched(&server, plugins.path(), &arguments).await?;
    host.says("steady end key 2").await?;
    until("other replicas know that it is forgotten", || async {
        let known = rejected(&server).await?;
        ensure!(known.is_null(), "{known}");
        Ok(())
    })
    .await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}

/// Each new generation waits for its own definitions before it takes over. An earlier generation that returns does not
/// wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_generation_that_comes_back_has_its_definitions_installed_again() -> anyhow::Result<()> {
    let (server, plugins) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?);
    server.objects().apply(&object("key")).await?;
    let describes = async |number: &str| {
        until(&format!("the definition of generation {number}"), || async {
            let definition = server.objects().get("CustomResourceDefinition", "broughts.brought.windlass.dev").await?;
            let definition = definition.context("no definition")?;
            let description = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"];
            ensure!(*description == format!("of generation {number}"), "{definition}");
            Ok(())
        })
        .await
    };
    put("steady-0-brings", plugins.path())?;
    let (host, address) = watched(&server, plugins.path(), &TIMES).await?;
    host.says("steady end key 0").await?;
    let good = plugin(address, "chameleon").await?["digest"].clone();
    describes("0").await?;
    put("steady-1-spoils-brings", plugins.path())?;
    host.says("steady end key 1").await?;
    describes("1").await?;
    server.objects().apply(&object("bad")).await?;
    host.says("rolled back: the previous generation runs again").await?;
    host.says("steady end bad 0").await?;
    describes("0").await?;
    // A new lease term does not undo the rollback.
    take_the_lease_for_a_while(&server, &host).await?;
    says_again(&host, "steady end bad 0").await?;
    describes("0").await?;
    ensure!(plugin(address, "chameleon").await?["digest"] == good, "it is the one from before");
    put("steady-2-brings", plugins.path())?;
    host.says("steady end bad 2").await?;
    describes("2").await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}

/// Puts another holder into the plugin's lease, and waits until the host has lost it and won it again.
async fn take_the_lease_for_a_while(server: &Server, host: &Host) -> anyhow::Result<()> {
    let lease = format!("windlass-main-shard-{:02}", shard_of("chameleon"));
    let won = host.log().matches("lease won").count();
    server.objects().merge("Lease", &lease, &json!({"spec": {"holderIdentity": "somebody"}})).await?;
    host.says("it names another holder").await?;
    host.says_times("lease won", won + 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_that_fails_after_regaining_its_lease_is_rolled_back() -> anyhow::Result<()> {
    let (server, plugins) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?);
    server.objects().apply(&object("key")).await?;
    put("steady-0", plugins.path())?;
    let (host, _) = watched(&server, plugins.path(), &TIMES).await?;
    host.says("steady end key 0").await?;
    put("steady-1-spoils", plugins.path())?;
    host.says("steady end key 1").await?;
    take_the_lease_for_a_while(&server, &host).await?;
    says_again(&host, "steady end key 1").await?;
    server.objects().apply(&object("bad")).await?;
    host.says("steady end bad 0").await?;
    ensure!(host.log().contains("has not proven itself"), "{}", host.log());
    // Lose the lease in the same way while a generation is delivered.
    let lease = format!("windlass-main-shard-{:02}", shard_of("chameleon"));
    server.objects().merge("Lease", &lease, &json!({"spec": {"holderIdentity": "somebody"}})).await?;
    host.says_times("it names another holder", 2).await?;
    put("steady-2-spoils", plugins.path())?;
    host.says("steady end key 2").await?;
    host.says_times("has not proven itself", 2).await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lost_during_a_swap_promotes_nothing_and_loses_no_generation() -> anyhow::Result<()> {
    let (server, plugins) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?);
    server.objects().apply(&object("key")).await?;
    put("steady-0", plugins.path())?;
    let (host, address) = watched(&server, plugins.path(), &TIMES).await?;
    host.says("steady end key 0").await?;
    let good = plugin(address, "chameleon").await?["digest"].clone();
    put("configured", plugins.path())?;
    host.says("a new generation gets ready").await?;
    ensure!(plugin(address, "chameleon").await?["digest"] == good, "it waits for its configuration");
    take_the_lease_for_a_while(&server, &host).await?;
    says_again(&host, "steady end key 0").await?;
    host.says_times("a new generation gets ready", 2).await?;
    says_again(&host, "steady end key 0").await?;
    let shown = plugin(address, "chameleon").await?;
    ensure!(shown["digest"] == good && shown["state"] == "running", "what ran goes on: {shown}");
    ensure!(shown["pending"]["digest"].is_string() && shown["pending"]["digest"] != good, "{shown}");
    let config = plugins.path().join("chameleon.config.yaml");
    let head = "apiVersion: windlass.dev/v1alpha1\nkind: PluginConfig\nplugin: chameleon\n";
    std::fs::write(&config, format!("{head}config: {{greeting: hello}}\n"))?;
    host.says("chameleon greets key with hello").await?;
    ensure!(!host.log().contains("were stopped"), "{}", host.log());

    // A generation that would leave finalizers behind must wait, however often the lease returns.
    std::fs::remove_file(&config)?;
    put("finalizing", plugins.path())?;
    host.says("chameleon sees key with 1 finalizers").await?;
    let keeping = plugin(address, "chameleon").await?["digest"].clone();
    take_the_lease_for_a_while(&server, &host).await?;
    // The generation arrives before the host can know which objects have finalizers.
    put("steady-2", plugins.path())?;
    host.says("would stay for ever").await?;
    take_the_lease_for_a_while(&server, &host).await?;
    host.says_times("would stay for ever", 2).await?;
    let shown = plugin(address, "chameleon").await?;
    ensure!(shown["digest"] == keeping && !host.log().contains("steady end key 2"), "{shown}");
    server.objects().delete("ConfigMap", "key").await?;
    host.says("chameleon cleans up key").await?;
    server.objects().merge("ConfigMap", "key", &json!({"data": {"cleaned": "yes"}})).await?;
    host.says_times("a new generation has taken over", 3).await?;
    server.objects().apply(&object("other")).await?;
    host.says("steady end other 2").await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}

/// A newer file that waits must not keep a failing generation running.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_is_due_waits_for_no_newer_generation() -> anyhow::Result<()> {
    // The newer generation must be ready before the failing one passes its probation.
    compile("configured").await?;
    let (server, plugins) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?);
    server.objects().apply(&object("key")).await?;
    put("steady-0", plugins.path())?;
    let (host, address) = watched(&server, plugins.path(), &["--leases=none"]).await?;
    host.says("steady end key 0").await?;
    let good = plugin(address, "chameleon").await?["digest"].clone();
    put("steady-1-spoils", plugins.path())?;
    host.says("steady end key 1").await?;
    put("configured", plugins.path())?;
    host.says_times("a new generation gets ready", 2).await?;
    server.objects().apply(&object("bad")).await?;
    host.says("steady end bad 0").await?;
    until("/plugins shows what runs", || async {
        let shown = plugin(address, "chameleon").await?;
        ensure!(shown["digest"] == good && shown["rejected"].is_null(), "{shown}");
        Ok(())
    })
    .await?;
    let head = "apiVersion: windlass.dev/v1alpha1\nkind: PluginConfig\nplugin: chameleon\n";
    std::fs::write(plugins.path().join("chameleon.config.yaml"), format!("{head}config: {{greeting: hello}}\n"))?;
    host.says("chameleon greets bad with hello").await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_waits_across_a_swap_says_so_and_the_host_is_ready() -> anyhow::Result<()> {
    let (server, plugins) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?);
    put("missing-crd", plugins.path())?;
    let (host, address) = watched(&server, plugins.path(), &["--leases=none"]).await?;
    let waits = async |digest: Value| {
        until("it waits, and the host is ready", || async {
            let shown = plugin(address, "chameleon").await?;
            let controller = &shown["controllers"][0];
            ensure!(shown["digest"] != digest && controller["state"] == "waiting", "{shown}");
            ensure!(get(address, "/readyz").await?.0 == 200, "not ready");
            anyhow::Ok(shown["digest"].clone())
        })
        .await
    };
    let first = waits(Value::Null).await?;
    let file = plugins.path().join("chameleon.wasm");
    let mut other = std::fs::read(&file)?;
    // Add a section that is never read, so that the bytes differ.
    other.extend([0, 6, 4, b'n', b'o', b't', b'e', b'2']);
    delivery::replace(&file, |next| Ok(std::fs::write(next, other)?))?;
    host.says("a new generation has taken over").await?;
    waits(first).await?;
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}

/// A generation with other caches is called only after its predecessor's calls have ended, so that it sees their
/// writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_generation_with_other_caches_waits_for_the_former_ones_calls() -> anyhow::Result<()> {
    let (server, plugins) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    // Compile this generation first, because it must be ready before the call that waits for a response is cut.
    compile("referring").await?;
    put(&format!("outside-{port}"), plugins.path())?;
    let policy = format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: chameleon\n\
         rules: [{{apiGroups: [\"\"], resources: [configmaps, secrets], verbs: [get, list, watch]}}]\n\
         http: [{{scheme: http, host: 127.0.0.1, port: {port}, methods: [GET], addresses: [127.0.0.0/8]}}]\n"
    );
    std::fs::write(plugins.path().join("chameleon.policy.yaml"), policy)?;
    let (host, address) = watched(&server, plugins.path(), &["--leases=none", "--grants=policy"]).await?;
    host.says("controller started").await?;
    server.objects().apply(&object("first")).await?;
    let (mut asking, _) = listener.accept().await?;
    put("referring", plugins.path())?;
    host.says("a new generation has taken over").await?;
    server.objects().apply(&object("second")).await?;
    until("the host has heard of it", || async {
        let metrics = get(address, "/metrics").await?.1;
        let mut caches = metrics.lines().filter(|line| line.starts_with("windlass_informer_objects{"));
        ensure!(caches.any(|line| line.contains("onfig") && line.ends_with(" 2")), "{metrics}");
        Ok(())
    })
    .await?;
    let sees = |name: &str| format!("chameleon {name} sees");
    ensure!(!host.log().contains(&sees("first")) && !host.log().contains(&sees("second")), "{}", host.log());
    asking.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi").await?;
    for name in ["first", "second"] {
        host.says(&sees(name)).await?;
    }
    let log = host.log();
    let at = |text: &str| log.find(text).with_context(|| format!("no {text} in {log}"));
    let ended = at("chameleon got 200")?;
    ensure!(ended < at(&sees("first"))? && ended < at(&sees("second"))?, "{log}");
    ensure!(host.terminate().await?.success(), "it ends cleanly");
    Ok(())
}
