//! Cells of nodes.

use serde_json::Value;

use super::texts::{condition, or_none};
use crate::object::{items, text};

/// A text that says whether the node is ready, and whether it accepts new pods.
pub(super) fn state(node: &Value) -> String {
    let ready = match condition(node, "Ready", "") {
        "True" => "Ready",
        "" => "Unknown",
        _ => "NotReady",
    };
    let closed =
        if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) { ",SchedulingDisabled" } else { "" };
    format!("{ready}{closed}")
}

/// The node's roles, from its labels.
pub(super) fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let mut roles: Vec<String> =
        labels.into_iter().flatten().filter_map(role).filter(|role| !role.is_empty()).collect();
    roles.sort_unstable();
    roles.dedup();
    or_none(roles.join(","))
}

pub(super) fn internal_address(node: &Value) -> String {
    address(node, "InternalIP")
}

pub(super) fn external_address(node: &Value) -> String {
    address(node, "ExternalIP")
}

fn address(node: &Value, kind: &str) -> String {
    let found = items(node, "/status/addresses").iter().find(|address| address["type"] == kind);
    found.map_or("<none>", |address| text(address, "/address")).to_owned()
}

/// The kernel's version, and the architecture it was built for.
pub(super) fn kernel(node: &Value) -> String {
    let version = match text(node, "/status/nodeInfo/kernelVersion") {
        "" => "<unknown>",
        version => version,
    };
    match text(node, "/status/nodeInfo/architecture") {
        "" => version.to_owned(),
        architecture => format!("{version} ({architecture})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_shows_its_state_and_its_roles() {
        let node = json!({
            "metadata": { "labels": { "node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge", "a": "b" } },
            "spec": { "unschedulable": true },
            "status": {
                "conditions": [{ "type": "Ready", "status": "False" }],
                "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
                "nodeInfo": { "kernelVersion": "6.1", "architecture": "arm64" },
            },
        });
        assert_eq!(state(&node), "NotReady,SchedulingDisabled");
        assert_eq!(state(&json!({})), "Unknown");
        assert_eq!(roles(&node), "edge,worker");
        assert_eq!((internal_address(&node), external_address(&node)), ("10.0.0.1".to_owned(), "<none>".to_owned()));
        assert_eq!(kernel(&node), "6.1 (arm64)");
    }
}
