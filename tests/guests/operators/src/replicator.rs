//! Copies Secrets to the namespaces that they name. A copy has no owner, because the owner would be in another
//! namespace.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_sdk::manifest::{Controller, Mapping, Permission, Watch};
use windlass_sdk::{Failures, ObjectRef, Outcome, cache, writes};

use crate::Object;

/// The label of Secrets to copy.
const REPLICATE: &str = "replicate";
/// The annotation with the namespaces, separated by commas.
const TO: &str = "replicate/to";
/// The label of copies, and the annotation that names the original.
const COPY: &str = "replicated";
const FROM: &str = "replicated/from";

pub(crate) fn controller() -> Controller {
    let copies = Watch::of("v1", "Secret").labels(COPY).named("copies");
    Controller::new("replicator", Watch::of("v1", "Secret").labels(REPLICATE))
        .watches(copies, Mapping::Annotation { key: FROM.into() })
        .finalizer()
}

pub(crate) fn permissions() -> Vec<Permission> {
    vec![Permission::new("", "secrets", &["get", "create", "patch", "update", "delete"])]
}

pub(crate) fn reconcile(source: &Object, deleting: bool) -> Result<Outcome, Failures> {
    let name = &source.metadata.name;
    let from = format!("{}/{name}", source.metadata.namespace);
    let to = source.metadata.annotations.get(TO).filter(|_| !deleting);
    let to: BTreeSet<&str> = to.into_iter().flat_map(|to| to.split(',')).filter(|it| !it.is_empty()).collect();
    for namespace in &to {
        let metadata =
            json!({"name": name, "namespace": namespace, "labels": {COPY: "yes"}, "annotations": {FROM: from}});
        let copy = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": source.data});
        writes::apply(&copy).force().send()?;
    }
    for copy in cache::list("v1", "Secret").labels(COPY).iter::<Object>() {
        let copy = copy?.metadata;
        if copy.annotations.get(FROM) == Some(&from) && !to.contains(&*copy.namespace) {
            writes::delete(ObjectRef::namespaced("v1", "Secret", &copy.namespace, &copy.name)).send()?;
        }
    }
    Ok(Outcome::Done)
}
