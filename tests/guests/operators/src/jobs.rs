//! Makes a Job for each `ConfigMap` that asks for one.

use serde_json::{Value, json};
use windlass_sdk::manifest::{Controller, Watch};
use windlass_sdk::{Failures, ObjectRef, Outcome, cache, writes};

use crate::Object;

pub(crate) fn controller() -> Controller {
    Controller::new("jobs", Watch::of("v1", "ConfigMap").labels("job")).owns(Watch::of("batch/v1", "Job"))
}

pub(crate) fn reconcile(object: &Object) -> Result<Outcome, Failures> {
    let (namespace, name) = (&object.metadata.namespace, &object.metadata.name);
    if cache::get::<Value>(&ObjectRef::namespaced("batch/v1", "Job", namespace, name))?.is_none() {
        let metadata = json!({"name": name, "namespace": namespace});
        writes::create(&job(&metadata, &object.data["image"])).owned().send()?;
    }
    Ok(Outcome::Done)
}

/// A Job that runs this image once.
pub(crate) fn job(metadata: &Value, image: &Value) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "job", "image": image}]});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}})
}
