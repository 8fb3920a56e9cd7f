//! Tests read-only hosts (`--read-only`), for the host's own writes: its finalizers, and the children of composite
//! plugins. `policies` tests the writes of a reconciler.

use serde_json::{Value, json};
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::{admin, chameleon, objects, paths, story};

use crate::composite::on_both_servers;

const READ_ONLY: [&str; 4] = ["--grants=manifest", "--read-only", "--admin-address", "127.0.0.1:0"];

fn run(server: &Server, plugins: &tempfile::TempDir) -> anyhow::Result<Host> {
    Host::run_with(server.kubeconfig(), server.objects().namespace(), plugins.path(), &READ_ONLY)
}

/// The withheld writes of the only controller.
async fn withheld(host: &Host) -> anyhow::Result<Value> {
    let plugins: Value = serde_json::from_str(&admin::get(admin::address(host).await?, "/plugins").await?.1)?;
    Ok(plugins["plugins"][0]["controllers"][0]["withheld"].clone())
}

async fn children_are_only_tried(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    server.install_webapp().await?;
    let plugins = tempfile::tempdir()?;
    let name = "webapp-composite.wasm";
    std::fs::copy(paths::plugins()?.join("composite").join(name), plugins.path().join(name))?;
    let host = run(&server, &plugins)?;
    host.says("controller started").await?;
    for document in objects::documents(&paths::example("webapp.yaml"))? {
        server.objects().apply(&document).await?;
    }
    host.says("webapps.apps.kubedojo.io/status").await?;
    admin::at_rest(admin::address(&host).await?).await?;
    let shown = withheld(&host).await?;
    assert_eq!((&shown["create"], &shown["change"], &shown["delete"]), (&json!(2), &json!(1), &json!(0)), "{shown}");
    for kind in ["Deployment", "Service"] {
        assert_eq!(server.objects().get(kind, story::NAME).await?, None);
    }
    assert!(!host.log().contains("the call failed"), "{}", host.log());
    assert!(host.terminate().await?.success());
    Ok(())
}

async fn a_finalizer_is_only_tried(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let plugins = tempfile::tempdir()?;
    chameleon::write("finalizing", &plugins.path().join("chameleon.wasm"))?;
    let host = run(&server, &plugins)?;
    host.says("controller started").await?;
    let map = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let labels = json!({"chameleon": "true"});
    server.objects().apply(&map(json!({"name": "first", "labels": labels}))).await?;
    host.says("chameleon sees first with 1 finalizers").await?;
    let said = host.says("mutation withheld").await?;
    assert!(said.contains("windlass.dev/chameleon") && said.contains("change"), "{said}");
    let first = server.objects().get("ConfigMap", "first").await?.unwrap_or_default();
    assert_eq!(first["metadata"].get("finalizers"), None);

    // The host does not remove a finalizer that another host has added.
    let finalizers = json!(["windlass.dev/chameleon"]);
    let mut second = map(json!({"name": "second", "labels": labels, "finalizers": finalizers}));
    second["data"] = json!({"cleaned": "yes"});
    server.objects().apply(&second).await?;
    server.objects().delete("ConfigMap", "second").await?;
    host.says("chameleon has cleaned up second").await?;
    admin::at_rest(admin::address(&host).await?).await?;
    let second = server.objects().get("ConfigMap", "second").await?.unwrap_or_default();
    assert_eq!(second["metadata"]["finalizers"], finalizers);
    let shown = withheld(&host).await?;
    assert_eq!((&shown["change"], &shown["delete"]), (&json!(1), &json!(1)), "{shown}");
    assert!(!host.log().contains("the finalizer was removed"), "{}", host.log());
    server.objects().merge("ConfigMap", "second", &json!({"metadata": {"finalizers": null}})).await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

on_both_servers! {
    children_are_only_tried: the_children_of_a_composite_are_only_tried_on_the_embedded_server,
        the_children_of_a_composite_are_only_tried_on_a_real_kube_apiserver;
    a_finalizer_is_only_tried: a_finalizer_is_only_tried_on_the_embedded_server,
        a_finalizer_is_only_tried_on_a_real_kube_apiserver;
}
