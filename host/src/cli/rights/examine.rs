//! Shared by `grant`, `inspect` and `rbac`: loads a plugin without running it, and asks a cluster for the names of
//! kinds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, ensure};
use clap::Args;
use serde_json::{Map, Value};
use windlass_kube::Discovery;
use windlass_kube::client::{self, ConnectError, ConnectOptions};
use windlass_kube::discovery::SweepError;
use windlass_manifest::{ConfiguredKinds, Controller, Manifest};
use windlass_wasm::{Plugin, Sandbox, SandboxOptions};

use crate::cli::flags::limits::LimitArgs;
use crate::cli::flags::settings::cache_dir;
use windlass_author::documents;
use windlass_policy::asks::{self, Ask, ClusterNames, ResourceName};
use windlass_policy::unserved::{self, UnservedSubresource};
use windlass_runtime::{CONFIG_SUFFIX, POLICY_SUFFIX, configured_kinds, named_secrets, written_config};

/// The timeout for a cluster that no flag names.
const UNNAMED_CLUSTER_TIMEOUT: Duration = Duration::from_secs(3);

/// Where examined plugins are cached in compiled form.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CacheArgs {
    /// The directory for compiled plugins, private to this user: give the one of the host that will run the plugin.
    /// Default: `XDG_CACHE_HOME`/windlass, else ~/.cache/windlass.
    #[arg(long, value_name = "DIR", env = "WINDLASS_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
}

/// The cluster to ask for the resource names of kinds.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// The kubeconfig of a cluster that serves the kinds that the plugin names. Default: kubectl's; without a cluster,
    /// names that neither Windlass nor the folder's crd.yaml knows are guessed.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Where an examined plugin's configuration is.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PluginConfigArgs {
    /// The directory of the plugin's configuration, NAME.config.yaml, which may name the kinds that it watches.
    /// Default: the plugin's, or its author's folder.
    #[arg(long, value_name = "DIR", env = "WINDLASS_CONFIG_DIR")]
    config_dir: Option<PathBuf>,
}

/// A plugin's manifest, and the kinds that its configuration names.
pub(crate) struct ConfiguredManifest {
    /// The manifest with the kinds filled in. It lacks controllers and watches whose kinds are not known.
    pub(crate) manifest: Manifest,
    /// `None` if they are not known.
    pub(crate) kinds: Option<ConfiguredKinds>,
    /// The part that is not known, and the reason.
    pub(crate) unknown: Option<String>,
}

impl PluginConfigArgs {
    /// The manifest of `plugin` with its configuration's kinds.
    pub(crate) fn manifest(&self, plugin: &Plugin) -> ConfiguredManifest {
        self.manifest_of(plugin.path(), plugin.manifest())
    }

    /// The `manifest` of the plugin in the file `path` with its configuration's kinds.
    pub(crate) fn manifest_of(&self, path: &Path, manifest: &Manifest) -> ConfiguredManifest {
        configured_manifest(manifest, &self.directory(path, &manifest.name))
    }

    /// The configuration of `plugin` for its object. `None` if it has none.
    pub(crate) async fn of_object(&self, plugin: &Plugin) -> anyhow::Result<Option<Map<String, Value>>> {
        let directory = self.directory(plugin.path(), plugin.name());
        let secrets = named_secrets(&directory, plugin.name()).await.map_err(Error::msg)?;
        ensure!(
            secrets.is_empty(),
            "the configuration of {} takes values from Secrets, and that of an object cannot: install the plugin as a \
             file, or write the values that are no secrets",
            plugin.name()
        );
        written_config(&directory, plugin.name()).await.map_err(Error::msg)
    }

    /// The directory of the configuration of the plugin `name` in the file `path`.
    fn directory(&self, path: &Path, name: &str) -> PathBuf {
        self.config_dir.clone().unwrap_or_else(|| folder_of(path, name, CONFIG_SUFFIX))
    }
}

/// The `manifest` with the kinds that the plugin's configuration in `directory` names.
pub(crate) fn configured_manifest(manifest: &Manifest, directory: &Path) -> ConfiguredManifest {
    let name = &manifest.name;
    let (kinds, why) = match configured_kinds(directory, manifest) {
        Ok(Some(kinds)) => (Some(kinds), None),
        Ok(None) => (None, Some(format!("there is no {}", directory.join(format!("{name}{CONFIG_SUFFIX}")).display()))),
        Err(error) => (None, Some(error)),
    };
    let unknown = why.map(|why| {
        format!("{name} watches kinds that its configuration names, and so does not ask for all its rights here: {why}")
    });
    ConfiguredManifest { manifest: manifest.with_kinds(&kinds.clone().unwrap_or_default()), kinds, unknown }
}

/// Loads a plugin without running it. Its compiled code is kept for the host that will run it, because a plugin is
/// mostly reviewed or granted rights shortly before it runs.
pub(crate) async fn load(path: &Path, limits: &LimitArgs, cache: CacheArgs) -> anyhow::Result<Arc<Plugin>> {
    load_into(&sandbox(limits, cache)?, path).await
}

/// A sandbox for loading plugins.
pub(crate) fn sandbox(limits: &LimitArgs, cache: CacheArgs) -> anyhow::Result<Sandbox> {
    let (compiler, limits) = (crate::cli::compiler()?, limits.limits()?);
    let cache = cache_dir(cache.cache_dir);
    Ok(Sandbox::new(SandboxOptions { compiler, limits, cache, ..SandboxOptions::default() })?)
}

/// Loads a plugin's file. The file may also be another version of the plugin, named `NAME.next.wasm` or
/// `NAME.current.wasm`. A file that a host would refuse is an error here too.
pub(crate) async fn load_into(sandbox: &Sandbox, path: &Path) -> anyhow::Result<Arc<Plugin>> {
    let loaded = match windlass_runtime::plugin_of(path) {
        Some(plugin) => sandbox.load_as(&plugin, path).await,
        None => sandbox.load(path).await,
    };
    let plugin = loaded?;
    accept(path, plugin.manifest())?;
    Ok(plugin)
}

/// Refuses a manifest that the host would refuse, so that no rights are granted to a plugin that will not run.
pub(crate) fn accept(path: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    match windlass_runtime::manifest_problem(manifest) {
        Some(problem) => anyhow::bail!("{}: {problem}", path.display()),
        None => Ok(()),
    }
}

/// The default path of a plugin's policy: beside its file, or in its author's folder, where `windlass dev` looks for
/// it.
pub(crate) fn beside(plugin: &Plugin) -> PathBuf {
    policy_beside(plugin.path(), plugin.name())
}

/// The default path of the policy of the plugin `name` in the file `path`.
pub(crate) fn policy_beside(path: &Path, name: &str) -> PathBuf {
    folder_of(path, name, POLICY_SUFFIX).join(format!("{name}{POLICY_SUFFIX}"))
}

/// The folder of the file with `suffix` of the plugin `name` in the file `path`: the plugin's own, or its author's if
/// the plugin's has no such file.
fn folder_of(path: &Path, name: &str, suffix: &str) -> PathBuf {
    let beside = path.with_file_name(format!("{name}{suffix}"));
    let authors = documents::authors_folder(path).filter(|_| !beside.exists());
    authors.unwrap_or_else(|| beside.parent().map(Path::to_owned).unwrap_or_default())
}

/// The resource names of the kinds in `manifest`, from the cluster if there is one, and from the definitions beside the
/// plugin's file `path`.
pub(crate) async fn names_of(
    path: &Path,
    manifest: &Manifest,
    cluster: Option<&Discovery>,
) -> anyhow::Result<ClusterNames> {
    let names = match cluster {
        Some(cluster) => served_names(manifest, cluster).await?,
        None => ClusterNames::default(),
    };
    let definitions = documents::definitions_of(path).unwrap_or_else(|error| {
        eprintln!("windlass: cannot read the definitions beside the plugin, so names of kinds may be guessed: {error}");
        vec![]
    });
    Ok(names.with_definitions(definitions))
}

/// Asks the cluster for the kinds of the manifest's controllers and, if the manifest has permissions, for all other
/// kinds. Fails if the cluster does not answer.
async fn served_names(manifest: &Manifest, cluster: &Discovery) -> Result<ClusterNames, SweepError> {
    let mut kinds = Vec::new();
    for watch in manifest.controllers.iter().flat_map(Controller::all_watches) {
        let kind = watch.object_kind();
        // Kinds that are not served yet get their names from the manifest's definitions, from the table, or by a guess.
        let Ok(resource) = cluster.resolve(&kind).await else { continue };
        let name = ResourceName { plural: resource.plural.clone(), namespaced: resource.namespaced, guessed: false };
        kinds.push((kind, name));
    }
    let mut scopes = Vec::new();
    // Permissions name resources without a version, so they cannot be found by their kinds.
    if !manifest.permissions.is_empty() {
        let (resources, _silent) = cluster.everything().await?;
        scopes.extend(resources.iter().map(|it| ((it.group().to_owned(), it.plural.clone()), it.namespaced)));
    }
    Ok(ClusterNames::served(kinds, scopes))
}

/// The subresources that a plugin with this `manifest` may write, if it `writes` at all, but that neither its own
/// definitions nor `definitions` declare.
pub(crate) fn unserved(manifest: &Manifest, writes: bool, definitions: &[Value]) -> Vec<UnservedSubresource> {
    if writes { unserved::of_manifest(manifest, definitions) } else { vec![] }
}

impl ClusterArgs {
    /// The rights that the plugin in the file `path` asks for in its `manifest`.
    pub(crate) async fn asks(self, path: &Path, manifest: &Manifest) -> anyhow::Result<Vec<Ask>> {
        let names = names_of(path, manifest, self.discovery().await?.as_ref()).await?;
        Ok(asks::asks(manifest, &names))
    }

    /// The options for connecting to the cluster.
    pub(crate) fn options(&self) -> ConnectOptions {
        ConnectOptions { kubeconfig: self.kubeconfig.clone(), context: self.context.clone(), namespace: None }
    }

    /// Connects to the cluster. `None` if there is no cluster to ask. A cluster that a flag names must answer.
    pub(crate) async fn discovery(&self) -> anyhow::Result<Option<Discovery>> {
        let named = self.kubeconfig.is_some() || self.context.is_some();
        let options = self.options();
        let connect = async {
            let connection = client::connect(&options).await?;
            client::check(&connection).await?;
            Ok::<_, ConnectError>(Discovery::new(connection.client))
        };
        if named {
            return Ok(Some(connect.await?));
        }
        match tokio::time::timeout(UNNAMED_CLUSTER_TIMEOUT, connect).await {
            Ok(Ok(discovery)) => Ok(Some(discovery)),
            Ok(Err(ConnectError::NoConfig { .. })) => Ok(None),
            Ok(Err(error)) => {
                eprintln!("windlass: cannot ask a cluster for the names of kinds: {error}");
                Ok(None)
            }
            Err(_) => {
                eprintln!(
                    "windlass: cannot ask a cluster for the names of kinds: no answer within {UNNAMED_CLUSTER_TIMEOUT:?}"
                );
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_apiserver::{ApiServer, Config};

    use super::*;

    #[test]
    fn grant_refuses_a_definition_that_the_host_would_refuse() {
        let accepted = |versions| {
            let definition = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "as.example.com"},
                "spec": {
                    "group": "example.com", "names": {"plural": "as", "kind": "A"}, "scope": "Namespaced", "versions": versions,
                },
            });
            let manifest = json!({
                "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
                "controllers": [{"name": "a", "primary": {"apiVersion": "v1", "kind": "ConfigMap"}}],
                "crds": [definition],
            });
            let manifest = Manifest::from_json(&manifest.to_string()).expect("it has the shape");
            accept(Path::new("plugins/a.wasm"), &manifest).map_err(|error| error.to_string())
        };
        assert_eq!(accepted(json!([{"name": "v1", "served": true, "storage": true}])), Ok(()));
        let refused = accepted(json!([])).expect_err("no versions");
        assert!(refused.starts_with("plugins/a.wasm: ") && refused.contains("no versions"), "{refused}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_cluster_distinguishes_the_scopes_of_equally_named_kinds() {
        let server = ApiServer::start(Config::default()).await.expect("loopback");
        let directory = tempfile::tempdir().expect("a directory");
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig()).expect("it can be written");
        let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
        let client = client::connect(&options).await.expect("it answers").client;
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "pods.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster", "names": {"kind": "Pod", "plural": "pods"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            },
        });
        let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            .header("content-type", "application/json")
            .body(definition.to_string().into_bytes());
        let _: Value = client.request(request.expect("a request")).await.expect("it is created");

        let manifest = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{"name": "a", "primary": {"apiVersion": "v1", "kind": "ConfigMap"}}],
            "permissions": [
                {"apiGroups": ["example.com"], "resources": ["pods"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]},
            ],
        });
        let manifest = Manifest::from_json(&manifest.to_string()).expect("valid");
        let scopes = |names: &ClusterNames| {
            let asks = asks::asks(&manifest, names);
            let asks = asks.iter().filter(|ask| ask.why == "a permission of the manifest");
            asks.map(|ask| (ask.rule.cluster, ask.guessed)).collect::<Vec<_>>()
        };
        assert_eq!(scopes(&ClusterNames::default()), [(false, true), (false, false), (false, true)]);
        let asked = served_names(&manifest, &Discovery::new(client)).await.expect("it tells");
        assert_eq!(scopes(&asked), [(true, false), (false, false), (false, true)]);
    }
}
