//! Restarts a Deployment when its `ConfigMap` changes, as Reloader does.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::json;
use windlass_sdk::manifest::{Controller, IndexSource, Mapping, Permission, Watch};
use windlass_sdk::{Failures, ObjectRef, Outcome, cache, writes};

use crate::Object;

/// The label that names the `ConfigMap`.
const CONFIG: &str = "reload";
/// The annotation of the Pods with the hash of the data that they have read.
const HASH: &str = "reload/hash";

pub(crate) fn controller() -> Controller {
    let by_name = IndexSource::Label { key: CONFIG.into() };
    let deployments = Watch::of("apps/v1", "Deployment").labels(CONFIG).index("config", by_name);
    let mapping = Mapping::ReferencedBy { index: "config".into() };
    Controller::new("reloader", deployments).watches(Watch::of("v1", "ConfigMap"), mapping)
}

pub(crate) fn permissions() -> Vec<Permission> {
    vec![Permission::new("apps", "deployments", &["patch"])]
}

pub(crate) fn reconcile(deployment: &Object) -> Result<Outcome, Failures> {
    let (namespace, name) = (&deployment.metadata.namespace, &deployment.metadata.name);
    let config = ObjectRef::namespaced("v1", "ConfigMap", namespace, &deployment.metadata.labels[CONFIG]);
    let Some(config) = cache::get::<Object>(&config)? else { return Ok(Outcome::Done) };
    let mut hasher = DefaultHasher::new();
    config.data.to_string().hash(&mut hasher);
    let hash = format!("{:x}", hasher.finish());
    if deployment.spec["template"]["metadata"]["annotations"][HASH] != *hash {
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {HASH: hash}}}}});
        writes::merge(ObjectRef::namespaced("apps/v1", "Deployment", namespace, name), &patch).send()?;
    }
    Ok(Outcome::Done)
}
