//! Deployments: each pod template has a replica set; the new one grows while the old ones shrink. Follows
//! `pkg/controller/deployment`. Each look makes one step, and its writes lead to the next look.

mod progress;
mod revisions;
mod rollout;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::replica_sets;
use super::values::{condition, controller_reference, hash, integer, set_condition};
use super::writes::{Outcome, Write, with_status};
use crate::clock::Moment;
use crate::object::{self, items, text};
use crate::resources::resource::GroupResource;
use progress::{Progress, progress_deadline};
use rollout::Rollout;

pub(super) const HASH_LABEL: &str = "pod-template-hash";

pub(super) fn resource() -> GroupResource {
    GroupResource::new("apps", "deployments")
}

/// Decides what to write for a deployment, given its replica sets.
pub(super) fn look(deployment: &Value, sets: &[Arc<Value>], now: Moment) -> Outcome {
    let rollout = Rollout::of(deployment, sets);
    let now_text = now.text();
    let conditions = with_pause(deployment, &now_text);
    let (mut writes, progress) = if deployment.pointer("/spec/paused") == Some(&json!(true)) {
        let cleanup = revisions::cleanup(&rollout);
        (rollout.scale().into_iter().chain(cleanup).collect(), Progress::Ignore)
    } else if rollout.is_scaled() {
        (rollout.scale(), Progress::Ignore)
    } else if text(deployment, "/spec/strategy/type") == "Recreate" {
        recreate(&rollout)
    } else {
        rolling_update(&rollout)
    };
    let revision = revisions::current(&rollout, matches!(progress, Progress::Created(_)));
    let status = progress::status(&rollout, conditions, progress, now);
    let deadline = progress_deadline(deployment).filter(|_| !progress::is_complete(deployment, &status));
    let mut object = with_status(deployment, status);
    if let Some(revision) = revision {
        object::set_path(&mut object, "metadata.annotations", revisions::annotations(deployment, &revision));
    }
    writes.push(Write::Status(resource(), object));
    // One second more, because times in objects are rounded down to whole seconds.
    Outcome { writes, again: deadline.map(|seconds| Duration::from_secs(seconds + 1)) }
}

/// The conditions, updated if the deployment was paused or resumed.
fn with_pause(deployment: &Value, now: &str) -> Vec<Value> {
    let mut conditions = items(deployment, "/status/conditions").to_vec();
    let reason = condition(&conditions, "Progressing").map(|progressing| text(progressing, "/reason").to_owned());
    let was_paused = reason.as_deref() == Some("DeploymentPaused");
    let is_paused = deployment.pointer("/spec/paused") == Some(&json!(true));
    if progress_deadline(deployment).is_none()
        || is_paused == was_paused
        || reason.as_deref() == Some("ProgressDeadlineExceeded")
    {
        return conditions;
    }
    let (reason, message) = if is_paused {
        ("DeploymentPaused", "Deployment is paused")
    } else {
        ("DeploymentResumed", "Deployment is resumed")
    };
    set_condition(&mut conditions, progress::new_condition("Progressing", "Unknown", reason, message, now));
    conditions
}

/// Makes a step of the strategy `Recreate`: all old pods are deleted before the new set gets any.
fn recreate(rollout: &Rollout) -> (Vec<Write>, Progress) {
    let shrunk: Vec<Write> =
        rollout.old.iter().filter(|set| rollout::size(set) > 0).map(|set| rollout.scaled(set, 0)).collect();
    let pods_are_left = rollout.old.iter().any(|set| integer(set, "/status/replicas") > 0);
    if !shrunk.is_empty() || pods_are_left {
        return (shrunk, Progress::Estimate);
    }
    match rollout.new {
        None => new_set(rollout),
        Some(new) => settle_new(rollout, new).unwrap_or_else(|| finish(rollout)),
    }
}

fn rolling_update(rollout: &Rollout) -> (Vec<Write>, Progress) {
    let Some(new) = rollout.new else { return new_set(rollout) };
    if let Some(settled) = settle_new(rollout, new) {
        return settled;
    }
    let shrunk = rollout.shrink_old(new);
    if shrunk.is_empty() { finish(rollout) } else { (shrunk, Progress::Estimate) }
}

/// Updates the new set's annotations and size. `None` if they are up to date.
fn settle_new(rollout: &Rollout, new: &Value) -> Option<(Vec<Write>, Progress)> {
    if let Some(renewed) = revisions::renewed(rollout, new) {
        let write = Write::Replace(replica_sets::resource(), renewed);
        return Some((vec![write], Progress::Found(object::name(new).to_owned())));
    }
    let size = rollout.size_of_new(rollout::size(new));
    (size != rollout::size(new)).then(|| (vec![rollout.scaled(new, size)], Progress::Estimate))
}

/// Deletes old sets beyond the history limit once the rollout is complete.
fn finish(rollout: &Rollout) -> (Vec<Write>, Progress) {
    let is_complete = progress::is_complete(rollout.deployment, &rollout.deployment["status"]);
    (if is_complete { revisions::cleanup(rollout) } else { Vec::new() }, Progress::Estimate)
}

fn new_set(rollout: &Rollout) -> (Vec<Write>, Progress) {
    let deployment = rollout.deployment;
    let collisions = integer(deployment, "/status/collisionCount");
    let hash = hash(&deployment["spec"]["template"], collisions);
    let name = format!("{}-{hash}", object::name(deployment));
    let mut template = deployment["spec"]["template"].clone();
    object::set_path(&mut template, &format!("metadata.labels.{HASH_LABEL}"), json!(hash));
    let mut selector = deployment["spec"]["selector"].clone();
    object::set_path(&mut selector, &format!("matchLabels.{HASH_LABEL}"), json!(hash));
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": object::namespace(deployment),
            "labels": template["metadata"]["labels"],
            "annotations": revisions::annotations_of_new(rollout),
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": rollout.size_of_new(0),
            "minReadySeconds": integer(deployment, "/spec/minReadySeconds"),
            "selector": selector,
            "template": template,
        },
    });
    (vec![Write::Create(replica_sets::resource(), set)], Progress::Created(name))
}
