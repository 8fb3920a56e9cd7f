//! How many Pods to make and which ones to delete, by those that there are. Pure: no call to the host.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::api::{Pod, PodSet};

/// The most Pods that one call makes or deletes, as `ReplicaSet`s do: the next call, which their events bring, goes on.
pub(crate) const MOST_AT_ONCE: usize = 500;

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// There are as many as asked for.
    Nothing,
    /// So many are missing.
    Create(usize),
    /// These are too many.
    Delete(Vec<Pod>),
}

/// Compares what is asked for with the active Pods.
pub(crate) fn change(replicas: usize, mut active: Vec<Pod>) -> Change {
    if active.len() < replicas {
        return Change::Create((replicas - active.len()).min(MOST_AT_ONCE));
    }
    let surplus = (active.len() - replicas).min(MOST_AT_ONCE);
    if surplus == 0 {
        return Change::Nothing;
    }
    // What is not ready serves nobody, and what is youngest has the least to lose. The name makes it the same each time.
    active.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)));
    active.truncate(surplus);
    Change::Delete(active)
}

/// The lower, the sooner it goes.
fn rank(pod: &Pod) -> (bool, Reverse<&str>, &str) {
    (pod.is_ready(), Reverse(&pod.metadata.creation_timestamp), &pod.metadata.name)
}

/// A new Pod of a set. Its owner and its name are for the host.
pub(crate) fn pod(set: &PodSet) -> Value {
    let template = &set.spec.template;
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", set.metadata.name),
            "namespace": set.metadata.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
        },
        "spec": template["spec"],
    })
}
