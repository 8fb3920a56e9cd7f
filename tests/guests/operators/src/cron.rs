//! Creates Jobs on a schedule, as the controller of `CronJobs` does. It supports only schedules of the form `*/N * * *
//! *`.

use serde_json::{Value, json};
use windlass_sdk::manifest::{Controller, Watch};
use windlass_sdk::{ApiReason, Failures, ObjectRef, Outcome, cache, clock, writes};

use crate::jobs::job;
use crate::{Object, time};

const MINUTE_SECONDS: u64 = 60;
/// The number of finished Jobs to keep, unless the object sets it.
const HISTORY: u64 = 3;

pub(crate) fn controller() -> Controller {
    Controller::new("cron", Watch::of("batch/v1", "CronJob")).owns(Watch::of("batch/v1", "Job"))
}

pub(crate) fn reconcile(object: &Object) -> Result<Outcome, Failures> {
    prune(object)?;
    let minutes = object.spec["schedule"].as_str().and_then(|it| it.strip_prefix("*/")?.strip_suffix(" * * * *"));
    let Some(period) = minutes.and_then(|minutes| minutes.parse::<u64>().ok()).map(|minutes| minutes * MINUTE_SECONDS)
    else {
        return Err(Failures::terminal("the schedule is not of the form */N * * * *"));
    };
    if object.spec["suspend"] == true {
        return Ok(Outcome::Done);
    }
    let metadata = &object.metadata;
    let last = object.status["lastScheduleTime"].as_str().unwrap_or(&metadata.creation_timestamp);
    let now = clock::now();
    // If several times were missed, only the last one is made up for.
    let due = u64::from(now.seconds) / period * period;
    if due > time::seconds(last) {
        let name = format!("{}-{}", metadata.name, due / MINUTE_SECONDS);
        let mut job = job(&json!({"name": name, "namespace": metadata.namespace}), &Value::Null);
        job["spec"] = object.spec["jobTemplate"]["spec"].clone();
        match writes::create(&job).owned().send() {
            Err(error) if !error.is(ApiReason::AlreadyExists) => return Err(error.into()),
            _ => {}
        }
        let own = ObjectRef::namespaced("batch/v1", "CronJob", &metadata.namespace, &metadata.name);
        writes::apply_status(&own, &json!({"lastScheduleTime": now.to_string()})).send()?;
    }
    Ok(time::again_at(due + period))
}

/// Deletes the oldest finished Jobs.
fn prune(object: &Object) -> Result<(), Failures> {
    let kept = object.spec["successfulJobsHistoryLimit"].as_u64().unwrap_or(HISTORY);
    let mut finished = Vec::new();
    for job in cache::list("batch/v1", "Job").owned().iter::<Object>() {
        let job = job?;
        if !job.status["completionTime"].is_null() {
            finished.push(job.metadata.name);
        }
    }
    finished.sort();
    let more = finished.len().saturating_sub(usize::try_from(kept).unwrap_or(usize::MAX));
    for name in &finished[..more] {
        writes::delete(ObjectRef::namespaced("batch/v1", "Job", &object.metadata.namespace, name)).send()?;
    }
    Ok(())
}
