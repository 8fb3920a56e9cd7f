//! Keeps a Secret with the data of each `ConfigMap` that asks for it. It reads neither the time nor anything that it
//! does not need, so the host can save its calls.

use serde_json::json;
use windlass_sdk::manifest::{Controller, Permission, Watch};
use windlass_sdk::{Failures, Outcome, cache, writes};

use crate::Object;

/// The label of a `ConfigMap` to mirror. By its value, the Secret is applied in every call, or only if a list of the
/// cache lacks it.
const MIRRORED: &str = "mirrored";
/// The value of the label by which the operator looks at the list first.
const LISTED: &str = "listed";

pub(crate) fn controller() -> Controller {
    Controller::new("mirror", Watch::of("v1", "ConfigMap").labels(MIRRORED)).owns(Watch::of("v1", "Secret"))
}

pub(crate) fn permissions() -> Vec<Permission> {
    vec![Permission::new("", "secrets", &["create", "patch"])]
}

pub(crate) fn reconcile(original: &Object) -> Result<Outcome, Failures> {
    if original.metadata.labels.get(MIRRORED).is_some_and(|how| how == LISTED) {
        for secret in cache::list("v1", "Secret").owned().fields(&["/data"]).iter::<serde_json::Value>() {
            if secret?["data"] == original.data {
                return Ok(Outcome::Done);
            }
        }
    }
    let metadata = json!({"name": original.metadata.name, "namespace": original.metadata.namespace});
    let mirror = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": original.data});
    writes::apply(&mirror).owned().force().fields(&[]).send()?;
    Ok(Outcome::Done)
}
