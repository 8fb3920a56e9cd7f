//! The history of a deployment. Its replica sets are its revisions; an annotation has the number.

use serde_json::{Map, Value, json};

use super::rollout::{Rollout, size};
use crate::controllers::stand_ins::replica_sets;
use crate::controllers::stand_ins::values::{age_order, annotation, integer};
use crate::controllers::stand_ins::writes::Write;
use crate::object;

const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The annotation with the deployment's size at the time when the set was last scaled.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The annotation with the deployment's size plus the allowed surge.
pub(super) const MOST: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a deployment that are not copied to its sets.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MOST,
    "deprecated.deployment.rollback.to",
];

fn revision(set: &Value) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The revision number that the new set has, or will get.
fn next(rollout: &Rollout) -> i64 {
    let old = rollout.old.iter().map(|set| revision(set)).max().unwrap_or_default();
    old.saturating_add(1)
}

/// The revision that the deployment should report. `None` if no set has its template.
pub(super) fn current(rollout: &Rollout, created: bool) -> Option<String> {
    let revision = match rollout.new {
        Some(new) => next(rollout).max(revision(new)),
        None if created => next(rollout),
        None => return None,
    };
    Some(revision.to_string())
}

/// The deployment's annotations with its revision.
pub(super) fn annotations(deployment: &Value, revision: &str) -> Value {
    let mut annotations = deployment["metadata"]["annotations"].clone();
    object::as_map_mut(&mut annotations).insert(REVISION.to_owned(), json!(revision));
    annotations
}

fn inherited(deployment: &Value) -> Map<String, Value> {
    let all = deployment.pointer("/metadata/annotations").and_then(Value::as_object);
    let inherited = all.into_iter().flatten().filter(|(key, _)| !OWN.contains(&key.as_str()));
    inherited.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The annotations of a set that is about to be created.
pub(super) fn annotations_of_new(rollout: &Rollout) -> Value {
    let mut annotations = inherited(rollout.deployment);
    let own = [(REVISION, next(rollout)), (DESIRED, rollout.wanted()), (MOST, rollout.most())];
    annotations.extend(own.map(|(key, number)| (key.to_owned(), json!(number.to_string()))));
    Value::Object(annotations)
}

/// The new set with the latest revision number. `None` if the set has this number already. After a rollback, the new
/// set is an old one with an older number.
pub(super) fn renewed(rollout: &Rollout, new: &Value) -> Option<Value> {
    let mut set = new.clone();
    let annotations = object::map_mut(object::map_mut_value(&mut set, "metadata"), "annotations");
    annotations.extend(inherited(rollout.deployment));
    let (was, is) = (revision(new), next(rollout));
    if was < is {
        annotations.insert(REVISION.to_owned(), json!(is.to_string()));
    }
    if 0 < was && was < is {
        let earlier = annotation(new, HISTORY).map(|earlier| format!("{earlier},")).unwrap_or_default();
        annotations.insert(HISTORY.to_owned(), json!(format!("{earlier}{was}")));
    }
    set["spec"]["minReadySeconds"] = json!(integer(rollout.deployment, "/spec/minReadySeconds"));
    let differs = set["metadata"] != new["metadata"]
        || integer(&set, "/spec/minReadySeconds") != integer(new, "/spec/minReadySeconds");
    differs.then_some(set)
}

/// Deletes the oldest revisions beyond the history limit that have no pods.
pub(super) fn cleanup(rollout: &Rollout) -> Vec<Write> {
    let Some(limit) = rollout.deployment.pointer("/spec/revisionHistoryLimit").and_then(Value::as_u64) else {
        return Vec::new();
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut sets: Vec<&Value> = rollout.old.iter().copied().filter(|set| !object::is_terminating(set)).collect();
    sets.sort_by_key(|&set| (revision(set), age_order(set)));
    let excess = sets.len().saturating_sub(limit);
    let is_empty = |set: &&Value| {
        size(set) == 0
            && integer(set, "/status/replicas") == 0
            && object::generation(set) <= set.pointer("/status/observedGeneration").and_then(Value::as_i64)
    };
    let gone = sets.into_iter().take(excess).filter(is_empty);
    gone.map(|set| Write::Delete(replica_sets::resource(), set.clone().into())).collect()
}
