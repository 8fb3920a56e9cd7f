//! Uses kubectl 1.32 as a person would. It must give the same results on both servers.

use std::path::Path;

use serde_json::Value;
use windlass_tests::host::Host;
use windlass_tests::kubectl::Kubectl;
use windlass_tests::paths;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use crate::webapp::{host, plugin_directory};

struct Case {
    server: Server,
    _host: Host,
    _plugins: tempfile::TempDir,
}

impl Case {
    async fn start(kind: Kind) -> anyhow::Result<Self> {
        let server = Server::start(kind).await?;
        let plugins = plugin_directory()?;
        let host = host(&server, plugins.path()).await?;
        Ok(Self { server, _host: host, _plugins: plugins })
    }

    fn kubectl(&self) -> Kubectl<'_> {
        Kubectl::new(self.server.kubeconfig(), self.server.objects().namespace())
    }
}

/// The example without its namespace, which would conflict with the test's.
fn example(directory: &Path) -> anyhow::Result<String> {
    let mut documents = windlass_tests::objects::documents(&paths::example("webapp.yaml"))?;
    if let Some(metadata) = documents[0]["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    let path = directory.join("webapp.json");
    std::fs::write(&path, documents[0].to_string())?;
    Ok(path.to_string_lossy().into_owned())
}

async fn everyday_verbs(kind: Kind) -> anyhow::Result<()> {
    let case = Case::start(kind).await?;
    let kubectl = case.kubectl();
    let directory = tempfile::tempdir()?;
    let file = example(directory.path())?;

    let applied = kubectl.run(&["apply", "-f", &file]).await?;
    assert!(applied.contains("webapp.apps.kubedojo.io/shop created"), "{applied}");
    kubectl.run(&["wait", "webapp/shop", "--for=jsonpath={.status.phase}=Running", "--timeout=60s"]).await?;
    kubectl.run(&["wait", "deployment/shop", "--for=condition=Available", "--timeout=60s"]).await?;
    let again = kubectl.run(&["apply", "-f", &file]).await?;
    assert!(again.contains("unchanged"), "{again}");

    let table = kubectl.run(&["get", "webapps"]).await?;
    let header: Vec<_> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(header, ["NAME", "IMAGE", "REPLICAS", "READY", "PHASE", "AGE"]);
    assert!(table.contains("Running"), "{table}");
    let deployments = kubectl.run(&["get", "deployments", "-o", "wide"]).await?;
    assert!(deployments.contains("2/2") && deployments.contains("SELECTOR"), "{deployments}");
    let yaml = kubectl.run(&["get", "wa", "shop", "-o", "yaml"]).await?;
    assert!(yaml.contains("kind: WebApp") && yaml.contains("observedGeneration:"), "{yaml}");
    let described = kubectl.run(&["describe", "webapp", "shop"]).await?;
    assert!(described.contains("Created") && described.contains("Events:"), "{described}");
    let service = kubectl.run(&["describe", "service", "shop"]).await?;
    assert!(service.contains("Selector:"), "{service}");

    kubectl.run(&["scale", "webapp", "shop", "--replicas=3"]).await?;
    kubectl.run(&["wait", "webapp/shop", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=60s"]).await?;
    let refused = kubectl.refused(&["scale", "webapp", "shop", "--replicas=51"]).await?;
    assert!(refused.contains("less than or equal to 50"), "{refused}");

    kubectl.run(&["delete", "webapp", "shop", "--cascade=foreground", "--timeout=60s"]).await?;
    // The plugin may see the deletion of the children before that of the primary. Then it creates another child, which
    // the garbage collector deletes because its owner is gone.
    let gone = until("the Deployment has gone", || kubectl.refused(&["get", "deployment", "shop"])).await?;
    assert!(gone.contains(r#"deployments.apps "shop" not found"#), "{gone}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn everyday_verbs_work_on_the_embedded_server() -> anyhow::Result<()> {
    everyday_verbs(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn everyday_verbs_work_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    everyday_verbs(Kind::Real).await
}

/// The lines of `text`, with single spaces between words.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Runs `kubectl describe` until it shows a line that begins with each of `beginnings`.
async fn describe_shows(kubectl: &Kubectl<'_>, beginnings: &[&str]) -> anyhow::Result<()> {
    until(&format!("describe shows {beginnings:?}"), || async {
        let described = kubectl.run(&["describe", "webapp", "shop"]).await?;
        let shown = lines(&described);
        let missing = beginnings.iter().find(|it| !shown.iter().any(|line| line.starts_with(**it)));
        anyhow::ensure!(missing.is_none(), "{missing:?} is not in:\n{described}");
        Ok(())
    })
    .await
}

async fn describing(kind: Kind) -> anyhow::Result<()> {
    let case = Case::start(kind).await?;
    let kubectl = case.kubectl();
    let directory = tempfile::tempdir()?;
    kubectl.run(&["apply", "-f", &example(directory.path())?]).await?;
    let ready = ["Conditions:", "Type: Ready", "Reason: ReplicasReady", "Status: True", "Events:", "Normal Created"];
    describe_shows(&kubectl, &ready).await?;
    kubectl.run(&["patch", "webapp", "shop", "--type=merge", "-p", r#"{"spec":{"image":""}}"#]).await?;
    describe_shows(&kubectl, &["Reason: Invalid", "Status: False", "Warning Invalid"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn describe_shows_conditions_and_events_on_the_embedded_server() -> anyhow::Result<()> {
    describing(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn describe_shows_conditions_and_events_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    describing(Kind::Real).await
}

async fn editing_and_applying_server_side(kind: Kind) -> anyhow::Result<()> {
    let case = Case::start(kind).await?;
    let kubectl = case.kubectl();
    let directory = tempfile::tempdir()?;
    let file = example(directory.path())?;

    let applied = kubectl.run(&["apply", "--server-side", "-f", &file]).await?;
    assert!(applied.contains("serverside-applied"), "{applied}");
    kubectl.run(&["wait", "webapp/shop", "--for=jsonpath={.status.phase}=Running", "--timeout=60s"]).await?;
    let fields = kubectl.run(&["get", "deployment", "shop", "-o", "json", "--show-managed-fields"]).await?;
    let fields: Value = serde_json::from_str(&fields)?;
    let managers = fields["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let ours = managers.iter().find(|entry| entry["manager"] == "windlass/webapp" && entry["operation"] == "Apply");
    let containers = ours.map(|entry| &entry["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]);
    assert!(containers.is_some_and(|it| it.get(r#"k:{"name":"web"}"#).is_some()), "{managers:#?}");

    let edit = kubectl
        .command(&["edit", "deployment", "shop"])
        .env("KUBE_EDITOR", "sed -i s/replicas:.2/replicas:\\ 7/")
        .output()
        .await?;
    assert!(edit.status.success(), "{}", String::from_utf8_lossy(&edit.stderr));
    assert!(String::from_utf8_lossy(&edit.stdout).contains("edited"));
    kubectl.run(&["wait", "deployment/shop", "--for=jsonpath={.spec.replicas}=2", "--timeout=60s"]).await?;
    kubectl.run(&["delete", "webapp", "shop", "--timeout=60s"]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_deployment_is_mended_on_the_embedded_server() -> anyhow::Result<()> {
    editing_and_applying_server_side(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_deployment_is_mended_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    editing_and_applying_server_side(Kind::Real).await
}

async fn watching(kind: Kind) -> anyhow::Result<()> {
    use tokio::io::{AsyncBufReadExt, BufReader};

    let case = Case::start(kind).await?;
    let kubectl = case.kubectl();
    let directory = tempfile::tempdir()?;
    let file = example(directory.path())?;
    let mut watch = kubectl.command(&["get", "webapps", "-w", "--output-watch-events"]).spawn()?;
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    kubectl.run(&["apply", "-f", &file]).await?;
    let seen = tokio::time::timeout(windlass_tests::wait::CONDITION_TIMEOUT, async {
        while let Some(line) = lines.next_line().await? {
            if line.contains("MODIFIED") && line.contains("Running") {
                return Ok(true);
            }
        }
        Ok::<_, std::io::Error>(false)
    });
    assert!(seen.await??, "kubectl -w must show the WebApp start to run");
    watch.kill().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_shows_a_webapp_start_to_run_on_the_embedded_server() -> anyhow::Result<()> {
    watching(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_shows_a_webapp_start_to_run_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    watching(Kind::Real).await
}
