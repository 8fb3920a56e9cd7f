//! How many Pods to create and which to delete, given the existing ones. Pure: nothing here calls the host.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::api::{Pod, PodSet};

/// The most Pods that one call creates or deletes, as in a `ReplicaSet`. Their events cause the next call, which
/// continues.
pub(crate) const BURST_REPLICAS: usize = 500;

/// The decision about the Pods.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// There are as many Pods as desired.
    Nothing,
    /// This many Pods are missing.
    Create(usize),
    /// These Pods are surplus.
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
    // A Pod that is not ready serves no requests, and the youngest Pod has the least to lose. The name makes the order
    // the same each time.
    active.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)));
    active.truncate(surplus);
    Change::Delete(active)
}

/// The rank of a Pod. Pods with a lower rank are deleted first.
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
