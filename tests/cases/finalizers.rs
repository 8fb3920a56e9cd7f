//! Tests finalizers and pauses, which the host handles for a plugin that knows neither. Also tests removing finalizers
//! by hand.

use std::process::Output;

use serde_json::{Value, json};
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;
use windlass_tests::{chameleon, paths};

const FINALIZER: &str = "windlass.dev/chameleon";
const PAUSED: &str = "windlass.dev/paused";

/// A server with a host that runs the chameleon in `mode`.
async fn start(kind: Kind, mode: &str) -> anyhow::Result<(Server, tempfile::TempDir, Host)> {
    let server = Server::start(kind).await?;
    let plugins = tempfile::tempdir()?;
    chameleon::write(mode, &plugins.path().join("chameleon.wasm"))?;
    let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
    host.says("controller started").await?;
    Ok((server, plugins, host))
}

async fn create(server: &Server, name: &str) -> anyhow::Result<()> {
    let labels = json!({"chameleon": "true"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}});
    server.objects().apply(&object).await?;
    Ok(())
}

async fn get(server: &Server, name: &str) -> anyhow::Result<Value> {
    Ok(server.objects().get("ConfigMap", name).await?.unwrap_or_default())
}

async fn gone(server: &Server, name: &str) -> anyhow::Result<()> {
    until(&format!("{name} is gone"), || async {
        let left = get(server, name).await?;
        anyhow::ensure!(left.is_null(), "{left}");
        Ok(())
    })
    .await
}

/// Waits until the host has handled everything that happened so far. To know this, creates the object `other` and waits
/// until the host has seen it.
async fn settled(server: &Server, host: &Host, other: &str) -> anyhow::Result<()> {
    create(server, other).await?;
    host.says(&format!("chameleon sees {other} with")).await?;
    Ok(())
}

async fn a_plugin_cleans_up_before_its_object_is_gone(kind: Kind) -> anyhow::Result<()> {
    let (server, _plugins, host) = start(kind, "finalizing").await?;
    create(&server, "first").await?;
    host.says("chameleon sees first with 1 finalizers").await?;
    let object = get(&server, "first").await?;
    assert_eq!(object["metadata"]["finalizers"], json!([FINALIZER]));
    let managers: Vec<_> = object["metadata"]["managedFields"].as_array().into_iter().flatten().collect();
    assert!(managers.iter().any(|it| it["manager"] == "windlass-finalizer"), "{managers:?}");

    server.objects().delete("ConfigMap", "first").await?;
    host.says("chameleon cleans up first").await?;
    assert_eq!(get(&server, "first").await?["metadata"]["finalizers"], json!([FINALIZER]), "it is not done yet");
    server.objects().merge("ConfigMap", "first", &json!({"data": {"cleaned": "yes"}})).await?;
    host.says("chameleon has cleaned up first").await?;
    gone(&server, "first").await?;
    host.says("chameleon misses first").await?;
    if let Some(embedded) = server.embedded() {
        let patches =
            embedded.requests().into_iter().filter(|it| it.verb == "patch" && it.user_agent.starts_with("windlass/"));
        let patches: Vec<_> = patches.map(|it| (it.user_agent.ends_with("; finalizer)"), it.count)).collect();
        assert_eq!(patches, [(true, 2)], "one to put it on and one to take it off, by the host");
    }
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_cleans_up_before_its_object_is_gone_on_the_embedded_server() -> anyhow::Result<()> {
    a_plugin_cleans_up_before_its_object_is_gone(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_cleans_up_before_its_object_is_gone_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_plugin_cleans_up_before_its_object_is_gone(Kind::Real).await
}

async fn nothing_happens_to_a_paused_object(kind: Kind) -> anyhow::Result<()> {
    let (server, _plugins, host) = start(kind, "finalizing").await?;
    let objects = server.objects();
    create(&server, "first").await?;
    host.says("chameleon sees first").await?;
    objects.merge("ConfigMap", "first", &json!({"metadata": {"annotations": {PAUSED: "true"}}})).await?;
    host.says("paused: no call is made").await?;
    objects.merge("ConfigMap", "first", &json!({"data": {"a": "1"}})).await?;
    settled(&server, &host, "second").await?;
    objects.delete("ConfigMap", "first").await?;
    settled(&server, &host, "third").await?;
    let calls = || host.log().lines().filter(|line| line.contains("chameleon") && line.contains(" first")).count();
    assert_eq!(calls(), 1, "{}", host.log());
    assert_eq!(get(&server, "first").await?["metadata"]["finalizers"], json!([FINALIZER]));
    until("an Event tells of the pause", || async {
        let events = objects.list("Event", "").await?;
        anyhow::ensure!(events.iter().any(|event| event["reason"] == "Paused"), "{events:?}");
        Ok(())
    })
    .await?;

    objects.merge("ConfigMap", "first", &json!({"metadata": {"annotations": {PAUSED: null}}})).await?;
    host.says("chameleon cleans up first").await?;
    objects.merge("ConfigMap", "first", &json!({"data": {"cleaned": "yes"}})).await?;
    gone(&server, "first").await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_happens_to_a_paused_object_on_the_embedded_server() -> anyhow::Result<()> {
    nothing_happens_to_a_paused_object(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_happens_to_a_paused_object_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    nothing_happens_to_a_paused_object(Kind::Real).await
}

/// Runs `windlass finalizers ARGUMENTS`. Returns whether it succeeded, and its output.
async fn finalizers(server: &Server, arguments: &[&str]) -> anyhow::Result<(bool, String)> {
    let mut command = tokio::process::Command::new(paths::windlass()?);
    command.arg("finalizers").args(arguments).arg("--kubeconfig").arg(server.kubeconfig());
    command.args(["--namespace", server.objects().namespace()]).stdin(std::process::Stdio::null());
    let Output { status, stdout, stderr } = command.output().await?;
    Ok((status.success(), format!("{}{}", String::from_utf8(stdout)?, String::from_utf8(stderr)?)))
}

async fn an_abandoned_finalizer_is_found_and_released(kind: Kind) -> anyhow::Result<()> {
    let (server, plugins, host) = start(kind, "finalizing").await?;
    for name in ["first", "second"] {
        create(&server, name).await?;
        host.says(&format!("chameleon sees {name} with 1 finalizers")).await?;
    }
    server.objects().merge("ConfigMap", "second", &json!({"metadata": {"finalizers": ["other/x", FINALIZER]}})).await?;
    assert!(host.terminate().await?.success());
    chameleon::write("good", &plugins.path().join("chameleon.wasm"))?;
    let host = Host::run(server.kubeconfig(), server.objects().namespace(), plugins.path())?;
    let warning = host.says("windlass finalizers release chameleon").await?;
    assert!(warning.contains("objects=2"), "{warning}");
    server.objects().delete("ConfigMap", "first").await?;

    let (success, text) = finalizers(&server, &["list", "--plugin", "chameleon", "-o", "json"]).await?;
    assert!(success, "{text}");
    let listed: Value = serde_json::from_str(text[..=text.rfind(']').unwrap_or(0)].trim())?;
    assert_eq!((&listed[0]["name"], &listed[0]["deleting"]), (&json!("first"), &json!(true)), "{text}");
    assert_eq!((&listed[1]["name"], &listed[1]["deleting"]), (&json!("second"), &json!(false)), "{text}");

    let release = ["release", "chameleon", "--kind", "configmaps"];
    let (success, text) = finalizers(&server, &release).await?;
    assert!(!success && text.contains("--yes"), "nobody can be asked: {text}");
    let (success, text) = finalizers(&server, &[&release[..], &["--dry-run"]].concat()).await?;
    assert!(success && text.contains("configmaps/first") && text.contains("nothing was done"), "{text}");
    let (success, text) = finalizers(&server, &[&release[..], &["--yes", "third"]].concat()).await?;
    assert!(!success && text.contains("third"), "there is no such object: {text}");
    assert_eq!(get(&server, "first").await?["metadata"]["finalizers"], json!([FINALIZER]));

    let (success, text) = finalizers(&server, &[&release[..], &["--yes"]].concat()).await?;
    assert!(success && text.matches(": released").count() == 2, "{text}");
    gone(&server, "first").await?;
    assert_eq!(get(&server, "second").await?["metadata"]["finalizers"], json!(["other/x"]));
    server.objects().merge("ConfigMap", "second", &json!({"metadata": {"finalizers": null}})).await?;
    let (success, text) = finalizers(&server, &["list", "--plugin", "chameleon"]).await?;
    assert!(success && text.contains("no object"), "{text}");
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_finalizer_is_found_and_released_on_the_embedded_server() -> anyhow::Result<()> {
    an_abandoned_finalizer_is_found_and_released(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_finalizer_is_found_and_released_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    an_abandoned_finalizer_is_found_and_released(Kind::Real).await
}
