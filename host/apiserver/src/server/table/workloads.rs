//! Cells of workloads, of autoscalers, and of a few similar kinds.

use serde_json::Value;

use crate::clock::{Moment, human_duration};
use crate::object::{self, condition_holds, items, text};
use crate::verbs::scale::selector_text;

/// The most metrics that a cell shows.
const SHOWN_METRICS_MAX: usize = 2;

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// The numbers of ready and of desired pods.
pub(super) fn ready(object: &Value) -> String {
    format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"))
}

/// The selector of a Deployment, which has another form than the selectors of other kinds.
pub(super) fn deployment_selector(deployment: &Value) -> String {
    deployment.pointer("/spec/selector").map(selector_text).unwrap_or_default()
}

/// The controller of a revision.
pub(super) fn controller(revision: &Value) -> String {
    let owner = items(revision, "/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
    let Some(owner) = owner else { return "<none>".to_owned() };
    let group = text(owner, "/apiVersion").split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
    format!("{}/{}", format!("{}{group}", text(owner, "/kind")).to_lowercase(), text(owner, "/name"))
}

pub(super) fn suspended(job: &Value) -> String {
    match job.pointer("/spec/suspend").and_then(Value::as_bool) {
        None => "<unset>",
        Some(true) => "True",
        Some(false) => "False",
    }
    .to_owned()
}

pub(super) fn last_schedule(job: &Value, now: Moment) -> String {
    match text(job, "/status/lastScheduleTime") {
        "" => "<none>".to_owned(),
        moment => now.age(moment),
    }
}

pub(super) fn job_state(job: &Value) -> String {
    let holds = |kind: &&str| condition_holds(job, kind);
    let of = |kinds: &[&'static str]| kinds.iter().copied().find(|kind| holds(kind));
    let state = of(&["Complete", "Failed"])
        .or_else(|| object::is_terminating(job).then_some("Terminating"))
        .or_else(|| of(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]));
    state.unwrap_or("Running").to_owned()
}

/// The numbers of succeeded and of required pods of a job.
pub(super) fn completions(job: &Value) -> String {
    let done = number(job, "/status/succeeded");
    match job.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{done}/{wanted}"),
        None if number(job, "/spec/parallelism") > 1 => format!("{done}/1 of {}", number(job, "/spec/parallelism")),
        None => format!("{done}/1"),
    }
}

/// How long a job has been running. For a finished job, how long it ran.
pub(super) fn job_duration(job: &Value, now: Moment) -> String {
    match (text(job, "/status/startTime"), text(job, "/status/completionTime")) {
        ("", _) => String::new(),
        (start, "") => now.age(start),
        (start, end) => {
            let seconds = now.seconds_since(start).zip(now.seconds_since(end)).map(|(start, end)| start - end);
            seconds.map(human_duration).unwrap_or_default()
        }
    }
}

/// The requested validity of a certificate.
pub(super) fn requested_duration(request: &Value) -> String {
    let seconds = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
    seconds.map_or_else(|| "<none>".to_owned(), human_duration)
}

/// The object that an autoscaler scales.
pub(super) fn scale_target(scaler: &Value) -> String {
    format!("{}/{}", text(scaler, "/spec/scaleTargetRef/kind"), text(scaler, "/spec/scaleTargetRef/name"))
}

/// The metrics of an autoscaler: the current and the target values.
pub(super) fn metrics(scaler: &Value) -> String {
    if let Some(target) = scaler.pointer("/spec/targetCPUUtilizationPercentage").and_then(Value::as_i64) {
        let current = scaler.pointer("/status/currentCPUUtilizationPercentage").and_then(Value::as_i64);
        return format!("cpu: {}/{target}%", current.map_or("<unknown>".to_owned(), |current| format!("{current}%")));
    }
    let (wanted, found) = (items(scaler, "/spec/metrics"), items(scaler, "/status/currentMetrics"));
    let all: Vec<String> =
        wanted.iter().enumerate().map(|(index, metric)| one_metric(metric, found.get(index))).collect();
    match all.len() {
        0 => "<none>".to_owned(),
        count if count > SHOWN_METRICS_MAX => {
            format!("{} + {} more...", all[..SHOWN_METRICS_MAX].join(", "), count - SHOWN_METRICS_MAX)
        }
        _ => all.join(", "),
    }
}

fn one_metric(metric: &Value, status: Option<&Value>) -> String {
    let kind = text(metric, "/type");
    let source = match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = |key: &str| amount(metric.pointer(&format!("/{source}/target/{key}")));
    let current = |key: &str| {
        let found = status.and_then(|status| amount(status.pointer(&format!("/{source}/current/{key}"))));
        found.unwrap_or_else(|| "<unknown>".to_owned())
    };
    let name = match kind {
        "Resource" | "ContainerResource" => format!("{}: ", text(&metric[source], "/name")),
        _ => String::new(),
    };
    match (target("averageValue"), kind) {
        (Some(target), "External" | "Object") => format!("{}/{target} (avg)", current("averageValue")),
        (Some(target), _) => format!("{name}{}/{target}", current("averageValue")),
        (None, "Resource" | "ContainerResource") => {
            let percent = |found: String| if found.starts_with('<') { found } else { format!("{found}%") };
            let target = target("averageUtilization").unwrap_or_else(|| "<auto>".to_owned());
            format!("{name}{}/{}", percent(current("averageUtilization")), percent(target))
        }
        (None, _) => format!("{}/{}", current("value"), target("value").unwrap_or_else(|| "0".to_owned())),
    }
}

fn amount(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_autoscaler_shows_current_and_target_values() {
        let cpu = json!({ "type": "Resource", "resource": { "name": "cpu", "target": { "averageUtilization": 80 } } });
        let queue = json!({ "type": "External", "external": { "target": { "averageValue": "30" } } });
        let found = json!({ "type": "Resource", "resource": { "current": { "averageUtilization": 50 } } });
        let scaler = |wanted: Value, found: Value| {
            metrics(&json!({ "spec": { "metrics": wanted }, "status": { "currentMetrics": found } }))
        };
        assert_eq!(scaler(json!([cpu]), json!([])), "cpu: <unknown>/80%");
        assert_eq!(scaler(json!([cpu, queue]), json!([found])), "cpu: 50%/80%, <unknown>/30 (avg)");
        assert_eq!(scaler(json!([cpu, cpu, queue]), json!([])), "cpu: <unknown>/80%, cpu: <unknown>/80% + 1 more...");
        assert_eq!(metrics(&json!({ "spec": { "targetCPUUtilizationPercentage": 70 } })), "cpu: <unknown>/70%");
    }

    #[test]
    fn a_job_shows_its_completions_and_state() {
        let job = |spec: Value| json!({ "spec": spec, "status": { "succeeded": 1 } });
        assert_eq!(completions(&job(json!({ "completions": 3 }))), "1/3");
        assert_eq!(completions(&job(json!({ "parallelism": 2 }))), "1/1 of 2");
        let conditions = json!([{ "type": "Suspended", "status": "True" }, { "type": "Failed", "status": "True" }]);
        assert_eq!(job_state(&json!({ "status": { "conditions": conditions } })), "Failed");
        assert_eq!(job_state(&json!({})), "Running");
    }
}
