//! Versions of the story's plugins. All do the same work, but two consecutive versions always differ in their watches,
//! so each swap builds a new gate.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use windlass_tests::{altered, delivery, paths};

pub(crate) const PLUGINS: [&str; 2] = ["webapp", "replicaset"];

/// A version of the WebApp API beside the users' version. Only plugins watch it.
pub(crate) const OTHER_API_VERSION: &str = "v1";

/// A version of a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    /// Its number among the versions of its plugin. 0 is the plugin as built.
    pub(crate) number: usize,
    /// Whether every call traps, so that the host rolls back to the previous version.
    pub(crate) traps: bool,
}

/// The kind of the primaries of `plugin`.
pub(crate) fn kind(plugin: &str) -> &'static str {
    if plugin == "webapp" { "WebApp" } else { "PodSet" }
}

/// Installs a version of `plugin` in the directory `plugins`, in place of the current one.
pub(crate) fn write(plugin: &str, version: Version, plugins: &Path) -> anyhow::Result<()> {
    let file = format!("{plugin}.wasm");
    let built = std::fs::read(paths::plugins()?.join(&file))?;
    let mut bytes = match manifest(plugin, version.number)? {
        None => built,
        Some(manifest) => altered::with_manifest(&built, &manifest)?,
    };
    if version.traps {
        // A host never retries a file that it has rolled back, so each trapping version must be a different file.
        bytes = numbered(altered::trapping(&bytes)?, version.number)?;
    }
    delivery::replace(&plugins.join(file), |next| Ok(std::fs::write(next, bytes)?))
}

/// `component` with a custom section that holds a number.
fn numbered(mut component: Vec<u8>, number: usize) -> anyhow::Result<Vec<u8>> {
    const NAME: &[u8; 6] = b"number";
    // A section's kind, its size, and the length of its name.
    component.extend([0, 8, 6]);
    component.extend(NAME);
    component.push(number.try_into()?);
    Ok(component)
}

/// The manifest of a version. `None` for the plugin's own manifest.
fn manifest(plugin: &str, number: usize) -> anyhow::Result<Option<Value>> {
    let (mut manifest, differences) = match plugin {
        "webapp" => (webapp(), webapp_differences()),
        "replicaset" => (replicaset()?, replicaset_differences()),
        _ => anyhow::bail!("there are no versions of {plugin}"),
    };
    let Some(difference) = (number % (differences.len() + 1)).checked_sub(1) else { return Ok(None) };
    let (place, field, value) = &differences[difference];
    let changed = manifest.pointer_mut(place).with_context(|| format!("the manifest has no {place}"))?;
    changed[*field] = value.clone();
    Ok(Some(manifest))
}

/// How the manifest of each version differs from the plugin's own: the place, the field, and its value.
type Differences = Vec<(&'static str, &'static str, Value)>;

fn webapp_differences() -> Differences {
    vec![
        ("/controllers/0", "watches", one_more_watch(None)),
        ("/controllers/0/owns/0", "projection", spec_and_status()),
        ("/controllers/0/primary", "apiVersion", json!(format!("apps.kubedojo.io/{OTHER_API_VERSION}"))),
        ("/controllers/0/owns/1", "labelSelector", json!("app.kubernetes.io/managed-by=windlass")),
    ]
}

/// The differences for `replicaset`. Pods are always watched whole, because the plugin claims them.
fn replicaset_differences() -> Differences {
    vec![
        ("/controllers/0", "watches", one_more_watch(None)),
        ("/controllers/0/primary", "projection", spec_and_status()),
        ("/controllers/0", "watches", one_more_watch(Some("weather=bad"))),
    ]
}

/// A watch that no plugin reads.
fn one_more_watch(labels: Option<&str>) -> Value {
    let mut watch = json!({"apiVersion": "v1", "kind": "ConfigMap", "mapping": {"type": "sameName"}});
    if let Some(labels) = labels {
        watch["labelSelector"] = json!(labels);
    }
    json!([watch])
}

fn spec_and_status() -> Value {
    json!({"type": "fields", "pointers": ["/spec", "/status"]})
}

/// The manifest of `plugins/webapp`.
fn webapp() -> Value {
    let watch = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind});
    let mut primary = watch("apps.kubedojo.io/v1beta1", "WebApp");
    primary["predicates"] = json!([{"type": "generation"}]);
    let owns = json!([watch("apps/v1", "Deployment"), watch("v1", "Service")]);
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "webapp", "version": "0.1.0",
        "controllers": [{"name": "webapp", "primary": primary, "owns": owns}],
    })
}

/// The manifest of `plugins/replicaset`.
fn replicaset() -> anyhow::Result<Value> {
    let definition = std::fs::read_to_string(paths::root().join("plugins/replicaset/src/crd.json"))?;
    let definition: Value = serde_json::from_str(&definition)?;
    let generation = json!([{"type": "generation"}]);
    let primary = json!({"apiVersion": "examples.windlass.dev/v1", "kind": "PodSet", "predicates": generation});
    let owns = json!([{"apiVersion": "v1", "kind": "Pod"}]);
    Ok(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "replicaset", "version": "0.1.0",
        "controllers": [{"name": "replicaset", "primary": primary, "owns": owns}], "crds": [definition],
    }))
}

#[test]
fn each_version_differs_from_the_one_before_it() {
    for plugin in PLUGINS {
        let manifests: Vec<_> = (0..12).map(|number| manifest(plugin, number).expect("a manifest")).collect();
        assert!(manifests.windows(2).all(|pair| pair[0] != pair[1]), "{plugin}");
        assert!(manifests[0].is_none(), "the first is as it was built");
    }
}
