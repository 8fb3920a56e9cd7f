//! Makes workloads ready by writing only their status, without any pods. Clients that wait for a workload see no more
//! than its status.

use serde_json::{Value, json};

use super::StandIns;
use super::writes::{self, Outcome, Write, with_status};
use crate::object::{self, text};
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::state::State;

/// Whether the object is a workload with an outdated status, and no stand-in for its kind is enabled.
pub(super) fn needs_status(stand_ins: StandIns, resource: &GroupResource, object: &Value) -> bool {
    let Some(own @ (StandIns::DEPLOYMENTS | StandIns::REPLICA_SETS | StandIns::STATEFUL_SETS)) =
        super::stand_in_of(resource)
    else {
        return false;
    };
    let observed = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
    stand_ins.contains(StandIns::STATUSES)
        && !stand_ins.contains(own)
        && observed != object::generation(object)
        && !object::is_terminating(object)
}

/// Writes the status of a workload that still needs it.
pub(in crate::controllers) fn make_ready(state: &mut State, stand_ins: StandIns, key: &ObjectKey) {
    let Some(stored) = state.store.get(key).cloned() else { return };
    if needs_status(stand_ins, &key.resource, &stored) {
        let status = ready_status(&key.resource, &stored, &state.now());
        let write = Write::Status(key.resource.clone(), with_status(&stored, status));
        writes::carry_out(state, key, super::MANAGER, Outcome::of(vec![write]));
    }
}

/// The status that a workload has when all its pods are available.
fn ready_status(resource: &GroupResource, object: &Value, now: &str) -> Value {
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let mut status = json!({ "observedGeneration": object::generation(object), "replicas": replicas });
    if replicas > 0 {
        status["readyReplicas"] = json!(replicas);
        status["availableReplicas"] = json!(replicas);
    }
    match resource.plural.as_str() {
        "replicasets" => status["fullyLabeledReplicas"] = json!(replicas),
        "statefulsets" => {
            for (key, value) in [("updatedReplicas", json!(replicas)), ("currentReplicas", json!(replicas))] {
                status[key] = value;
            }
            let revision = format!("{}-{}", object::name(object), object::generation(object).unwrap_or(1));
            status["currentRevision"] = json!(revision);
            status["updateRevision"] = json!(revision);
            status["collisionCount"] = json!(0);
        }
        _ => {
            if replicas > 0 {
                status["updatedReplicas"] = json!(replicas);
            }
            let available =
                ("Available", "MinimumReplicasAvailable", "Deployment has minimum availability.".to_owned());
            let progress = format!("Deployment \"{}\" has successfully progressed.", object::name(object));
            let progressing = ("Progressing", "NewReplicaSetAvailable", progress);
            status["conditions"] =
                [available, progressing].map(|parts| condition(object, parts, now)).into_iter().collect();
        }
    }
    status
}

/// A condition that is true. If the object already has the condition, the transition time stays.
fn condition(object: &Value, (kind, reason, message): (&str, &str, String), now: &str) -> Value {
    let before = object::items(object, "/status/conditions").iter().find(|condition| condition["type"] == json!(kind));
    let since = before.map(|condition| text(condition, "/lastTransitionTime")).filter(|moment| !moment.is_empty());
    json!({
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": since.unwrap_or(now),
        "lastUpdateTime": now,
    })
}
