//! Reads and writes objects as JSON, as a user's client does.

use anyhow::Context;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

/// A client of one namespace.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    namespace: String,
}

/// The field manager of all writes by the tests themselves.
const MANAGER: &str = "windlass-tests";

impl Objects {
    /// Objects of `namespace`.
    #[must_use]
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned() }
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The underlying client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object. Returns `None` if the object does not exist.
    pub async fn get(&self, kind: &str, name: &str) -> anyhow::Result<Option<Value>> {
        let found = self.api(kind)?.get_opt(name).await.with_context(|| format!("get {kind} {name}"))?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    /// Lists the objects of a kind that match a label selector.
    pub async fn list(&self, kind: &str, labels: &str) -> anyhow::Result<Vec<Value>> {
        let list = self.api(kind)?.list(&ListParams::default().labels(labels)).await?;
        Ok(list.items.into_iter().map(serde_json::to_value).collect::<Result<_, _>>()?)
    }

    /// Applies `object` server-side, in this client's namespace.
    pub async fn apply(&self, object: &Value) -> anyhow::Result<Value> {
        let kind = object["kind"].as_str().context("the object has a kind")?;
        let name = object["metadata"]["name"].as_str().context("the object has a name")?;
        let mut object = object.clone();
        if is_namespaced(kind) {
            object["metadata"]["namespace"] = Value::from(self.namespace.as_str());
        }
        let applied = self.api(kind)?.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await;
        Ok(serde_json::to_value(applied.with_context(|| format!("apply {kind} {name}"))?)?)
    }

    /// Patches an object with a JSON merge patch.
    pub async fn merge(&self, kind: &str, name: &str, patch: &Value) -> anyhow::Result<Value> {
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patched = self.api(kind)?.patch(name, &parameters, &Patch::Merge(patch)).await;
        Ok(serde_json::to_value(patched.with_context(|| format!("patch {kind} {name}"))?)?)
    }

    /// Deletes an object with background propagation.
    pub async fn delete(&self, kind: &str, name: &str) -> anyhow::Result<()> {
        let parameters = DeleteParams::background();
        self.api(kind)?.delete(name, &parameters).await.with_context(|| format!("delete {kind} {name}"))?;
        Ok(())
    }

    /// The API of a kind.
    pub fn api(&self, kind: &str) -> anyhow::Result<Api<DynamicObject>> {
        let resource = resource(kind)?;
        Ok(if is_namespaced(kind) {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        })
    }
}

/// Reads the documents of a YAML file.
pub fn documents(path: &std::path::Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("parse {}", path.display()))
}

fn is_namespaced(kind: &str) -> bool {
    !matches!(
        kind,
        "Namespace"
            | "CustomResourceDefinition"
            | "ClusterRole"
            | "ClusterRoleBinding"
            | "ClusterPlugin"
            | "ClusterPluginPolicy"
    )
}

fn resource(kind: &str) -> anyhow::Result<ApiResource> {
    let (group, version, plural) = match kind {
        "WebApp" => ("apps.kubedojo.io", "v1beta1", "webapps"),
        "PodSet" => ("examples.windlass.dev", "v1", "podsets"),
        "Probe" => ("probe.windlass.dev", "v1", "probes"),
        "Composite" => ("tests.windlass.dev", "v1", "composites"),
        "ClusterPlugin" => ("windlass.dev", "v1alpha1", "clusterplugins"),
        "ClusterPluginPolicy" => ("windlass.dev", "v1alpha1", "clusterpluginpolicies"),
        "Deployment" => ("apps", "v1", "deployments"),
        "ReplicaSet" => ("apps", "v1", "replicasets"),
        "Pod" => ("", "v1", "pods"),
        "DaemonSet" => ("apps", "v1", "daemonsets"),
        "StatefulSet" => ("apps", "v1", "statefulsets"),
        "Service" => ("", "v1", "services"),
        "ConfigMap" => ("", "v1", "configmaps"),
        "Secret" => ("", "v1", "secrets"),
        "Namespace" => ("", "v1", "namespaces"),
        "ServiceAccount" => ("", "v1", "serviceaccounts"),
        "Role" => ("rbac.authorization.k8s.io", "v1", "roles"),
        "RoleBinding" => ("rbac.authorization.k8s.io", "v1", "rolebindings"),
        "Lease" => ("coordination.k8s.io", "v1", "leases"),
        "Event" => ("events.k8s.io", "v1", "events"),
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
        "ClusterRole" => ("rbac.authorization.k8s.io", "v1", "clusterroles"),
        "ClusterRoleBinding" => ("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
        _ => anyhow::bail!("the tests know no kind {kind}"),
    };
    Ok(ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural))
}
