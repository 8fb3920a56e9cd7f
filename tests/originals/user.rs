//! The user, who carries out the steps of a scenario on a real API server.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, Config};
use serde_json::{Value, json};
use windlass_apiserver::Condition;
use windlass_check::scenario::{Expectation, ObjectName, Step};
use windlass_tests::wait::until;

/// The field manager of the user's writes.
const MANAGER: &str = "user";

/// A user of the API server.
pub(crate) struct User {
    client: Client,
}

impl User {
    /// The user of this name, who may do everything, or an administrator.
    pub(crate) async fn of(kubeconfig: &Path, name: Option<&str>) -> anyhow::Result<Self> {
        let read = Kubeconfig::read_from(kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        let administrator = Self { client: Client::try_from(config.clone())? };
        let Some(name) = name else { return Ok(administrator) };
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": MANAGER},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
        });
        administrator.apply(&binding).await?;
        config.auth_info.impersonate = Some(name.to_owned());
        Ok(Self { client: Client::try_from(config)? })
    }

    /// Carries out a step.
    pub(crate) async fn act(&self, step: &Step) -> anyhow::Result<()> {
        match step {
            Step::Apply(object) => self.apply(object).await,
            Step::Patch(change) => {
                let (api, parameters) = (self.api(&change.object).await?, PatchParams::apply(MANAGER));
                let (name, merge) = (&change.object.name, Patch::Merge(&change.merge));
                let patched = match &change.subresource {
                    Some(subresource) => api.patch_subresource(subresource, name, &parameters, &merge).await,
                    None => api.patch(name, &parameters, &merge).await,
                };
                patched.with_context(|| format!("patch {}", change.object)).map(drop)
            }
            Step::Delete(name) => {
                let deleted = self.api(name).await?.delete(&name.name, &DeleteParams::background()).await;
                deleted.with_context(|| format!("delete {name}")).map(drop)
            }
            Step::Advance(_) => bail!("time cannot be advanced on a real server: use a scenario without `advance`"),
            Step::Wait(expectation) => until(&format!("{expectation}"), || self.meets(expectation)).await,
        }
    }

    /// Applies an object, as `kubectl apply --server-side --force-conflicts` does.
    pub(crate) async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let name = named(object)?;
        let parameters = PatchParams::apply(MANAGER).force();
        let applied = self.api(&name).await?.patch(&name.name, &parameters, &Patch::Apply(object)).await;
        applied.with_context(|| format!("apply {name}")).map(drop)
    }

    /// Checks that an expectation is met.
    async fn meets(&self, expectation: &Expectation) -> anyhow::Result<()> {
        match expectation {
            Expectation::Has(it) => {
                let object = self.get(&it.object).await?.context("it does not exist")?;
                let has =
                    |(pointer, value): (&String, &Value)| object.pointer(pointer).unwrap_or(&Value::Null) == value;
                ensure!(it.values.iter().all(has), "{object}");
            }
            Expectation::Holds(it) => {
                let object = self.get(&it.object).await?.context("it does not exist")?;
                let holds = Condition::compile(&it.cel).and_then(|condition| condition.holds(&object));
                ensure!(holds.map_err(anyhow::Error::msg)?, "{object}");
            }
            Expectation::Absent(name) => ensure!(self.get(name).await?.is_none(), "it exists"),
            Expectation::Count(count) => {
                let (resource, _) = resource(&self.client, &count.api_version, &count.kind).await?;
                let api: Api<DynamicObject> = match &count.namespace {
                    Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
                    None => Api::all_with(self.client.clone(), &resource),
                };
                let found = api.list(&ListParams::default()).await?.items.len();
                ensure!(found == count.is, "there are {found}");
            }
        }
        Ok(())
    }

    async fn get(&self, name: &ObjectName) -> anyhow::Result<Option<Value>> {
        let found = self.api(name).await?.get_opt(&name.name).await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    async fn api(&self, name: &ObjectName) -> anyhow::Result<Api<DynamicObject>> {
        let (resource, scope) = resource(&self.client, &name.api_version, &name.kind).await?;
        Ok(match scope {
            Scope::Cluster => Api::all_with(self.client.clone(), &resource),
            Scope::Namespaced => Api::namespaced_with(self.client.clone(), &name.namespace, &resource),
        })
    }
}

/// Asks the server for the plural and the scope of a kind.
pub(crate) async fn resource(client: &Client, version: &str, kind: &str) -> anyhow::Result<(ApiResource, Scope)> {
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let found = pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await;
    let (resource, capabilities) = found.with_context(|| format!("the server serves {kind} of {group:?}"))?;
    Ok((resource, capabilities.scope))
}

/// The name of an object, in the namespace `default` unless it names another.
fn named(object: &Value) -> anyhow::Result<ObjectName> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let of = |pointer: &str| text(pointer).with_context(|| format!("the object has {pointer}: {object}"));
    Ok(ObjectName {
        api_version: of("/apiVersion")?,
        kind: of("/kind")?,
        namespace: text("/metadata/namespace").unwrap_or_else(|| "default".to_owned()),
        name: of("/metadata/name")?,
    })
}
