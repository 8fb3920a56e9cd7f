//! Tests the roles that `windlass rbac` prints: a host needs all of them, and no other role.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use anyhow::{Context, ensure};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use windlass_tests::host::Host;
use windlass_tests::objects::{self, Objects};
use windlass_tests::paths;
use windlass_tests::server::Server;
use windlass_tests::story::Story;

use crate::webapp::plugin_directory;

/// The namespace and the account of the host.
const HOME: &str = "windlass-system";
const ACCOUNT: &str = "windlass";
const USER: &str = "system:serviceaccount:windlass-system:windlass";

/// The objects that the plugin needs in one namespace.
fn policy(namespace: &str) -> String {
    format!(
        "\
apiVersion: windlass.dev/v1alpha1
kind: PluginPolicy
plugin: webapp
rules:
- {{apiGroups: [apps.kubedojo.io], resources: [webapps], verbs: [get, list, watch], namespaces: [{namespace}]}}
- {{apiGroups: [apps.kubedojo.io], resources: [webapps/status], verbs: [patch], namespaces: [{namespace}]}}
- {{apiGroups: [apps], resources: [deployments], verbs: [get, list, watch, create, patch], namespaces: [{namespace}]}}
- {{apiGroups: [\"\"], resources: [services], verbs: [get, list, watch, create, patch], namespaces: [{namespace}]}}
"
    )
}

async fn rbac(plugins: &Path, kubeconfig: &Path, more: &[&str]) -> anyhow::Result<Output> {
    let mut command = tokio::process::Command::new(paths::windlass()?);
    command.arg("rbac").arg("--plugins").arg(plugins).arg("--kubeconfig").arg(kubeconfig).args(more);
    Ok(command.env("WINDLASS_CACHE_DIR", paths::cache()?).kill_on_drop(true).output().await?)
}

/// Applies each object in its namespace.
async fn apply(server: &Server, object: &Value) -> anyhow::Result<()> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    Objects::new(server.objects().client().clone(), namespace).apply(object).await?;
    Ok(())
}

/// A kubeconfig with a token of the host's account.
async fn as_the_host(server: &Server, file: &Path) -> anyhow::Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(server.objects().client().clone(), HOME);
    let asked = accounts.create_token_request(ACCOUNT, &PostParams::default(), &TokenRequest::default()).await?;
    let token = asked.status.context("there is an answer")?.token;
    let mut config: Value = objects::documents(server.kubeconfig())?.remove(0);
    config["users"][0]["user"] = json!({"token": token});
    Ok(std::fs::write(file, config.to_string())?)
}

/// The requests that the roles allow, as `verb resource.group/subresource`.
fn allowed(roles: &[Value]) -> BTreeSet<String> {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut allowed = BTreeSet::new();
    for rule in roles.iter().flat_map(|role| role["rules"].as_array().into_iter().flatten()) {
        for (group, resource) in texts(&rule["apiGroups"])
            .iter()
            .flat_map(|group| texts(&rule["resources"]).into_iter().map(move |resource| (group.clone(), resource)))
        {
            let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
            let name = windlass_core::rights::grants::resource_name(&group, resource, subresource);
            allowed.extend(texts(&rule["verbs"]).into_iter().map(|verb| format!("{verb} {name}")));
        }
    }
    allowed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_only_the_printed_roles_completes_the_story() -> anyhow::Result<()> {
    let server = Server::with_roles().await?;
    server.install_webapp().await?;
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": HOME}}),
    ] {
        apply(&server, &object).await?;
    }
    let (plugins, namespace) = (plugin_directory()?, server.objects().namespace());
    std::fs::write(plugins.path().join("webapp.policy.yaml"), policy(namespace))?;
    let kubeconfig = plugins.path().join("kubeconfig");
    as_the_host(&server, &kubeconfig).await?;

    let checked = rbac(plugins.path(), server.kubeconfig(), &["--check", "--as", USER]).await?;
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let printed = rbac(plugins.path(), server.kubeconfig(), &[]).await?;
    ensure!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
    assert_eq!(printed.stdout, rbac(plugins.path(), server.kubeconfig(), &[]).await?.stdout);
    let roles: Vec<Value> = serde_saphyr::from_multiple(std::str::from_utf8(&printed.stdout)?)?;
    for role in &roles {
        apply(&server, role).await?;
    }
    let checked = rbac(plugins.path(), server.kubeconfig(), &["--check", "--as", USER]).await?;
    let said = String::from_utf8_lossy(&checked.stdout);
    ensure!(checked.status.success() && said.starts_with("nothing is missing, and nothing is too much"), "{checked:?}");

    let arguments = ["run".as_ref(), "--kubeconfig".as_ref(), kubeconfig.as_os_str(), "--plugins".as_ref()];
    let of_home = ["--host-namespace".as_ref(), HOME.as_ref()];
    let arguments: Vec<_> = arguments.into_iter().chain([plugins.path().as_os_str()]).chain(of_home).collect();
    let host = Host::start(&arguments, None)?;
    host.says("controller started").await?;
    let story = Story::new(server.objects());
    story.whole().await?;
    let log = host.log();
    assert!(host.terminate().await?.success());
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");

    let made = server.embedded().context("it is embedded")?.requests();
    let made = made.into_iter().filter(|it| it.user_agent.starts_with("windlass/") && it.verb != "unknown");
    let made: BTreeSet<_> = made.map(|it| format!("{} {}", it.verb, it.resource)).collect();
    let allowed = allowed(&roles);
    let of_rbac_itself = |it: &&String| it.contains("selfsubject");
    let beyond: Vec<_> = made.difference(&allowed).filter(|it| !of_rbac_itself(it)).collect();
    assert_eq!(beyond, Vec::<&String>::new(), "it asks for more than the roles allow");
    let unused: Vec<_> = allowed.difference(&made).filter(|it| !UNUSED.contains(&it.as_str())).collect();
    assert_eq!(unused, Vec::<&String>::new(), "it does not need what the roles allow");
    Ok(())
}

/// Rights that this story does not need, but other uses of a host do.
const UNUSED: &[&str] = &[
    // The API server counts an apply that creates an object as a patch.
    "create deployments.apps",
    "create services",
    // A repeated Event is counted, by a patch.
    "patch events.events.k8s.io",
    // These are for plugins that read live, and for writes of unknown outcome.
    "get deployments.apps",
    "get services",
    "get webapps.apps.kubedojo.io",
    // Only on servers with OwnerReferencesPermissionEnforcement.
    "update webapps.apps.kubedojo.io/finalizers",
];
