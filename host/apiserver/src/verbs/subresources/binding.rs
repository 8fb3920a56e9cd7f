//! `pods/binding`: a scheduler's decision. Follows `pkg/registry/core/pod/storage`.

use serde_json::{Value, json};

use super::{check_subject, done};
use crate::cause::Cause;
use crate::object::{self, items, text};
use crate::request::{Target, WriteOptions};
use crate::resources::resource::GroupResource;
use crate::status_error::ApiError;
use crate::storage::state::State;
use crate::verbs::update;

/// Assigns the pod to the node that the binding names.
pub(super) fn bind(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    binding: &Value,
) -> Result<Value, ApiError> {
    check_subject(target, binding, "Binding")?;
    let node = text(binding, "/target/name");
    check_target(text(binding, "/target/kind"), node)?;
    let current = crate::verbs::get(state, target, &options.consultation)?;
    let of = |object| [("UID", object::uid(object)), ("ResourceVersion", object::resource_version(object))];
    for ((what, given), (_, found)) in of(binding).into_iter().zip(of(&current)) {
        if !given.is_empty() && given != found {
            return Err(update::precondition_failed(target, options, what, given, found));
        }
    }
    if let Some(why) = refusal(target.name(), &current) {
        return Err(ApiError::conflict(&GroupResource::new("", "pods/binding"), target.name(), &why));
    }
    let mut pod = Value::clone(&current);
    object::set_path(&mut pod, "spec.nodeName", json!(node));
    for key in ["annotations", "labels"] {
        let added = binding.pointer(&format!("/metadata/{key}")).and_then(Value::as_object);
        for (name, value) in added.into_iter().flatten() {
            let metadata = object::map_mut_value(&mut pod, "metadata");
            object::map_mut(metadata, key).insert(name.clone(), value.clone());
        }
    }
    set_scheduled(&mut pod, &state.now());
    object::map_mut(&mut pod, "status").remove("nominatedNodeName");
    if !options.dry_run {
        state.commit(&target.key(target.name()), pod);
    }
    Ok(done())
}

fn check_target(kind: &str, node: &str) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    if !["", "Node"].contains(&kind) {
        causes.push(Cause::not_supported("target.kind", &json!(kind), &["Node", "<empty>"]));
    }
    if node.is_empty() {
        causes.push(Cause::required("target.name", ""));
    }
    let lines: Vec<String> = causes.iter().map(Cause::to_string).collect();
    // A real server does not turn these errors into `Invalid`.
    if lines.is_empty() { Ok(()) } else { Err(ApiError::internal(object::aggregate(&lines))) }
}

fn refusal(name: &str, pod: &Value) -> Option<String> {
    let node = text(pod, "/spec/nodeName");
    if object::is_terminating(pod) {
        return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if !node.is_empty() {
        return Some(format!("pod {name} is already assigned to node {node:?}"));
    }
    let is_gated = !items(pod, "/spec/schedulingGates").is_empty();
    is_gated.then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let conditions = object::map_mut(pod, "status").entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    let scheduled =
        json!({ "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now });
    conditions.push(scheduled);
}
