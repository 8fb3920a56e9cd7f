//! Jobs: runs pods until enough have succeeded or too many have failed. Follows `pkg/controller/job`, without
//! finalizers on pods, without pauses between failures, and without success and failure policies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::pod;
use super::values::{annotation, integer, set_condition};
use super::writes::{Outcome, Write, with_status};
use crate::clock::Moment;
use crate::object::{self, items, text};
use crate::resources::resource::GroupResource;

/// The annotation and label of an indexed job's pod that has its index.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) fn resource() -> GroupResource {
    GroupResource::new("batch", "jobs")
}

/// Decides what to write for a job, given its pods.
pub(super) fn look(job: &Value, pods: &[Arc<Value>], now: Moment) -> Outcome {
    if is_finished(job) {
        return after_the_end(job, now);
    }
    let run = JobRun::of(job, pods, now);
    let end = run.end();
    let mut writes = match &end {
        None if !run.is_suspended() => run.manage(),
        _ => run.active.iter().map(|pod| Write::Delete(pod::resource(), Arc::clone(pod))).collect(),
    };
    writes.push(Write::Status(resource(), with_status(job, run.status(end.as_ref()))));
    let limit = if end.is_some() { "/spec/ttlSecondsAfterFinished" } else { "/spec/activeDeadlineSeconds" };
    // One second more, because times in objects are rounded down to whole seconds.
    let again = job.pointer(limit).and_then(Value::as_u64).map(|seconds| Duration::from_secs(seconds + 1));
    Outcome { writes, again }
}

fn is_finished(job: &Value) -> bool {
    object::condition_holds(job, "Complete") || object::condition_holds(job, "Failed")
}

/// Deletes a finished job after its `ttlSecondsAfterFinished`.
fn after_the_end(job: &Value, now: Moment) -> Outcome {
    let Some(seconds) = job.pointer("/spec/ttlSecondsAfterFinished").and_then(Value::as_i64) else {
        return Outcome::default();
    };
    let finished = items(job, "/status/conditions")
        .iter()
        .filter(|condition| ["Complete", "Failed"].contains(&text(condition, "/type")))
        .find_map(|condition| now.seconds_since(text(condition, "/lastTransitionTime")));
    if finished.is_some_and(|finished| finished >= seconds) {
        return Outcome::of(vec![Write::Delete(resource(), Arc::new(job.clone()))]);
    }
    Outcome::default()
}

/// The result of a job that has ended.
struct JobEnd {
    succeeded: bool,
    reason: &'static str,
    message: &'static str,
}

/// A job with counts of its pods.
struct JobRun<'a> {
    job: &'a Value,
    pods: &'a [Arc<Value>],
    active: Vec<&'a Arc<Value>>,
    succeeded: i64,
    failed: i64,
    now: Moment,
}

impl<'a> JobRun<'a> {
    fn of(job: &'a Value, pods: &'a [Arc<Value>], now: Moment) -> JobRun<'a> {
        let count = |phase: &str| {
            let counted = pods.iter().filter(|pod| text(pod, "/status/phase") == phase).count();
            i64::try_from(counted).unwrap_or(i64::MAX)
        };
        JobRun {
            job,
            pods,
            active: pods.iter().filter(|pod| pod::is_active(pod)).collect(),
            // Deleted pods were counted when they ended.
            succeeded: count("Succeeded").max(integer(job, "/status/succeeded")),
            failed: count("Failed").max(integer(job, "/status/failed")),
            now,
        }
    }

    fn is_suspended(&self) -> bool {
        self.job.pointer("/spec/suspend") == Some(&json!(true))
    }

    fn is_indexed(&self) -> bool {
        text(self.job, "/spec/completionMode") == "Indexed"
    }

    fn completions(&self) -> Option<i64> {
        self.job.pointer("/spec/completions").and_then(Value::as_i64)
    }

    /// The result of the job. `None` if it has not ended.
    fn end(&self) -> Option<JobEnd> {
        let limit = integer(self.job, "/spec/backoffLimit");
        let restarts: i64 =
            self.active.iter().map(|pod| integer(pod, "/status/containerStatuses/0/restartCount")).sum();
        let restarts_are_failures = text(self.job, "/spec/template/spec/restartPolicy") == "OnFailure";
        if self.failed > limit || restarts_are_failures && restarts > 0 && restarts >= limit {
            let message = "Job has reached the specified backoff limit";
            return Some(JobEnd { succeeded: false, reason: "BackoffLimitExceeded", message });
        }
        let deadline = self.job.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64);
        let active = self.now.seconds_since(text(self.job, "/status/startTime"));
        if !self.is_suspended() && active.zip(deadline).is_some_and(|(active, deadline)| active >= deadline) {
            let message = "Job was active longer than specified deadline";
            return Some(JobEnd { succeeded: false, reason: "DeadlineExceeded", message });
        }
        let enough = match self.completions() {
            Some(completions) => self.succeeded >= completions,
            // Without `completions`, the job is done when a pod has succeeded and no pod is active.
            None => self.succeeded > 0 && self.active.is_empty(),
        };
        let message = "Reached expected number of succeeded pods";
        enough.then_some(JobEnd { succeeded: true, reason: "CompletionsReached", message })
    }

    /// Creates or deletes pods, so that as many run as the job allows at a time and still needs.
    fn manage(&self) -> Vec<Write> {
        let active = i64::try_from(self.active.len()).unwrap_or(i64::MAX);
        let parallelism = integer(self.job, "/spec/parallelism");
        let wanted = match self.completions() {
            Some(completions) => parallelism.min(completions - self.succeeded),
            None if self.succeeded > 0 => parallelism.min(active),
            None => parallelism,
        };
        if active > wanted {
            return pod::delete_some(&self.active, usize::try_from(active - wanted).unwrap_or_default());
        }
        let missing = usize::try_from(wanted - active).unwrap_or_default().min(pod::BURST_REPLICAS);
        let new = |index| Write::Create(pod::resource(), self.new_pod(index));
        if self.is_indexed() {
            self.free_indexes().take(missing).map(|index| new(Some(index))).collect()
        } else {
            (0..missing).map(|_| new(None)).collect()
        }
    }

    /// The indexes without an active or successful pod.
    fn free_indexes(&self) -> impl Iterator<Item = i64> {
        let taken = self.indexes(|pod| pod::is_active(pod) || text(pod, "/status/phase") == "Succeeded");
        (0..self.completions().unwrap_or_default()).filter(move |index| !taken.contains(index))
    }

    fn indexes(&self, counts: impl Fn(&Value) -> bool) -> BTreeSet<i64> {
        let index = |pod: &Arc<Value>| annotation(pod, INDEX).and_then(|index| index.parse().ok());
        self.pods.iter().filter(|pod| counts(pod)).filter_map(index).collect()
    }

    fn new_pod(&self, index: Option<i64>) -> Value {
        let mut pod = pod::from_template(self.job, &self.job["spec"]["template"]);
        let Some(index) = index else { return pod };
        let name = format!("{}-{index}", object::name(self.job));
        object::metadata_mut(&mut pod).insert("generateName".to_owned(), json!(format!("{name}-")));
        for map in ["annotations", "labels"] {
            object::map_mut(&mut pod["metadata"], map).insert(INDEX.to_owned(), json!(index.to_string()));
        }
        pod["spec"]["hostname"] = json!(name);
        pod
    }

    fn status(&self, end: Option<&JobEnd>) -> Value {
        let now = self.now.text();
        let mut conditions = items(self.job, "/status/conditions").to_vec();
        let mut status = json!({
            "succeeded": self.succeeded,
            "failed": self.failed,
            "terminating": self.pods.iter().filter(|pod| object::is_terminating(pod)).count(),
            "uncountedTerminatedPods": {},
        });
        let begun = text(self.job, "/status/startTime");
        if !self.is_suspended() {
            status["startTime"] = json!(if begun.is_empty() { now.as_str() } else { begun });
        }
        if self.is_indexed() {
            let done = self.indexes(|pod| text(pod, "/status/phase") == "Succeeded");
            status["completedIndexes"] = json!(ranges(&done));
        }
        if let Some(end) = end {
            let kinds = if end.succeeded { ["SuccessCriteriaMet", "Complete"] } else { ["FailureTarget", "Failed"] };
            for kind in kinds {
                set_condition(&mut conditions, condition(kind, "True", end.reason, end.message, &now));
            }
            if end.succeeded {
                status["completionTime"] = json!(now);
            }
            status["ready"] = json!(0);
        } else {
            self.set_suspended(&mut conditions, &now);
            status["active"] = json!(if self.is_suspended() { 0 } else { self.active.len() });
            status["ready"] = json!(self.active.iter().filter(|pod| pod::is_ready(pod)).count());
        }
        status["conditions"] = json!(conditions);
        status
    }

    fn set_suspended(&self, conditions: &mut Vec<Value>, now: &str) {
        let was_suspended = conditions.iter().any(|condition| condition["type"] == "Suspended");
        if self.is_suspended() {
            set_condition(conditions, condition("Suspended", "True", "JobSuspended", "Job suspended", now));
        } else if was_suspended {
            set_condition(conditions, condition("Suspended", "False", "JobResumed", "Job resumed", now));
        }
    }
}

fn condition(kind: &str, holds: &str, reason: &str, message: &str, now: &str) -> Value {
    json!({
        "type": kind,
        "status": holds,
        "reason": reason,
        "message": message,
        "lastProbeTime": now,
        "lastTransitionTime": now,
    })
}

/// The indexes as text, such as `0-2,5`.
fn ranges(indexes: &BTreeSet<i64>) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for &index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let text = |(first, last): &(i64, i64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_indexes_are_written_as_ranges() {
        assert_eq!(ranges(&BTreeSet::from([0, 1, 2, 5, 7, 8])), "0-2,5,7,8");
        assert_eq!(ranges(&BTreeSet::new()), "");
    }
}
