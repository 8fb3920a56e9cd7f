//! `plugins/rbac-manager`: definitions of access become bindings and service accounts.

use anyhow::ensure;
use serde_json::json;
use windlass_tests::kubectl::Kubectl;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{gives_no_finding, installed, running, sources};

/// Waits until the objects of all namespaces with the plugin's label are these, as `KIND/NAME` in a fixed order.
async fn are_there(kubectl: &Kubectl<'_>, expected: &[&str]) -> anyhow::Result<()> {
    until(&format!("there are {expected:?}"), || async {
        let kinds = "rolebindings,clusterrolebindings,serviceaccounts";
        let path = "jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
        let found = kubectl.run(&["get", kinds, "-A", "-l", "rbac-manager=reactiveops", "-o", path]).await?;
        let mut found: Vec<_> = found.lines().filter(|line| !line.is_empty()).collect();
        found.sort_unstable();
        ensure!(found == expected, "{found:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_becomes_bindings_and_service_accounts() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let kubectl = Kubectl::of_all_namespaces(server.kubeconfig());
    let (folder, plugins) = (sources("rbac-manager"), installed("rbac-manager")?);
    let [definition, sample] = ["crd.yaml", "sample.yaml"].map(|file| folder.join(file).display().to_string());
    kubectl.run(&["apply", "-f", &definition]).await?;
    let host = running(&server, &plugins).await?;

    until("the definition is served", || async { kubectl.run(&["apply", "-f", &sample]).await }).await?;
    let at_first = [
        "ClusterRoleBinding//shop-team-developers-view",
        "RoleBinding/default/shop-team-developers-edit",
        "RoleBinding/default/shop-team-robot-deployer",
        "ServiceAccount/default/robot",
    ];
    are_there(&kubectl, &at_first).await?;

    // Namespaces come to match the selector, and cease to.
    kubectl.run(&["create", "namespace", "web"]).await?;
    kubectl.run(&["label", "namespace", "web", "team=shop"]).await?;
    let with_web = [&at_first[..3], &["RoleBinding/web/shop-team-developers-admin"], &at_first[3..]].concat();
    are_there(&kubectl, &with_web).await?;
    kubectl.run(&["label", "namespace", "web", "team-"]).await?;
    are_there(&kubectl, &at_first).await?;

    // A binding that is deleted by hand comes back, also while no host runs.
    ensure!(host.terminate().await?.success());
    kubectl.run(&["delete", "clusterrolebinding", "shop-team-developers-view"]).await?;
    kubectl.run(&["label", "namespace", "web", "team=shop"]).await?;
    let host = running(&server, &plugins).await?;
    are_there(&kubectl, &with_web).await?;

    // Another role replaces the binding, and a mistake changes nothing.
    let patch = |bindings| {
        let subjects = json!([{"kind": "Group", "name": "shop-developers"}]);
        json!({"rbacBindings": [{"name": "developers", "subjects": subjects, "roleBindings": bindings}]}).to_string()
    };
    let change = async |patch: &str| kubectl.run(&["patch", "rbd", "shop-team", "--type=merge", "-p", patch]).await;
    change(&patch(json!([{"clusterRole": "view", "namespace": "default"}]))).await?;
    are_there(&kubectl, &["RoleBinding/default/shop-team-developers-view"]).await?;
    change(&patch(json!([{"clusterRole": "view"}]))).await?;
    until("an Event names the mistake", || async {
        let events = kubectl.run(&["get", "events", "-A"]).await?;
        ensure!(events.contains("it has no place"), "{events}");
        Ok(())
    })
    .await?;
    are_there(&kubectl, &["RoleBinding/default/shop-team-developers-view"]).await?;

    kubectl.run(&["delete", "rbd", "shop-team"]).await?;
    are_there(&kubectl, &[]).await?;
    ensure!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rbac_manager_gives_no_finding() -> anyhow::Result<()> {
    gives_no_finding("rbac-manager").await
}
