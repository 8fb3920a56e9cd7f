//! The status of a `WebApp`, computed from its Deployment.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::api::{WebApp, WebAppStatus};

/// The new status, which equals the old one if nothing has changed.
pub(crate) fn status(app: &WebApp, deployment: &Deployment) -> WebAppStatus {
    let (asked, generation) = (app.spec.replicas, app.metadata.generation);
    let report = deployment.status.clone().unwrap_or_default();
    let is_about_this = report.observed_generation >= deployment.metadata.generation;
    let is_complete = is_about_this && report.updated_replicas.unwrap_or_default() >= asked;
    let ready = report.ready_replicas.unwrap_or_default();
    let is_ready = is_complete && ready >= asked;
    let known = app.status.clone().unwrap_or_default();
    let was_ready = known.phase == "Running" || known.phase == "Degraded";
    let phase = match (is_ready, was_ready && known.observed_generation == generation) {
        (true, _) => "Running",
        (false, true) => "Degraded",
        (false, false) => "Pending",
    };
    let count = format!("{ready} of {asked} replicas are ready");
    let ready_reason = if is_ready { "ReplicasReady" } else { "ReplicasNotReady" };
    let (progress_reason, progress) = match is_complete {
        true => ("RolledOut", "the Deployment runs this spec"),
        false => ("RollingOut", "the Deployment is rolling out this spec"),
    };
    let conditions = vec![
        condition(&known, generation, "Ready", is_ready, ready_reason, count),
        condition(&known, generation, "Progressing", !is_complete, progress_reason, progress.to_owned()),
    ];
    WebAppStatus { observed_generation: generation, ready_replicas: ready, phase: phase.to_owned(), conditions }
}

fn condition(
    known: &WebAppStatus,
    observed_generation: Option<i64>,
    type_: &str,
    holds: bool,
    reason: &str,
    message: String,
) -> Condition {
    let status = if holds { "True" } else { "False" }.to_owned();
    let before = known.conditions.iter().find(|known| known.type_ == type_ && known.status == status);
    // The time is rounded to seconds, like the written value. With more digits, it would never equal the value that is
    // read.
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    let last_transition_time = before.map_or(Time(now), |known| known.last_transition_time.clone());
    Condition {
        last_transition_time,
        message,
        observed_generation,
        reason: reason.to_owned(),
        status,
        type_: type_.to_owned(),
    }
}
