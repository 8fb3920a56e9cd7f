//! The status of a `WebApp`, computed from its Deployment and from the failures. Pure: nothing here calls the host.

use serde_json::Value;
use windlass_sdk::conditions::{Condition, Now, find_condition, updated_conditions};
use windlass_sdk::{ApiReason, Error, ObjectRef};

use crate::api::{Phase, Spec, Status, WebApp};

/// The condition that is true if all replicas of the current spec are ready.
pub(crate) const READY: &str = "Ready";
/// The condition that is true while the current spec is being rolled out.
pub(crate) const PROGRESSING: &str = "Progressing";

/// Why a `WebApp` cannot reach its desired state until someone acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The reason in CamelCase, for conditions and events: `Invalid`, `NameTaken` or `ApplyFailed`.
    pub(crate) reason: &'static str,
    /// The text for people.
    pub(crate) message: String,
}

impl Problem {
    /// The problem of a spec that the CRD's schema accepts.
    pub(crate) fn of_spec(spec: &Spec) -> Option<Self> {
        let is_empty = spec.image.trim().is_empty();
        is_empty.then(|| Self { reason: "Invalid", message: "spec.image is empty".into() })
    }

    /// The name of a child belongs to another object.
    pub(crate) fn name_taken(child: &ObjectRef) -> Self {
        Self { reason: "NameTaken", message: format!("{child} exists and is not this WebApp's") }
    }

    /// A refusal that lasts until someone acts. A failure that may pass by itself is retried, and is not a problem.
    pub(crate) fn lasting(error: &Error) -> Option<Self> {
        let is_lasting = matches!(
            error.reason()?,
            ApiReason::Invalid | ApiReason::Forbidden | ApiReason::NotGranted | ApiReason::TooLarge
        );
        is_lasting.then(|| Self { reason: "ApplyFailed", message: error.to_string() })
    }

    /// Whether the problem is new and so worth an event. A known problem is not reported again at each reconcile.
    pub(crate) fn is_news(&self, app: &WebApp) -> bool {
        find_condition(&app.status.conditions, READY).is_none_or(|ready| {
            let is_known = ready.reason == self.reason && ready.message == self.message;
            !is_known || ready.observed_generation != app.metadata.generation
        })
    }
}

/// The Deployment's report.
#[derive(Debug, Clone, Copy, Default)]
struct Rollout {
    ready_replicas: i64,
    /// Whether the report is about the current spec, and all replicas have that spec.
    is_complete: bool,
}

/// The new status. It equals the old one if nothing has changed, so that it need not be written.
pub(crate) fn status(app: &WebApp, deployment: Option<&Value>, problem: Option<&Problem>, now: impl Now) -> Status {
    let rollout = deployment.map(|deployment| rollout(app, deployment)).unwrap_or_default();
    let is_ready = problem.is_none() && rollout.is_complete && rollout.ready_replicas >= app.spec.replicas;
    let new = conditions_of(app, rollout, is_ready, problem);
    Status {
        observed_generation: app.metadata.generation,
        ready_replicas: rollout.ready_replicas,
        phase: Some(phase(app, is_ready)),
        conditions: updated_conditions(&app.status.conditions, new, app.metadata.generation, now),
    }
}

fn rollout(app: &WebApp, deployment: &Value) -> Rollout {
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let status = &deployment["status"];
    let is_about_this = number(&status["observedGeneration"]) >= number(&deployment["metadata"]["generation"]);
    Rollout {
        ready_replicas: number(&status["readyReplicas"]),
        is_complete: is_about_this && number(&status["updatedReplicas"]) >= app.spec.replicas,
    }
}

fn phase(app: &WebApp, is_ready: bool) -> Phase {
    let was_ready = matches!(app.status.phase, Some(Phase::Running | Phase::Degraded));
    match (is_ready, was_ready && !app.is_changed()) {
        (true, _) => Phase::Running,
        (false, true) => Phase::Degraded,
        (false, false) => Phase::Pending,
    }
}

fn conditions_of(app: &WebApp, rollout: Rollout, is_ready: bool, problem: Option<&Problem>) -> [Condition; 2] {
    if let Some(Problem { reason, message }) = problem {
        return [Condition::new(READY, false, *reason, message), Condition::new(PROGRESSING, false, *reason, message)];
    }
    let count = format!("{} of {} replicas are ready", rollout.ready_replicas, app.spec.replicas);
    let ready_reason = if is_ready { "ReplicasReady" } else { "ReplicasNotReady" };
    let progressing = if rollout.is_complete {
        Condition::new(PROGRESSING, false, "RolledOut", "the Deployment runs this spec")
    } else {
        Condition::new(PROGRESSING, true, "RollingOut", "the Deployment is rolling out this spec")
    };
    [Condition::new(READY, is_ready, ready_reason, count), progressing]
}
