//! Runs a program as if it were in a Pod: with a service account's token at the path where Pods have it, for programs
//! that read no kubeconfig. Only this process sees the files.

use std::path::Path;

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;
use tokio::process::Command;

use crate::server;

/// The namespace and the name of the service account. It may do everything.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "original";

/// Mounts an empty file system over the folder of Pods' secrets, copies the first argument's files there, and becomes
/// the program.
const SCRIPT: &str = r#"mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io &&
    cp -r "$0" /run/secrets/kubernetes.io/serviceaccount && exec "$@""#;

/// The command that runs `program`. Its files are in `folder`.
pub async fn command(kubeconfig: &Path, folder: &Path, program: &Path) -> anyhow::Result<Command> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let cluster = read.clusters.first().and_then(|it| it.cluster.as_ref()).context("the kubeconfig has a cluster")?;
    let address: http::Uri = cluster.server.as_deref().context("the cluster has an address")?.parse()?;
    let authority = cluster.certificate_authority_data.as_deref().context("the cluster has an authority")?;
    let secrets = folder.join("serviceaccount");
    std::fs::create_dir(&secrets)?;
    std::fs::write(secrets.join("ca.crt"), STANDARD.decode(authority)?)?;
    std::fs::write(secrets.join("token"), token(kubeconfig).await?)?;
    std::fs::write(secrets.join("namespace"), NAMESPACE)?;
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", SCRIPT]).arg(&secrets).arg(program);
    command.env("KUBERNETES_SERVICE_HOST", address.host().context("the address has a host")?);
    command.env("KUBERNETES_SERVICE_PORT", address.port_u16().unwrap_or(443).to_string());
    Ok(command)
}

/// Creates the service account, and a token of it.
async fn token(kubeconfig: &Path) -> anyhow::Result<String> {
    let client = server::client(kubeconfig).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}});
    accounts.patch(NAME, &PatchParams::apply(NAME), &Patch::Apply(&account)).await?;
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"));
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": NAME}],
    });
    let bindings: Api<DynamicObject> = Api::all_with(client, &resource);
    bindings.patch(NAME, &PatchParams::apply(NAME), &Patch::Apply(&binding)).await?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let made: serde_json::Value = accounts.create_subresource("token", NAME, &PostParams::default(), &request).await?;
    let token = made["status"]["token"].as_str().unwrap_or_default();
    ensure!(!token.is_empty(), "the API server gives no token: {made}");
    Ok(token.to_owned())
}
