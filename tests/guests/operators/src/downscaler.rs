//! Scales Deployments to zero outside of their hours, as kube-downscaler does.

use serde_json::{Value, json};
use windlass_sdk::manifest::{Controller, Permission, Watch};
use windlass_sdk::{Failures, ObjectRef, Outcome, writes};

use crate::{Object, time};

/// The annotation with the hours in UTC, such as `8-20`, and the label of the watched Deployments.
const UPTIME: &str = "downscaler/uptime";
const DOWNSCALER: &str = "downscaler";
/// The annotation with the number of replicas for the next day.
const REPLICAS: &str = "downscaler/replicas";

const DAY_SECONDS: u64 = 86_400;
const HOUR_SECONDS: u64 = 3_600;

pub(crate) fn controller() -> Controller {
    Controller::new("downscaler", Watch::of("apps/v1", "Deployment").labels(DOWNSCALER))
}

pub(crate) fn permissions() -> Vec<Permission> {
    vec![Permission::new("apps", "deployments", &["patch"])]
}

pub(crate) fn reconcile(deployment: &Object) -> Result<Outcome, Failures> {
    let metadata = &deployment.metadata;
    let hours = metadata.annotations.get(UPTIME).and_then(|hours| hours.split_once('-'));
    let Some((Ok(from), Ok(to))) = hours.map(|(from, to)| (from.parse::<u64>(), to.parse::<u64>())) else {
        return Ok(Outcome::Done);
    };
    let now = time::now();
    let midnight = now / DAY_SECONDS * DAY_SECONDS;
    let is_up = (from..to).contains(&((now - midnight) / HOUR_SECONDS));
    let replicas = &deployment.spec["replicas"];
    let patch = match (is_up, metadata.annotations.get(REPLICAS)) {
        (true, Some(before)) => {
            let before: Value = serde_json::from_str(before).unwrap_or(json!(1));
            Some(json!({"metadata": {"annotations": {REPLICAS: null}}, "spec": {"replicas": before}}))
        }
        (false, _) if *replicas != 0 => {
            Some(json!({"metadata": {"annotations": {REPLICAS: replicas.to_string()}}, "spec": {"replicas": 0}}))
        }
        _ => None,
    };
    if let Some(patch) = patch {
        let target = ObjectRef::namespaced("apps/v1", "Deployment", &metadata.namespace, &metadata.name);
        writes::merge(target, &patch).send()?;
    }
    let next = [from, to, from + 24].map(|hour| midnight + hour * HOUR_SECONDS).into_iter().find(|time| *time > now);
    Ok(time::again_at(next.unwrap_or(midnight + DAY_SECONDS)))
}
