//! The status of a `PodSet`. Pure: nothing here calls the host.

use windlass_sdk::conditions::{Condition, Now, find_condition, updated_conditions};
use windlass_sdk::{ApiReason, Error};

use crate::api::{Pod, PodSet, Spec, Status};

/// The condition that is true if all Pods exist and are ready.
pub(crate) const READY: &str = "Ready";

/// Why a `PodSet` cannot reach its desired state until someone acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// In CamelCase, for the condition and the event: `InvalidSelector`, `FailedCreate` or `FailedDelete`.
    pub(crate) reason: &'static str,
    /// The text for people.
    pub(crate) message: String,
}

impl Problem {
    /// The problem of a spec that the CRD's schema accepts. Without this check, each call would create Pods that the
    /// next call does not count.
    pub(crate) fn of_spec(spec: &Spec) -> Option<Self> {
        let problem = |message: &str| Some(Self { reason: "InvalidSelector", message: message.into() });
        if spec.selector.text().is_empty() {
            return problem("spec.selector is empty");
        }
        let is_matched = spec.selector.matches(&spec.template["metadata"]["labels"]);
        if is_matched { None } else { problem("spec.selector does not match the labels of spec.template") }
    }

    /// A refusal that lasts until someone acts. A failure that may pass by itself is retried, and is not a problem.
    pub(crate) fn lasting(reason: &'static str, error: &Error) -> Option<Self> {
        let is_lasting = matches!(
            error.reason()?,
            ApiReason::Invalid | ApiReason::Forbidden | ApiReason::NotGranted | ApiReason::TooLarge
        );
        is_lasting.then(|| Self { reason, message: error.to_string() })
    }

    /// Whether the problem is new and so worth an event. A known problem is not reported again at each reconcile.
    pub(crate) fn is_news(&self, set: &PodSet) -> bool {
        find_condition(&set.status.conditions, READY)
            .is_none_or(|ready| ready.reason != self.reason || ready.observed_generation != set.metadata.generation)
    }
}

/// The new status, computed from the active Pods. It equals the old one if nothing has changed, so that it need not be
/// written.
pub(crate) fn status(set: &PodSet, active: &[Pod], problem: Option<&Problem>, now: impl Now) -> Status {
    let (replicas, wanted) = (active.len(), set.spec.replicas);
    let ready_replicas = active.iter().filter(|pod| pod.is_ready()).count();
    let is_ready = replicas == wanted && ready_replicas == wanted;
    let count = format!("{ready_replicas} of {wanted} Pods are ready");
    let ready = match problem {
        Some(Problem { reason, message }) => Condition::new(READY, false, *reason, message),
        None if is_ready => Condition::new(READY, true, "ReplicasReady", count),
        None => Condition::new(READY, false, "ReplicasNotReady", count),
    };
    let generation = set.metadata.generation;
    let conditions = updated_conditions(&set.status.conditions, [ready], generation, now);
    Status { observed_generation: generation, replicas, ready_replicas, conditions }
}
