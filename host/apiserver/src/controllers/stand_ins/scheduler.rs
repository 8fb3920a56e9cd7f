//! The scheduler: gives each pod a node, if there is a suitable one.

use std::sync::Arc;

use serde_json::{Value, json};

use super::pod;
use super::values::fnv;
use super::writes::{Write, with_status};
use crate::object::{self, items, label_selector, text};
use crate::resources::resource::GroupResource;

/// The decision about a pod.
#[derive(Debug, PartialEq)]
pub(super) enum Schedule {
    /// The pod has a node already, or must not get one yet.
    Nothing,
    Bind(String),
    /// No node suits the pod now. The write records this in the pod's status.
    Unschedulable(Write),
}

pub(super) fn nodes() -> GroupResource {
    GroupResource::new("", "nodes")
}

/// Finds a node for a pod. A hash of the pod's UID chooses among suitable nodes, so that pods are spread.
pub(super) fn look(pod: &Value, nodes: &[Arc<Value>], now: &str) -> Schedule {
    let is_waiting =
        text(pod, "/spec/nodeName").is_empty() && pod::is_active(pod) && items(pod, "/spec/schedulingGates").is_empty();
    if !is_waiting {
        return Schedule::Nothing;
    }
    let fitting: Vec<&Arc<Value>> = nodes.iter().filter(|node| fits(&pod["spec"], node)).collect();
    if fitting.is_empty() {
        let why = format!("0/{} nodes are available.", nodes.len());
        let mut status = pod["status"].clone();
        let conditions = pod::with_conditions(pod, &[("PodScheduled", false)], ("Unschedulable", &why), now);
        status["conditions"] = json!(conditions);
        return Schedule::Unschedulable(Write::Status(pod::resource(), with_status(pod, status)));
    }
    let spread = usize::try_from(fnv(object::uid(pod).bytes())).unwrap_or_default();
    Schedule::Bind(object::name(fitting[spread % fitting.len()]).to_owned())
}

/// Whether a pod with this spec may run on the node: the node is not cordoned, and the node selector matches it.
fn fits(spec: &Value, node: &Value) -> bool {
    node.pointer("/spec/unschedulable") != Some(&json!(true)) && selects(spec, node)
}

/// Whether a pod's node selector matches the node.
pub(super) fn selects(spec: &Value, node: &Value) -> bool {
    label_selector::has_all(node, spec.get("nodeSelector"))
}
