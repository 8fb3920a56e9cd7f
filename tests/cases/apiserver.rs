//! `windlass apiserver`, and the flags of the embedded API server that it shares with `windlass dev`.

use std::path::Path;
use std::process::Stdio;

use anyhow::Context as _;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use windlass_tests::host::Host;
use windlass_tests::kubectl::Kubectl;
use windlass_tests::objects::Objects;
use windlass_tests::story::Story;
use windlass_tests::{paths, server};

use crate::webapp::plugin_directory;

const SHOP: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n\
    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: prices, namespace: shop}\ndata: {tea: '3'}\n";
const NO_DEPLOYMENTS: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Reactors\nrules:\n- name: full\n  \
    when: {verbs: [create, patch], resources: [deployments.apps], calls: {first: 2}}\n  then:\n  \
    - error: {code: 500}\n";

/// A running `windlass apiserver`, which is killed when dropped.
struct Served {
    process: Child,
    /// The line that says that the server is ready.
    ready: String,
}

impl Served {
    /// Starts the server in `folder` and waits until it is ready.
    async fn start(folder: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let mut process = Command::new(paths::windlass()?)
            .args(["apiserver", "--kubeconfig-out", "made/kubeconfig", "--port-file", "port"])
            .args(more)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(process.stdout.take().context("it is piped")?).lines();
        let ready = lines.next_line().await?.context("it ended before it was ready")?;
        Ok(Self { process, ready })
    }

    async fn terminate(mut self) -> anyhow::Result<()> {
        let id = self.process.id().context("it runs")?.to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await?.success());
        assert!(self.process.wait().await?.success());
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ready_line_and_port_file_name_the_port_and_kubectl_connects() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let served = Served::start(folder.path(), &[]).await?;
    let port = std::fs::read_to_string(folder.path().join("port"))?;
    assert_eq!(served.ready, format!("ready http://127.0.0.1:{} kubeconfig=made/kubeconfig", port.trim()));
    let kubeconfig = folder.path().join("made/kubeconfig");
    let kubectl = Kubectl::new(&kubeconfig, "default");
    assert_eq!(kubectl.run(&["get", "namespaces", "default", "-o", "name"]).await?, "namespace/default\n");
    served.terminate().await
}

#[tokio::test(flavor = "multi_thread")]
async fn loaded_and_written_objects_survive_a_restart() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("manifests"))?;
    std::fs::write(folder.path().join("manifests/shop.yaml"), SHOP)?;
    let kubeconfig = folder.path().join("made/kubeconfig");
    let kubectl = Kubectl::new(&kubeconfig, "shop");
    let served = Served::start(folder.path(), &["--load", "manifests", "--state", "state"]).await?;
    kubectl.run(&["create", "configmap", "more", "--from-literal", "cake=5"]).await?;
    served.terminate().await?;

    let served = Served::start(folder.path(), &["--state", "state"]).await?;
    let kept = kubectl.run(&["get", "configmaps", "-o", "name"]).await?;
    assert!(kept.contains("configmap/prices") && kept.contains("configmap/more"), "{kept}");
    served.terminate().await
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_and_https_apply_if_they_are_requested() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let served = Served::start(folder.path(), &["--authorization", "rbac"]).await?;
    assert!(served.ready.starts_with("ready https://127.0.0.1:"), "{}", served.ready);
    let kubeconfig = folder.path().join("made/kubeconfig");
    let kubectl = Kubectl::new(&kubeconfig, "default");
    kubectl.run(&["create", "rolebinding", "jane", "--clusterrole=view", "--user=jane"]).await?;
    assert_eq!(kubectl.run(&["auth", "can-i", "list", "pods", "--as", "jane"]).await?, "yes\n");
    let refused = kubectl.refused(&["create", "configmap", "x", "--as", "jane"]).await?;
    assert!(refused.contains("User \"jane\" cannot create resource \"configmaps\""), "{refused}");
    served.terminate().await
}

const CAKES: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: cakes.shop.test}\n\
    spec:\n  group: shop.test\n  scope: Namespaced\n  names: {plural: cakes, kind: Cake}\n  versions:\n  \
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}\n\
    ---\napiVersion: shop.test/v1\nkind: Cake\nmetadata: {name: one}\n\
    ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: after}\n";

/// kubectl asks OpenAPI v2, in protobuf, whether a kind without a version 3 document can be validated.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_names_kinds_that_are_not_served_and_applies_the_rest() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let served = Served::start(folder.path(), &[]).await?;
    let kubeconfig = folder.path().join("made/kubeconfig");
    let kubectl = Kubectl::new(&kubeconfig, "default");
    let file = folder.path().join("cakes.yaml");
    std::fs::write(&file, CAKES)?;
    let file = file.to_string_lossy().into_owned();
    let refused = kubectl.refused(&["apply", "-f", &file]).await?;
    let expected = "no matches for kind \"Cake\" in version \"shop.test/v1\"\nensure CRDs are installed first";
    assert!(refused.contains(expected), "{refused}");
    kubectl.run(&["get", "configmap", "after"]).await?;
    kubectl.run(&["wait", "--for=condition=Established", "crd/cakes.shop.test", "--timeout=30s"]).await?;
    let applied = kubectl.run(&["apply", "-f", &file]).await?;
    assert!(applied.contains("cake.shop.test/one created"), "{applied}");
    let explained = kubectl.run(&["explain", "cakes.apiVersion"]).await?;
    assert!(explained.contains("APIVersion defines the versioned schema of this representation"), "{explained}");
    served.terminate().await
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_rolls_a_deployment_out_and_back_with_all_stand_ins() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let served = Served::start(folder.path(), &["--stand-ins", "all"]).await?;
    let kubeconfig = folder.path().join("made/kubeconfig");
    let kubectl = Kubectl::new(&kubeconfig, "default");
    kubectl.run(&["create", "deployment", "web", "--image=nginx:1", "--replicas=2"]).await?;
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await?;
    kubectl.run(&["set", "image", "deployment/web", "nginx=nginx:2"]).await?;
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await?;
    let history = kubectl.run(&["rollout", "history", "deployment/web"]).await?;
    assert_eq!(history.lines().filter(|line| line.starts_with(['1', '2'])).count(), 2, "{history}");
    kubectl.run(&["rollout", "undo", "deployment/web"]).await?;
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await?;
    kubectl.run(&["wait", "pod", "-l", "app=web", "--for=condition=Ready", "--timeout=60s"]).await?;
    let images = ["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.containers[*].image}"];
    assert_eq!(kubectl.run(&images).await?, "nginx:1 nginx:1");
    served.terminate().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_for_python_does_its_usual_work() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let served = Served::start(folder.path(), &[]).await?;
    let output = Command::new("python")
        .env("PATH", paths::clients()?)
        .arg(paths::root().join("tests/clients/usual_work.py"))
        .arg(folder.path().join("made/kubeconfig"))
        .kill_on_drop(true)
        .output()
        .await?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    served.terminate().await
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_of_dev_converge_on_a_misbehaving_server() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (kubeconfig, reactors) = (folder.path().join("kubeconfig"), folder.path().join("reactors.yaml"));
    std::fs::write(&reactors, NO_DEPLOYMENTS)?;
    let plugins = plugin_directory()?;
    let host = Host::start(
        &[
            "dev".as_ref(),
            "--plugins".as_ref(),
            plugins.path().as_os_str(),
            "--kubeconfig-out".as_ref(),
            kubeconfig.as_os_str(),
            "--reactors".as_ref(),
            reactors.as_os_str(),
        ],
        None,
    )?;
    host.says("embedded API server is ready").await?;
    let objects = Objects::new(server::client(&kubeconfig).await?, "default");
    server::install_webapp(&objects).await?;
    Story::new(&objects).create().await?;
    Story::new(&objects).run().await?;
    let told: Value =
        serde_json::from_str(&Kubectl::new(&kubeconfig, "default").run(&["get", "--raw", "/reactors"]).await?)?;
    assert_eq!(told["status"]["rules"][0]["acted"], 2, "{told}");
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_an_unusable_flag_does_not_start_and_names_it() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("torn"), "windlass-apiserver state")?;
    std::fs::write(folder.path().join("typo.yaml"), NO_DEPLOYMENTS.replace("verbs", "verb"))?;
    std::fs::write(folder.path().join("empty.pem"), "")?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let cases = [
        (["--listen".to_owned(), taken.local_addr()?.to_string()], "cannot listen on 127.0.0.1:"),
        (["--load".to_owned(), path("absent")], "absent"),
        (["--state".to_owned(), path("torn")], "torn"),
        (["--reactors".to_owned(), path("typo.yaml")], "typo.yaml"),
        (["--client-ca-file".to_owned(), path("absent.pem")], "--client-ca-file"),
        (["--client-ca-file".to_owned(), path("empty.pem")], "the authority of client certificates"),
        (["--kubeconfig-out".to_owned(), path("torn/kubeconfig")], "torn/kubeconfig"),
    ];
    for ([flag, value], said) in cases {
        let mut arguments = vec!["apiserver".to_owned(), flag, value];
        if arguments[1] != "--kubeconfig-out" {
            arguments.extend(["--kubeconfig-out".to_owned(), path("kubeconfig")]);
        }
        let mut host = Host::start(&arguments, None)?;
        let status = host.ends().await?;
        assert_eq!(status.code(), Some(1), "{arguments:?}");
        assert!(host.log().contains(said), "{said:?} is not in: {}", host.log());
    }
    Ok(())
}
