//! Functions about pods for their controllers: they create a pod from a template, and decide whether a pod counts.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};

use super::values::{condition, controller_reference, set_condition};
use super::writes::Write;
use crate::clock::Moment;
use crate::object::{self, text};
use crate::resources::resource::GroupResource;

/// An annotation that makes a pod misbehave: with `failure`, its containers exit with 1; with `unready`, it runs, but
/// never becomes ready and never ends.
pub(super) const BEHAVIOUR: &str = "windlass.dev/pod-behaviour";

/// The most pods that one look at an owner creates, as in the real controllers. The new pods lead to the next look.
pub(super) const BURST_REPLICAS: usize = 500;

pub(super) fn resource() -> GroupResource {
    GroupResource::new("", "pods")
}

/// A new pod of a controller.
pub(super) fn from_template(owner: &Value, template: &Value) -> Value {
    let mut metadata = json!({
        "namespace": object::namespace(owner),
        "generateName": format!("{}-", object::name(owner)),
        "ownerReferences": [controller_reference(owner)],
    });
    for key in ["labels", "annotations", "finalizers"] {
        object::copy_field(&mut metadata, &template["metadata"], key);
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] })
}

/// Whether the pod has neither ended nor is being deleted.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_ended(pod) && !object::is_terminating(pod)
}

/// A pod that has succeeded or failed.
pub(super) fn is_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

pub(super) fn is_ready(pod: &Value) -> bool {
    object::condition_holds(pod, "Ready")
}

/// Whether the pod has been ready for this many seconds.
pub(super) fn is_available(pod: &Value, min_ready: i64, now: Moment) -> bool {
    if !is_ready(pod) || min_ready == 0 {
        return is_ready(pod);
    }
    let ready = condition(object::items(pod, "/status/conditions"), "Ready");
    let since = ready.and_then(|ready| now.seconds_since(text(ready, "/lastTransitionTime")));
    since.is_some_and(|since| since >= min_ready)
}

/// Deletes `count` of the pods, beginning with the least useful, then the youngest.
pub(super) fn delete_some(pods: &[&Arc<Value>], count: usize) -> Vec<Write> {
    let mut pods = pods.to_vec();
    pods.sort_by_key(|pod| {
        let assigned = !text(pod, "/spec/nodeName").is_empty();
        let running = text(pod, "/status/phase") == "Running";
        (assigned, running, is_ready(pod), Reverse(text(pod, "/metadata/creationTimestamp").to_owned()))
    });
    pods.into_iter().take(count).map(|pod| Write::Delete(resource(), Arc::clone(pod))).collect()
}

/// The conditions of a pod, after the conditions in `changed` were set to true or false. `reason` has the reason and
/// the message of conditions that are false.
pub(super) fn with_conditions(pod: &Value, changed: &[(&str, bool)], reason: (&str, &str), now: &str) -> Vec<Value> {
    let mut conditions = object::items(pod, "/status/conditions").to_vec();
    for (kind, holds) in changed {
        let mut new = json!({
            "type": kind,
            "status": if *holds { "True" } else { "False" },
            "observedGeneration": object::generation(pod),
            "lastProbeTime": null,
            "lastTransitionTime": now,
        });
        if !holds {
            new["reason"] = json!(reason.0);
            if !reason.1.is_empty() {
                new["message"] = json!(reason.1);
            }
        }
        set_condition(&mut conditions, new);
    }
    conditions
}
