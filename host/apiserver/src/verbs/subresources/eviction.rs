//! `pods/eviction`: a deletion that the pod's disruption budget must allow. The budget's status holds the number of
//! allowed disruptions, which clients write here in place of a disruption controller. Follows
//! `pkg/registry/core/pod/storage/eviction.go`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{check_subject, done};
use crate::object::{self, label_selector, text};
use crate::request::{Query, Target, WriteOptions};
use crate::resources::resource::GroupResource;
use crate::status_error::ApiError;
use crate::storage::ObjectKey;
use crate::storage::state::State;
use crate::verbs::delete::{self, DeleteOptions};

/// The seconds after which a client may retry if the controller has not handled the budget yet.
const UNPROCESSED_RETRY_SECONDS: u32 = 10;

/// Deletes the pod, unless its budget forbids it.
pub(super) fn evict(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    eviction: &Value,
) -> Result<Value, ApiError> {
    check_subject(target, eviction, "Eviction")?;
    let mut deletion = DeleteOptions::read(eviction.get("deleteOptions"), &Query::default())?;
    deletion.dry_run |= options.dry_run;
    let pod = crate::verbs::get(state, target, &options.consultation)?;
    check_uid(target, &pod, &deletion)?;
    let charged = if is_free(&pod) { None } else { charge(state, &pod)? };
    if let Some((key, budget)) = charged.filter(|_| !deletion.dry_run) {
        state.commit(&key, budget);
    }
    let pod_target = Target { subresource: None, ..target.clone() };
    delete::delete(state, &pod_target, &deletion)?;
    Ok(done())
}

fn check_uid(target: &Target, pod: &Value, deletion: &DeleteOptions) -> Result<(), ApiError> {
    let found = object::uid(pod);
    match &deletion.uid {
        Some(given) if given != found => {
            let why = format!(
                "the UID in the precondition ({given}) does not match the UID in record ({found}). The object might \
                 have been deleted and then recreated"
            );
            Err(ApiError::conflict(&GroupResource::new("", "Pod"), target.name(), &why))
        }
        _ => Ok(()),
    }
}

/// The eviction of a pod that serves no traffic does not use the budget.
fn is_free(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "" | "Pending" | "Succeeded" | "Failed") || object::is_terminating(pod)
}

/// The pod's budget after this eviction, with its key. `None` if there is no budget, or the eviction does not use it.
fn charge(state: &State, pod: &Value) -> Result<Option<(ObjectKey, Value)>, ApiError> {
    let resource = GroupResource::new("policy", "poddisruptionbudgets");
    let namespace = object::namespace(pod);
    let stored = state.store.list(&resource, Some(namespace));
    let budgets: Vec<&Arc<Value>> = stored.filter(|budget| label_selector::is_selected_by(budget, pod)).collect();
    let budget = match budgets.as_slice() {
        [] => return Ok(None),
        [only] => only,
        _ => {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
                           support.";
            return Err(ApiError::internal(message));
        }
    };
    if is_spared(budget, pod) {
        return Ok(None);
    }
    check_budget(budget)?;
    Ok(Some((ObjectKey::of(&resource, budget), charged(budget, object::name(pod), &state.now()))))
}

fn number(budget: &Value, field: &str) -> i64 {
    budget.pointer(&format!("/status/{field}")).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether the budget's policy allows the eviction of a pod that is not ready.
fn is_spared(budget: &Value, pod: &Value) -> bool {
    let (healthy, wanted) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    let by_policy = match text(budget, "/spec/unhealthyPodEvictionPolicy") {
        "AlwaysAllow" => true,
        _ => wanted > 0 && healthy >= wanted,
    };
    by_policy && !object::condition_holds(pod, "Ready")
}

fn check_budget(budget: &Value) -> Result<(), ApiError> {
    let name = object::name(budget);
    let (healthy, wanted) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    let allowed = number(budget, "disruptionsAllowed");
    let refused = |why: String, retry_after| {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        Err(ApiError::too_many_requests(message, "DisruptionBudget", &why, retry_after))
    };
    if number(budget, "observedGeneration") < object::generation(budget).unwrap_or_default() {
        return refused(
            format!("The disruption budget {name} is still being processed by the server."),
            Some(UNPROCESSED_RETRY_SECONDS),
        );
    }
    match allowed {
        ..0 => {
            let resource = GroupResource::new("policy", "poddisruptionbudgets");
            Err(ApiError::forbidden(&resource, name, "pdb disruptions allowed is negative"))
        }
        0 if healthy > wanted => {
            refused(format!("The disruption budget {name} does not allow evicting pods currently"), None)
        }
        0 => refused(
            format!("The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"),
            None,
        ),
        _ => Ok(()),
    }
}

fn charged(budget: &Value, pod: &str, now: &str) -> Value {
    let mut budget = budget.clone();
    let left = number(&budget, "disruptionsAllowed") - 1;
    let generation = number(&budget, "observedGeneration");
    let status = object::map_mut_value(&mut budget, "status");
    status["disruptionsAllowed"] = json!(left);
    object::map_mut(status, "disruptedPods").insert(pod.to_owned(), json!(now));
    if left == 0 {
        status["conditions"] = json!([{
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": generation,
            "lastTransitionTime": now,
            "reason": "InsufficientPods",
            "message": "",
        }]);
    }
    budget
}
