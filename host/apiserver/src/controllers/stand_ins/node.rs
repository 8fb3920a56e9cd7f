//! The node on which pods run if there is no other node.

use serde_json::{Value, json};

use super::KUBELET;
use super::scheduler::nodes;
use super::writes::{Outcome, Write, carry_out, with_status};
use crate::object::{items, text};
use crate::resources::builtin;
use crate::storage::ObjectKey;
use crate::storage::state::State;

const NAME: &str = "windlass";

/// An address in 192.0.2.0/24, which is reserved for examples.
pub(super) const ADDRESS: &str = "192.0.2.1";

/// Adds the node to a new cluster.
pub(in crate::controllers) fn add_node(state: &mut State) {
    let node = json!({
        "metadata": {
            "name": NAME,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": NAME,
                "kubernetes.io/os": "linux",
            },
        },
        "spec": {},
    });
    let key = ObjectKey { resource: nodes(), namespace: String::new(), name: NAME.to_owned() };
    carry_out(state, &key, KUBELET, Outcome::of(vec![Write::Create(nodes(), node)]));
    let Some(stored) = state.store.get(&key).cloned() else { return };
    let write = Write::Status(nodes(), with_status(&stored, status(&state.now())));
    carry_out(state, &key, KUBELET, Outcome::of(vec![write]));
}

/// The internal address of a node.
pub(super) fn address(node: &Value) -> &str {
    let internal = items(node, "/status/addresses").iter().find(|address| address["type"] == "InternalIP");
    internal.map_or(ADDRESS, |address| text(address, "/address"))
}

fn status(now: &str) -> Value {
    let resources = json!({ "cpu": "8", "memory": "32Gi", "pods": "110" });
    let condition = |kind: &str, holds: bool, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": if holds { "True" } else { "False" },
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        })
    };
    json!({
        "addresses": [
            { "type": "InternalIP", "address": ADDRESS },
            { "type": "Hostname", "address": NAME },
        ],
        "allocatable": resources,
        "capacity": resources,
        "conditions": [
            condition("MemoryPressure", false, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", true, "KubeletReady", "a stand-in of the embedded API server"),
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": "windlass://0",
            "kernelVersion": "none",
            "kubeProxyVersion": "",
            "kubeletVersion": builtin::KUBERNETES.trim(),
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": "none",
            "systemUUID": "",
        },
    })
}
