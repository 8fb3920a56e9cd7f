//! Validation of what runs pods: Deployments and their kin, and jobs.

use serde_json::{Value, json};

use super::metadata::annotations;
use super::pods;
use super::report::{Report, is_empty_selector, selects};
use crate::object::{self, text};

const TEMPLATE: &str = "spec.template";

/// Deployments, replica sets, stateful sets and daemon sets. `kind` is the name of the kind.
pub(super) fn workload(kind: &str, object: &Value, previous: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    report.none_negative("spec", spec, &["replicas"]);
    if let (Some(previous), "StatefulSet") = (previous, kind) {
        stateful_set_update(object, previous, report);
    }
    let what = match kind {
        "StatefulSet" => "statefulset",
        "DaemonSet" => "daemonset",
        _ => "deployment",
    };
    selector(spec, Some(what), report);
    template(spec, report);
    if text(spec, "/template/spec/restartPolicy") != "Always" && !text(spec, "/template/spec/restartPolicy").is_empty()
    {
        report.not_supported(
            "spec.template.spec.restartPolicy",
            &spec["template"]["spec"]["restartPolicy"],
            &["Always"],
        );
    }
    match kind {
        "Deployment" => strategy(spec, report),
        "StatefulSet" => stateful_set(spec, report),
        "DaemonSet" => update_strategy(spec, report),
        _ => {}
    }
    report.none_negative("spec", spec, &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"]);
    let (deadline, ready) = (&spec["progressDeadlineSeconds"], spec["minReadySeconds"].as_i64().unwrap_or(0));
    if deadline.as_i64().is_some_and(|deadline| deadline >= 0 && deadline <= ready) {
        report.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds");
    }
    if kind != "StatefulSet" {
        report.immutable("spec.selector", object, previous);
    }
}

/// A selector must be there, say something, and select the pods of the template.
fn selector(spec: &Value, whose: Option<&str>, report: &mut Report) {
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    let mismatch = "`selector` does not match template `labels`";
    if selector.is_null() {
        report.required("spec.selector");
        // No selector selects nothing, so it does not match the template either.
        report.invalid("spec.template.metadata.labels", labels, mismatch);
        return;
    }
    let before = report.0.len();
    report.selector("spec.selector", selector);
    if report.0.len() > before {
        report.invalid("spec.selector", selector, "invalid label selector");
    } else if let (true, Some(whose)) = (is_empty_selector(selector), whose) {
        report.invalid("spec.selector", selector, &format!("empty selector is invalid for {whose}"));
    } else if !selects(selector, labels) {
        report.invalid("spec.template.metadata.labels", labels, mismatch);
    }
}

fn template(spec: &Value, report: &mut Report) {
    report.labels(&format!("{TEMPLATE}.labels"), &spec["template"]["metadata"]["labels"]);
    annotations(&spec["template"]["metadata"]["annotations"], &format!("{TEMPLATE}.annotations"), &mut report.0);
    pods::spec(&spec["template"]["spec"], "spec.template.spec", report);
}

fn strategy(spec: &Value, report: &mut Report) {
    let strategy = &spec["strategy"];
    let kind = text(strategy, "/type");
    let rolling = &strategy["rollingUpdate"];
    match kind {
        "RollingUpdate" => rolling_update(rolling, "spec.strategy.rollingUpdate", report),
        "Recreate" if rolling.is_object() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            report.forbidden("spec.strategy.rollingUpdate", why);
        }
        "Recreate" => {}
        _ => report.not_supported_shown("spec.strategy", &internal(strategy, SURGE), &["Recreate", "RollingUpdate"]),
    }
}

/// The parameters of the strategy of a Deployment and of a `DaemonSet`: each field, its name in the server's own type, and what stands
/// there if nothing is given.
const SURGE: [(&str, &str, &str); 2] = [("maxUnavailable", "MaxUnavailable", "0"), ("maxSurge", "MaxSurge", "0")];
/// Those of a `StatefulSet`.
const PARTITION: [(&str, &str, &str); 2] =
    [("partition", "Partition", "0"), ("maxUnavailable", "MaxUnavailable", "null")];

/// A strategy as the server's own types print it, in their order.
fn internal(strategy: &Value, parameters: [(&str, &str, &str); 2]) -> String {
    let kind = json!(text(strategy, "/type"));
    let Some(rolling) = strategy["rollingUpdate"].as_object() else {
        return format!("{{\"Type\":{kind},\"RollingUpdate\":null}}");
    };
    let shown = parameters.map(|(field, name, nothing)| {
        let value = rolling.get(field).map_or_else(|| nothing.to_owned(), Value::to_string);
        format!("\"{name}\":{value}")
    });
    format!("{{\"Type\":{kind},\"RollingUpdate\":{{{}}}}}", shown.join(","))
}

fn rolling_update(rolling: &Value, place: &str, report: &mut Report) {
    for name in ["maxUnavailable", "maxSurge"] {
        report.int_or_percent(&format!("{place}.{name}"), &rolling[name]);
    }
    let is_zero = |value: &Value| *value == json!(0) || *value == json!("0%");
    if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
        report.invalid(
            format!("{place}.maxUnavailable"),
            &rolling["maxUnavailable"],
            "may not be 0 when `maxSurge` is 0",
        );
    }
}

fn stateful_set(spec: &Value, report: &mut Report) {
    let policy = &spec["podManagementPolicy"];
    if !["OrderedReady", "Parallel"].contains(&policy.as_str().unwrap_or_default()) {
        report.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'");
    }
    let kind = text(spec, "/updateStrategy/type");
    if !["RollingUpdate", "OnDelete"].contains(&kind) {
        let shown = internal(&spec["updateStrategy"], PARTITION);
        report.invalid_shown("spec.updateStrategy", &shown, "must be 'RollingUpdate' or 'OnDelete'");
    }
}

fn update_strategy(spec: &Value, report: &mut Report) {
    let kind = text(spec, "/updateStrategy/type");
    match kind {
        "RollingUpdate" => {
            let place = "spec.updateStrategy.rollingUpdate";
            for name in ["maxUnavailable", "maxSurge"] {
                report.int_or_percent(&format!("{place}.{name}"), &spec["updateStrategy"]["rollingUpdate"][name]);
            }
        }
        "OnDelete" => {}
        _ => {
            let shown = internal(&spec["updateStrategy"], SURGE);
            report.not_supported_shown("spec.updateStrategy", &shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

fn stateful_set_update(object: &Value, previous: &Value, report: &mut Report) {
    let strip = |object: &Value| {
        let mut spec = object["spec"].clone();
        let free = [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ];
        if let Some(spec) = spec.as_object_mut() {
            spec.retain(|name, _| !free.contains(&name.as_str()));
        }
        spec
    };
    if strip(object) != strip(previous) {
        report.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
}

/// A replication controller selects by a plain map.
pub(super) fn replication_controller(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    report.none_negative("spec", spec, &["replicas", "minReadySeconds"]);
    let selector = spec["selector"].as_object();
    if selector.is_none_or(serde_json::Map::is_empty) {
        report.required("spec.selector");
    }
    if !spec["template"].is_object() {
        report.required(TEMPLATE);
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if !selector.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value)) {
        report.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`");
    }
    template(spec, report);
}

pub(super) fn job(object: &Value, previous: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    job_spec(spec, "spec", report);
    if spec["manualSelector"] == json!(true) {
        selector(spec, None, report);
    }
    if previous.is_some() {
        let indexed = text(spec, "/completionMode") == "Indexed";
        for path in
            ["spec.selector", TEMPLATE, "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex"]
        {
            // A job that has not begun may still be told how its pods run.
            let may_change =
                path == TEMPLATE && previous.is_some_and(|previous| previous["spec"]["suspend"] == json!(true));
            if !may_change {
                report.immutable(path, object, previous);
            }
        }
        if !indexed {
            report.immutable("spec.completions", object, previous);
        }
    }
}

fn job_spec(spec: &Value, field: &str, report: &mut Report) {
    let numbers = ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"];
    report.none_negative(field, spec, &numbers);
    report.one_of(&format!("{field}.completionMode"), &spec["completionMode"], &["NonIndexed", "Indexed"]);
    let policies = ["Failed", "TerminatingOrFailed"];
    report.one_of(&format!("{field}.podReplacementPolicy"), &spec["podReplacementPolicy"], &policies);
    let pod = &spec["template"]["spec"];
    let place = format!("{field}.template.spec");
    pods::spec(pod, &place, report);
    if matches!(text(pod, "/restartPolicy"), "Always" | "") {
        report.required_because(format!("{place}.restartPolicy"), "valid values: \"OnFailure\", \"Never\"");
    }
}

pub(super) fn cron_job(object: &Value, report: &mut Report) {
    let name = object::name(object);
    if name.len() > 52 {
        report.invalid("metadata.name", &json!(name), "must be no more than 52 characters");
    }
    let spec = &object["spec"];
    job_spec(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec", report);
    let schedule = text(spec, "/schedule");
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if schedule.is_empty() {
        report.required("spec.schedule");
    } else if !schedule.starts_with('@') && fields.len() != 5 {
        let why = format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" "));
        report.invalid("spec.schedule", &spec["schedule"], &why);
    }
    let numbers = ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    report.none_negative("spec", spec, &numbers);
    report.one_of("spec.concurrencyPolicy", &spec["concurrencyPolicy"], &["Allow", "Forbid", "Replace"]);
}
