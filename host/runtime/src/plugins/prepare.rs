//! Prepares a plugin: loads its file, installs its definitions, follows its configuration, and logs its denials.
//! `reload` decides when, and for which generation.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_core::error::explained;
use windlass_core::rights::fence::Fenced;
use windlass_core::rights::grants::{DenialCount, LiveGrants};
use windlass_core::rights::principal::{Principal, Role};
use windlass_manifest::Manifest;
use windlass_wasm::{LoadError, Plugin, Sandbox};

use crate::controller::Ready;
use crate::dispatch::configured::Configured;
use crate::host::Host;
use crate::plugins::config;
use crate::plugins::directory::FileRefusal;
use crate::plugins::install::{self, Installer};
use crate::plugins::supplies::Supplies;
use crate::supervise::supervise;

/// How often a continuing denial is logged.
const DENIAL_REMINDER_INTERVAL: Duration = Duration::from_mins(10);

/// Loads the file `path`. A manifest that no server could understand is refused, because a plugin that works only in
/// part would be worse than none.
pub(crate) async fn load(sandbox: &Sandbox, path: &Path) -> Result<Arc<Plugin>, FileRefusal> {
    checked(sandbox.load(path).await, path)
}

/// As [`load`], for the next version of the plugin `name`.
pub(crate) async fn load_as(sandbox: &Sandbox, name: &str, path: &Path) -> Result<Arc<Plugin>, FileRefusal> {
    checked(sandbox.load_as(name, path).await, path)
}

fn checked(loaded: Result<Arc<Plugin>, LoadError>, path: &Path) -> Result<Arc<Plugin>, FileRefusal> {
    let plugin = loaded.map_err(|error| {
        let reason = error.problem.reason();
        FileRefusal::NotLoaded { reason, message: explained(&error) }
    })?;
    match problem(plugin.manifest()) {
        Some(problem) => {
            Err(FileRefusal::NotLoaded { reason: "manifest", message: format!("{}: {problem}", path.display()) })
        }
        None => Ok(plugin),
    }
}

/// Why a host refuses a plugin with this manifest although its file can be loaded: part of the manifest could never be
/// carried out.
#[must_use]
pub fn problem(manifest: &Manifest) -> Option<String> {
    if let Err(problem) = config::Schema::of(manifest) {
        return Some(format!("this host cannot use its manifest's schema for the configuration: {problem}"));
    }
    if let Err(error) = install::definitions(manifest) {
        return Some(error.to_string());
    }
    None
}

/// Starts to install the definitions of `plugin`. `None` if they are invalid, which was logged when it was loaded.
pub(super) fn install(
    host: &Arc<Host>,
    supplies: &Arc<Supplies>,
    plugin: &Plugin,
    fence: Fenced,
    stop: &CancellationToken,
) -> Option<Ready> {
    let definitions = install::definitions(plugin.manifest()).ok()?;
    let (sender, ready) = watch::channel(definitions.is_empty());
    if definitions.is_empty() {
        return Some(ready);
    }
    let names = definitions.iter().map(|definition| definition.name().to_owned()).collect();
    let keeping = Role::Definitions.grants("apiextensions.k8s.io", "customresourcedefinitions", vec![], names);
    let installer = Installer {
        host: host.clone(),
        supplies: supplies.clone(),
        asked: plugin.manifest().asked(vec![]),
        definitions,
        role: Principal {
            role: Role::Definitions,
            grants: LiveGrants::new(keeping),
            fence,
            ..Principal::of_plugin(plugin.name().clone(), plugin.short_digest(), host.replica.clone())
        },
        ready: sender,
    };
    let (panics, stop) = (host.panics.clone(), stop.clone());
    tokio::spawn(async move {
        stop.run_until_cancelled(supervise("definitions", &panics, &stop, || installer.run())).await;
    });
    Some(ready)
}

/// The configuration of one generation.
pub(super) struct FollowedConfig {
    pub(super) configured: Configured,
    /// Why the newest configuration is not in force, if so.
    pub(super) refused: watch::Receiver<Option<String>>,
}

/// Starts to follow the configuration of `plugin`, until `stop`. `None` if its schema is invalid, which was logged when
/// it was loaded.
pub(super) fn configure(
    host: &Host,
    supplies: &Supplies,
    plugin: &Plugin,
    stop: &CancellationToken,
) -> Option<FollowedConfig> {
    let schema = config::Schema::of(plugin.manifest()).ok()?;
    let (sender, configured) = watch::channel(None);
    let (refusals, refused) = watch::channel(None);
    let path = config::path_in(supplies.configs.directory_of(plugin.name()), plugin.name());
    let follower = config::ConfigFollower {
        plugin: plugin.name().clone(),
        changes: supplies.configs.changes_of(&path),
        path,
        schema,
        source: supplies.secrets.clone(),
        configured: sender,
        refused: refusals,
    };
    let (panics, stop) = (host.panics.clone(), stop.clone());
    tokio::spawn(async move {
        stop.run_until_cancelled(supervise("config", &panics, &stop, || follower.run())).await;
    });
    Some(FollowedConfig { configured, refused })
}

/// Logs the plugin's denials: each kind of denial once in an interval.
pub(super) async fn log_denials(host: Arc<Host>, plugin: Arc<str>, stop: CancellationToken) {
    let denials = host.policies.denials(&plugin);
    let mut interval = tokio::time::interval(DENIAL_REMINDER_INTERVAL);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = interval.tick() => denials.renew(),
            denied = denials.to_log() => {
                for DenialCount { count, last, .. } in denied {
                    tracing::warn!(
                        %plugin, times = count, error = last,
                        "the plugin lacks a grant, so a request was denied: `windlass inspect` shows what is missing"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_manifest_is_refused_and_not_ignored() {
        let with = |field: &str, value: serde_json::Value| {
            let mut manifest = serde_json::json!({
                "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
                "controllers": [{"name": "a", "primary": {"apiVersion": "v1", "kind": "ConfigMap"}}],
            });
            manifest[field] = value;
            Manifest::from_json(&manifest.to_string()).expect("it has the shape")
        };
        let schema = |schema| with("config", serde_json::json!({"schema": schema}));
        assert_eq!(problem(&schema(serde_json::json!({"type": "object"}))), None);
        let problem_found = problem(&schema(serde_json::json!({"type": "strnig"}))).expect("no schema");
        assert!(problem_found.contains("config.schema"), "{problem_found}");
        let definition = serde_json::json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "as.example.com"}, "spec": {"group": "example.com", "names": {"plural": "as"}},
        });
        let problem_found = problem(&with("crds", serde_json::json!([definition]))).expect("no definition");
        assert!(problem_found.contains("no versions"), "{problem_found}");
    }
}
