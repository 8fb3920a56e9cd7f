//! The status of a deployment: counts of its replica sets, and whether the rollout progresses.

use serde_json::{Value, json};

use super::rollout::Rollout;
use crate::clock::Moment;
use crate::controllers::stand_ins::values::{condition, integer, set_condition};
use crate::object::{self, text};

/// The value of `progressDeadlineSeconds` that means no deadline.
const NO_DEADLINE: u64 = 2_147_483_647;

/// The effect of one pass over a deployment on its `Progressing` condition.
pub(super) enum Progress {
    /// No effect: the deployment was only scaled, or is paused.
    Ignore,
    /// A new set with this name was created.
    Created(String),
    /// The existing set with this name is the deployment's new set.
    Found(String),
    /// The counts of pods show whether there is progress.
    Estimate,
}

/// The time in seconds within which a rollout must progress.
pub(super) fn progress_deadline(deployment: &Value) -> Option<u64> {
    let seconds = deployment.pointer("/spec/progressDeadlineSeconds").and_then(Value::as_u64);
    seconds.filter(|seconds| *seconds < NO_DEADLINE)
}

/// Whether the rollout is complete: all pods have the new template and are available.
pub(super) fn is_complete(deployment: &Value, status: &Value) -> bool {
    let wanted = integer(deployment, "/spec/replicas");
    ["updatedReplicas", "replicas", "availableReplicas"]
        .iter()
        .all(|count| integer(status, &format!("/{count}")) == wanted)
        && status["observedGeneration"].as_i64() >= object::generation(deployment)
}

/// The new status.
pub(super) fn status(rollout: &Rollout, mut conditions: Vec<Value>, progress: Progress, now: Moment) -> Value {
    let deployment = rollout.deployment;
    let sum = |pointer: &str| -> i64 { rollout.all().map(|set| integer(set, pointer)).sum() };
    let available = sum("/status/availableReplicas");
    let mut status = json!({
        "observedGeneration": object::generation(deployment),
        "replicas": sum("/status/replicas"),
        "updatedReplicas": rollout.new.map_or(0, |new| integer(new, "/status/replicas")),
        "readyReplicas": sum("/status/readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": (sum("/spec/replicas") - available).max(0),
        "terminatingReplicas": sum("/status/terminatingReplicas"),
    });
    if let Some(collisions) = deployment.pointer("/status/collisionCount") {
        status["collisionCount"] = collisions.clone();
    }
    let (holds, reason, message) = if available >= rollout.least() {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    let now_text = now.text();
    set_condition(&mut conditions, new_condition("Available", holds, reason, message, &now_text));
    set_progress(rollout, &status, &mut conditions, progress, now);
    status["conditions"] = json!(conditions);
    status
}

fn set_progress(rollout: &Rollout, status: &Value, conditions: &mut Vec<Value>, progress: Progress, now: Moment) {
    if progress_deadline(rollout.deployment).is_none() {
        conditions.retain(|condition| condition["type"] != "Progressing");
        return;
    }
    let now_text = now.text();
    let new = |holds, reason, message: &str| new_condition("Progressing", holds, reason, message, &now_text);
    match progress {
        Progress::Ignore => {}
        Progress::Created(name) => {
            let message = format!("Created new replica set \"{name}\"");
            set_condition(conditions, new("True", "NewReplicaSetCreated", &message));
        }
        Progress::Found(name) if condition(conditions, "Progressing").is_none() => {
            let message = format!("Found new replica set \"{name}\"");
            set_condition(conditions, new("True", "FoundNewReplicaSet", &message));
        }
        Progress::Found(_) | Progress::Estimate => estimate(rollout, status, conditions, now),
    }
}

fn estimate(rollout: &Rollout, status: &Value, conditions: &mut Vec<Value>, now: Moment) {
    let deployment = rollout.deployment;
    let current = condition(conditions, "Progressing").cloned();
    let reason = current.as_ref().map(|current| text(current, "/reason").to_owned()).unwrap_or_default();
    if status["replicas"] == status["updatedReplicas"] && reason == "NewReplicaSetAvailable" {
        return;
    }
    let subject = match rollout.new {
        Some(new) => format!("ReplicaSet \"{}\"", object::name(new)),
        None => format!("Deployment \"{}\"", object::name(deployment)),
    };
    let now_text = now.text();
    let new = |holds, reason, what: &str| {
        new_condition("Progressing", holds, reason, &format!("{subject} {what}"), &now_text)
    };
    if is_complete(deployment, status) {
        set_condition(conditions, new("True", "NewReplicaSetAvailable", "has successfully progressed."));
    } else if gets_on(&deployment["status"], status) {
        let mut progressing = new("True", "ReplicaSetUpdated", "is progressing.");
        if let Some(current) = current.filter(|current| current["status"] == "True") {
            progressing["lastTransitionTime"] = current["lastTransitionTime"].clone();
        }
        // Each step restarts the deadline.
        conditions.retain(|condition| condition["type"] != "Progressing");
        conditions.push(progressing);
    } else if current.is_some_and(|current| is_late(deployment, &current, now)) {
        set_condition(conditions, new("False", "ProgressDeadlineExceeded", "has timed out progressing."));
    }
}

fn gets_on(before: &Value, after: &Value) -> bool {
    let count = |status: &Value, name: &str| integer(status, &format!("/{name}"));
    let outdated = |status: &Value| count(status, "replicas") - count(status, "updatedReplicas");
    let grows = |name: &str| count(after, name) > count(before, name);
    grows("updatedReplicas")
        || outdated(after) < outdated(before)
        || grows("readyReplicas")
        || grows("availableReplicas")
}

fn is_late(deployment: &Value, progressing: &Value, now: Moment) -> bool {
    let since = now.seconds_since(text(progressing, "/lastUpdateTime")).and_then(|since| u64::try_from(since).ok());
    match text(progressing, "/reason") {
        "NewReplicaSetAvailable" => false,
        "ProgressDeadlineExceeded" => true,
        _ => since > progress_deadline(deployment),
    }
}

pub(super) fn new_condition(kind: &str, holds: &str, reason: &str, message: &str, now: &str) -> Value {
    json!({
        "type": kind,
        "status": holds,
        "reason": reason,
        "message": message,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
    })
}
