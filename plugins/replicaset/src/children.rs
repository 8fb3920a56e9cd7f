//! How many Pods to make and which to delete, given those that exist. Pure: nothing here calls the host.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::api::{Pod, PodSet};

/// The most Pods that one call makes or deletes, as `ReplicaSet`s do: the next call, which their events bring, goes on.
pub(crate) const BURST_REPLICAS: usize = 500;

/// The decision about the Pods.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// There are as many as the set asks for.
    Nothing,
    /// This many are missing.
    Create(usize),
    /// These are surplus.
    Delete(Vec<Pod>),
}

/// Compares the desired number with the active Pods.
pub(crate) fn change(replicas: usize, mut active: Vec<Pod>) -> Change {
    if active.len() < replicas {
        return Change::Create((replicas - active.len()).min(BURST_REPLICAS));
    }
    let surplus = (active.len() - replicas).min(BURST_REPLICAS);
    if surplus == 0 {
        return Change::Nothing;
    }
    // A Pod that is not ready serves nobody, and the youngest has the least to lose. The name makes the order the same
    // each time.
    active.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)));
    active.truncate(surplus);
    Change::Delete(active)
}

/// The lower the rank, the sooner the Pod goes.
fn rank(pod: &Pod) -> (bool, Reverse<&str>, &str) {
    (pod.is_ready(), Reverse(&pod.metadata.creation_timestamp), &pod.metadata.name)
}

/// A new Pod of a set. The host adds its owner and its name.
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
