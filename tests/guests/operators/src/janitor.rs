//! Deletes objects when their time has expired, as kube-janitor does.

use windlass_sdk::manifest::{Controller, Permission, Watch};
use windlass_sdk::{Failures, ObjectRef, Outcome, writes};

use crate::{Object, time};

/// The label of objects that may be deleted, and the annotation with their age limit in hours.
const JANITOR: &str = "janitor";
const TTL_HOURS: &str = "janitor/ttl-hours";

pub(crate) fn controller() -> Controller {
    Controller::new("janitor", Watch::of("v1", "ConfigMap").labels(JANITOR))
}

pub(crate) fn permissions() -> Vec<Permission> {
    vec![Permission::new("", "configmaps", &["delete"])]
}

pub(crate) fn reconcile(object: &Object) -> Result<Outcome, Failures> {
    let metadata = &object.metadata;
    let Some(hours) = metadata.annotations.get(TTL_HOURS).and_then(|hours| hours.parse::<u64>().ok()) else {
        return Ok(Outcome::Done);
    };
    let end = time::seconds(&metadata.creation_timestamp) + hours * 3_600;
    if time::now() < end {
        return Ok(time::again_at(end));
    }
    writes::delete(ObjectRef::namespaced("v1", "ConfigMap", &metadata.namespace, &metadata.name)).send()?;
    Ok(Outcome::Done)
}
