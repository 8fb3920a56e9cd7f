//! Caches of plugins: their size, their limit, and which plugins a change wakes.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_tests::chameleon;
use windlass_tests::host::Host;
use windlass_tests::process::Process;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::Story;
use windlass_tests::wait::until;

use crate::webapp::plugin_directory;

fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"chameleon": "true"}}, "data": data})
}

fn secret(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"value": value}})
}

fn only_chameleon(mode: &str) -> anyhow::Result<TempDir> {
    let directory = tempfile::tempdir()?;
    chameleon::write(mode, &directory.path().join("chameleon.wasm"))?;
    Ok(directory)
}

async fn references(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let objects = server.objects();
    for (name, of) in [("a", "shared"), ("b", "shared"), ("c", "own")] {
        objects.apply(&config_map(name, &json!({"secret": of}))).await?;
    }
    let plugins = only_chameleon("referring")?;
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    for first in ["chameleon a sees 2 of shared", "chameleon b sees 2 of shared", "chameleon c sees 1 of own"] {
        host.says(first).await?;
    }
    objects.apply(&secret("shared", "1")).await?;
    host.says_times("chameleon a sees 2 of shared", 2).await?;
    host.says_times("chameleon b sees 2 of shared", 2).await?;
    // After the change of `b`, one Secret has one object fewer in the index, and the other has one more.
    objects.apply(&config_map("b", &json!({"secret": "own"}))).await?;
    host.says("chameleon b sees 2 of own").await?;
    let of_a = || host.log().matches("chameleon a sees").count();
    let before = of_a();
    objects.apply(&secret("own", "1")).await?;
    host.says("chameleon c sees 2 of own").await?;
    assert_eq!(of_a(), before, "the Secret does not concern it:\n{}", host.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_runs_the_keys_that_name_it_on_the_embedded_server() -> anyhow::Result<()> {
    references(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_runs_the_keys_that_name_it_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    references(Kind::Real).await
}

/// The number of times that the chameleon has reconciled the object of this name.
pub(crate) fn runs(host: &Host, name: &str) -> usize {
    let (log, path) = (host.log(), format!("/{name} "));
    log.lines().filter(|line| line.contains("chameleon reconciled") && line.contains(&path)).count()
}

async fn runs_more_than(host: &Host, name: &str, before: usize) -> anyhow::Result<usize> {
    until(&format!("{name} ran again"), || async {
        let now = runs(host, name);
        if now > before { Ok(now) } else { Err(now) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_change_runs_old_and_new_selectors_and_a_deletion_runs_none() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let objects = server.objects();
    for name in ["web", "api"] {
        let spec = json!({"selector": {"app": name}, "ports": [{"port": 80}]});
        let metadata = json!({"name": name, "labels": {"chameleon": "true"}});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
        objects.apply(&service).await?;
    }
    let plugins = only_chameleon("selecting")?;
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    let (web, api) = (runs_more_than(&host, "web", 0).await?, runs_more_than(&host, "api", 0).await?);
    let labelled = |name: &str, app: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": app}}});
    objects.apply(&labelled("moving", "web")).await?;
    let web = runs_more_than(&host, "web", web).await?;
    assert_eq!(runs(&host, "api"), api, "its selector selects others:\n{}", host.log());
    objects.apply(&labelled("moving", "api")).await?;
    let (web, api) = (runs_more_than(&host, "web", web).await?, runs_more_than(&host, "api", api).await?);
    objects.delete("ConfigMap", "moving").await?;
    objects.apply(&labelled("other", "web")).await?;
    runs_more_than(&host, "web", web).await?;
    assert_eq!(runs(&host, "api"), api, "a deletion runs nobody:\n{}", host.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_concerns_all_keys_runs_them_all() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let objects = server.objects();
    for name in ["a", "b"] {
        objects.apply(&config_map(name, &json!({}))).await?;
    }
    let plugins = only_chameleon("concerned")?;
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    // The number of runs at the start depends on which lists come first: of the objects, of the namespaces, or of both.
    let runs = |name: &str| {
        let log = host.log();
        log.lines().filter(|line| line.contains("chameleon reconciled") && line.contains(&format!("/{name} "))).count()
    };
    let ran_more_than = async |before: [usize; 2]| {
        until("both ran again", || async {
            let now = ["a", "b"].map(runs);
            if now[0] > before[0] && now[1] > before[1] { Ok(now) } else { Err(now) }
        })
        .await
    };
    let mut before = ran_more_than([0, 0]).await?;
    for name in ["one", "two", "three"] {
        objects.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await?;
        before = ran_more_than(before).await?;
    }
    Ok(())
}

async fn projections(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let objects = server.objects();
    objects.apply(&secret("slim", "1")).await?;
    objects.apply(&config_map("slim", &json!({"kept": "1", "dropped": "2"}))).await?;
    let plugins = only_chameleon("slim")?;
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    host.says("chameleon has kept and of its Secret apiVersion,kind,metadata").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_sees_what_its_projections_keep_on_the_embedded_server() -> anyhow::Result<()> {
    projections(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_sees_what_its_projections_keep_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    projections(Kind::Real).await
}

fn limited(server: &Server, plugins: &Path) -> anyhow::Result<Host> {
    let (kubeconfig, namespace) = (server.kubeconfig().to_string_lossy(), server.objects().namespace());
    let plugins = plugins.to_string_lossy();
    let arguments = ["run", "--kubeconfig", &kubeconfig, "-n", namespace, "--plugins", &plugins];
    let more = ["--grants", "manifest", "--plugin-cache-limit", "300Ki"];
    Host::start(&[&arguments[..], &more].concat(), None)
}

/// Text that does not compress.
pub(crate) fn noise(seed: usize) -> String {
    let mut state = seed as u64 + 1;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from((state >> 33) % 90).expect("less than 90"))
    };
    (0..20_000).map(letter).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_caches_too_much_is_suspended_until_its_watch_narrows() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    let objects = server.objects();
    for number in 0..30 {
        let data = json!({"noise": noise(number)});
        let large =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("l{number}")}, "data": data});
        objects.apply(&large).await?;
    }
    objects.apply(&config_map("small", &json!({}))).await?;
    let plugins = plugin_directory()?;
    let path = plugins.path().join("chameleon.wasm");
    chameleon::write("wide", &path)?;
    let host = limited(&server, plugins.path())?;
    let said = host.says("plugin suspended").await?;
    for words in ["v1 ConfigMap", "a plugin may have 0.3 MiB", "narrow the watch", "chameleon"] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    // The neighbouring plugin works, and the host stops normally.
    Story::new(objects).create().await?;
    Story::new(objects).run().await?;
    assert!(!host.log().contains("chameleon reconciled"), "a suspended plugin is not called:\n{}", host.log());
    assert!(host.terminate().await?.success());

    chameleon::write("good", &path)?;
    let host = limited(&server, plugins.path())?;
    host.says("chameleon reconciled").await?;
    assert!(!host.log().contains("plugin suspended"), "{}", host.log());
    Ok(())
}

/// The number of objects, of about a megabyte each. Together they exceed the limit many times.
const LARGE_OBJECTS: usize = 100;

/// The maximum growth of the host's anonymous memory: the limit, the data in transit, and the memory that the allocator
/// keeps for both.
const LIST_GROWTH_MAX: u64 = 64 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn an_incoming_list_takes_no_more_memory_than_the_limit_allows() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let objects = server.objects();
    for number in 0..LARGE_OBJECTS {
        let data = json!({"text": "x".repeat(1_000_000)});
        objects.apply(&config_map(&format!("l{number}"), &data)).await?;
    }
    let plugins = tempfile::tempdir()?;
    let more = ["--grants=manifest", "--leases=none", "--cache-limit=16Mi"];
    let host = Host::run_with(server.kubeconfig(), objects.namespace(), plugins.path(), &more)?;
    host.says("no plugin runs").await?;
    let process = Process(host.id().context("it runs")?);
    chameleon::write("wide", &plugins.path().join("chameleon.wasm"))?;
    host.says("plugin loaded").await?;
    let before = process.memory()?;
    let said = host.says("plugin suspended").await?;
    for words in ["one cache may have 16.0 MiB", "retry_in"] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    // The cache's memory is freed when its controller has finished its current round.
    let after = until("the memory is given back", || async {
        let now = process.memory().map_err(|error| error.to_string())?;
        if now.anonymous < before.anonymous + (16 << 20) { Ok(now) } else { Err(format!("{now:?}")) }
    })
    .await?;
    assert!(after.peak < before.peak + LIST_GROWTH_MAX, "{before:?}, {after:?}");
    Ok(())
}
