//! Stand-ins for the controllers of a real cluster: workloads become ready without pods, namespaces get their default
//! service account. Only what watchers of those objects wait for; there are no pods, endpoints or replica sets.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::object::{self, text};
use crate::request::{Target, WriteOptions};
use crate::resources::builtin;
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::agenda::Errand;
use crate::storage::change_log::{Change, ChangeKind};
use crate::storage::state::State;
use crate::verbs::{create, update};

/// Between a spec and its readiness: long enough that clients see a workload that is not ready yet.
const READY_AFTER: Duration = Duration::from_millis(150);

/// Reacts to a change.
pub(super) fn react(state: &mut State, resource: &GroupResource, change: &Change) {
    if change.kind == ChangeKind::Added && *resource == builtin::namespaces() {
        add_service_account(state, object::name(&change.object));
    }
    if change.kind != ChangeKind::Deleted && needs_status(resource, &change.object) {
        let errand = Errand::MakeReady(ObjectKey::of(resource, &change.object));
        state.store.agenda.put_off(errand, READY_AFTER);
    }
}

/// A workload whose status speaks of an older spec.
fn needs_status(resource: &GroupResource, object: &Value) -> bool {
    let is_workload =
        resource.group == "apps" && matches!(resource.plural.as_str(), "deployments" | "replicasets" | "statefulsets");
    let observed = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
    is_workload && observed != object::generation(object) && !object::is_terminating(object)
}

/// Writes the status of a workload that still needs it.
pub(super) fn make_ready(state: &mut State, key: &ObjectKey) {
    let Some(stored) = state.store.get(key).cloned() else { return };
    if !needs_status(&key.resource, &stored) {
        return;
    }
    let mut object = Value::clone(&stored);
    object["status"] = ready_status(&key.resource, &stored, &state.now());
    let result =
        target(state, key, Some("status")).and_then(|target| update::update(state, &target, &options(), object).ok());
    if result.is_none() {
        tracing::debug!(name = key.name, "a stand-in could not write a status");
    }
}

fn target(state: &State, key: &ObjectKey, subresource: Option<&str>) -> Option<Target> {
    Some(Target {
        resource: Arc::clone(state.registry.storage_type(&key.resource)?),
        namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
        name: Some(key.name.clone()),
        subresource: subresource.map(str::to_owned),
    })
}

fn options() -> WriteOptions {
    WriteOptions::of_component("kube-controller-manager")
}

/// The status of a workload whose pods are all up.
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

/// A condition that holds since it first did.
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

fn add_service_account(state: &mut State, namespace: &str) {
    let resource = GroupResource::new("", "serviceaccounts");
    let key = ObjectKey { resource, namespace: namespace.to_owned(), name: "default".to_owned() };
    let account = json!({ "metadata": { "name": "default" } });
    let created = target(state, &key, None)
        .map(|target| Target { name: None, ..target })
        .map(|target| create::create(state, &target, &options(), account));
    if let Some(Err(error)) = created {
        tracing::debug!(namespace, %error, "the default service account was not made");
    }
}
