//! `plugins/csr-approver`: kubelets ask for their serving certificates.

use anyhow::ensure;
use windlass_tests::kubectl::Kubectl;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{gives_no_finding, installed, running, sources};

/// Waits until the request has this condition, and returns its message.
async fn decided(kubectl: &Kubectl<'_>, name: &str, condition: &str) -> anyhow::Result<String> {
    let path = format!("jsonpath={{.status.conditions[?(@.type=={condition:?})].message}}");
    until(&format!("{name} is {condition}"), || async {
        let message = kubectl.run(&["get", "csr", name, "-o", &path]).await?;
        ensure!(!message.is_empty(), "{}", kubectl.run(&["get", "csr"]).await?);
        Ok(message)
    })
    .await
}

async fn kubelets_get_their_certificates(kind: Kind) -> anyhow::Result<()> {
    let server = Server::start(kind).await?;
    let kubectl = Kubectl::of_all_namespaces(server.kubeconfig());
    let sample = std::fs::read_to_string(sources("csr-approver").join("request.yaml"))?;
    let plugins = installed("csr-approver")?;
    let ask = async |name: &str, node: &str| {
        let file = plugins.path().join(format!("{name}.request"));
        std::fs::write(&file, sample.replace("name: node-1\n", &format!("name: {name}\n")))?;
        let file = file.display().to_string();
        kubectl.run(&["create", "-f", &file, "--as", node, "--as-group", "system:nodes"]).await
    };
    // Clusters allow this to all nodes.
    let role = "dropins-nodes-ask-for-certificates";
    let verbs = ["--verb=create", "--resource=certificatesigningrequests.certificates.k8s.io"];
    kubectl.run(&[&["create", "clusterrole", role][..], &verbs].concat()).await?;
    let bound = [format!("--clusterrole={role}"), "--group=system:nodes".to_owned()];
    kubectl.run(&["create", "clusterrolebinding", role, &bound[0], &bound[1]]).await?;
    // The kubelet asks while no approver runs.
    ask("node-1-early", "system:node:node-1").await?;
    let host = running(&server, &plugins).await?;
    decided(&kubectl, "node-1-early", "Approved").await?;

    ask("node-1-again", "system:node:node-1").await?;
    decided(&kubectl, "node-1-again", "Approved").await?;

    // Another node asks for a certificate of node-1.
    ask("node-1-forged", "system:node:node-2").await?;
    let message = decided(&kubectl, "node-1-forged", "Denied").await?;
    ensure!(message.contains("the common name") && message.contains("is not that of the node node-2"), "{message}");
    until("an Event has the reasons", || async {
        let events = kubectl.run(&["get", "events", "--all-namespaces"]).await?;
        ensure!(events.contains("Denied") && events.contains("node-2"), "{events}");
        Ok(())
    })
    .await?;

    // The configuration changes while the plugin runs.
    let config = plugins.path().join("csr-approver.config.yaml");
    let text = std::fs::read_to_string(&config)?;
    let (before, _) = text.split_once("  hostAddresses:").expect("the configuration has addresses");
    std::fs::write(&config, format!("{before}  skipDenyStep: true\n"))?;
    host.says("the configuration changed").await?;
    ask("node-1-unknown", "system:node:node-1").await?;
    host.says("left a certificate request pending").await?;
    let pending = kubectl.run(&["get", "csr", "node-1-unknown", "-o", "jsonpath={.status.conditions}"]).await?;
    ensure!(pending.is_empty(), "{pending}");
    std::fs::write(&config, format!("{before}  bypassDnsResolution: true\n"))?;
    decided(&kubectl, "node-1-unknown", "Approved").await?;
    ensure!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelets_get_their_certificates_on_the_embedded_server() -> anyhow::Result<()> {
    kubelets_get_their_certificates(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelets_get_their_certificates_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    kubelets_get_their_certificates(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_csr_approver_gives_no_finding() -> anyhow::Result<()> {
    gives_no_finding("csr-approver").await
}
