//! The operator's configuration of a plugin, from file and Secret to the plugin, while the host runs.

use serde_json::json;
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;
use windlass_tests::{admin, chameleon};

async fn a_configuration_reaches_a_plugin_that_runs(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let (objects, plugins) = (server.objects(), tempfile::tempdir()?);
    chameleon::write("configured", &plugins.path().join("chameleon.wasm"))?;
    let labels = json!({"chameleon": "true"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "first", "labels": labels}});
    objects.apply(&object).await?;
    let host = Host::run(server.kubeconfig(), objects.namespace(), plugins.path())?;
    let told = host.says("waiting: the plugin starts when its configuration is valid").await?;
    assert!(told.contains("chameleon.config.yaml") && told.contains("greeting"), "{told}");

    let write = |config: &str| {
        let text = format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: PluginConfig\nplugin: chameleon\nconfig: {config}\nsecrets:\n\
            - path: /smtp/password\n  secretKeyRef: {{namespace: {}, name: smtp, key: password}}\n",
            objects.namespace()
        );
        std::fs::write(plugins.path().join("chameleon.config.yaml"), text)
    };
    write("{greeting: hello}")?;
    host.says("/smtp/password: the Secret").await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "smtp"}, "stringData": {"password": "hunter2hunter2"},
    });
    objects.apply(&secret).await?;
    host.says("chameleon greets first with hello and 14 letters").await?;

    write("{greeting: 7}")?;
    host.says("the former one stays in force").await?;
    write("{greeting: hello}")?;
    host.says("the configuration file is valid again").await?;
    write("{greeting: bonjour}")?;
    host.says("chameleon greets first with bonjour and 14 letters").await?;
    host.says_times("chameleon greets first", 2).await?;
    assert_eq!(host.log().matches("chameleon greets first").count(), 2, "{}", host.log());
    assert!(!host.log().contains("hunter2"), "{}", host.log());
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_reaches_a_plugin_that_runs_on_the_embedded_server() -> anyhow::Result<()> {
    a_configuration_reaches_a_plugin_that_runs(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_reaches_a_plugin_that_runs_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_configuration_reaches_a_plugin_that_runs(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_a_plugin_logs_is_shown_nowhere() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let (objects, plugins) = (server.objects(), tempfile::tempdir()?);
    chameleon::write("configured", &plugins.path().join("chameleon.wasm"))?;
    let metadata = json!({"name": "first", "labels": {"chameleon": "true"}});
    objects.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await?;
    objects
        .apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "smtp"}, "stringData": {"password": "hunter2hunter2"},
        }))
        .await?;
    let config = format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: PluginConfig\nplugin: chameleon\nconfig: {{greeting: indiscreet}}\nsecrets:\n\
        - path: /smtp/password\n  secretKeyRef: {{namespace: {}, name: smtp, key: password}}\n",
        objects.namespace()
    );
    std::fs::write(plugins.path().join("chameleon.config.yaml"), config)?;
    let more = ["--grants=manifest", "--admin-address", "127.0.0.1:0"];
    let host = Host::run_with(server.kubeconfig(), objects.namespace(), plugins.path(), &more)?;
    host.says("chameleon logs in with <redacted>").await?;
    host.says("<redacted> is refused").await?;
    let address = admin::address(&host).await?;
    until("the failure and its lines are on the page", || async {
        let page = admin::get(address, "/plugins").await?.1;
        anyhow::ensure!(page.contains("<redacted> is refused"), "{page}");
        Ok(())
    })
    .await?;
    for path in ["/plugins", "/plugins/chameleon", "/plugins?plugin=chameleon", "/metrics", "/"] {
        let (_, page) = admin::get(address, path).await?;
        assert!(!page.contains("hunter2"), "{path}: {page}");
    }
    assert!(!host.log().contains("hunter2"), "{}", host.log());
    assert!(host.terminate().await?.success());
    Ok(())
}
