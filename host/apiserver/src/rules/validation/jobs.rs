//! Validates jobs, like `pkg/apis/batch/validation/validation.go` of Kubernetes 1.36.3.

use serde_json::{Value, json};

use super::job_policies::{failure_policy, success_policy};
use super::pods;
use super::report::{Report, selects};
use super::table::{self, Check, FieldRule, is_empty};
use crate::object::{self, names, text};

const TEMPLATE: &str = "spec.template";
const SPEC: &[FieldRule] = &[
    ("parallelism", Check::NotNegative),
    ("completions", Check::NotNegative),
    ("activeDeadlineSeconds", Check::NotNegative),
    ("backoffLimit", Check::NotNegative),
    ("ttlSecondsAfterFinished", Check::NotNegative),
    ("backoffLimitPerIndex", Check::NotNegative),
    ("maxFailedIndexes", Check::NotNegative),
    ("completionMode", Check::OneOf(&["NonIndexed", "Indexed"])),
];
/// The time zones of the tz database that Go's `time.LoadLocation` knows.
const TIME_ZONES: &str = include_str!("../../../kubernetes/zones.txt");
/// If a job with a backoff limit per index has more completions than this, stricter limits apply.
const COMPLETIONS_SOFT_LIMIT: i64 = 100_000;
const HIGH_COMPLETIONS_PARALLELISM_MAX: i64 = 10_000;

pub(super) fn job(object: &Value, previous: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    job_spec(spec, "spec", report);
    if spec["selector"].is_null() {
        if spec["manualSelector"] == json!(true) || previous.is_some() {
            report.required("spec.selector");
            mismatch(spec, report);
        }
    } else {
        report.selector("spec.selector", &spec["selector"]);
        if super::report::is_selector(&spec["selector"])
            && !selects(&spec["selector"], &spec["template"]["metadata"]["labels"])
        {
            mismatch(spec, report);
        }
    }
    let Some(before) = previous else { return };
    let paths =
        ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];
    for path in paths {
        report.immutable(&format!("spec.{path}"), object, previous);
    }
    template_update(object, before, report);
    let (now, was) = (&spec["completions"], &before["spec"]["completions"]);
    if text(spec, "/completionMode") != "Indexed" {
        report.immutable("spec.completions", object, previous);
    } else if now != was && !now.is_null() && *now != spec["parallelism"] {
        report.invalid("spec.completions", now, "can only be modified in tandem with spec.parallelism");
    }
}

fn mismatch(spec: &Value, report: &mut Report) {
    let labels = &spec["template"]["metadata"]["labels"];
    report.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`");
}

/// Validates a change of the template, like `validatePodTemplateUpdate`. The containers' resources of a suspended job
/// may change. If the job has not begun yet, the fields that decide where its pods run may change, too.
fn template_update(object: &Value, before: &Value, report: &mut Report) {
    let is_suspended = before["spec"]["suspend"] == json!(true);
    if !is_suspended {
        return report.immutable(TEMPLATE, object, Some(before));
    }
    let has_begun = !before["status"]["startTime"].is_null();
    let strip = |object: &Value| {
        let mut pod = object["spec"]["template"]["spec"].clone();
        for list in ["containers", "initContainers"] {
            let containers = pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            for container in containers.filter_map(Value::as_object_mut) {
                container.remove("resources");
            }
        }
        if !has_begun && let Some(pod) = pod.as_object_mut() {
            for name in ["nodeSelector", "tolerations", "schedulingGates"] {
                pod.remove(name);
            }
            if let Some(affinity) = pod.get_mut("affinity").and_then(Value::as_object_mut) {
                affinity.remove("nodeAffinity");
            }
            if pod.get("affinity").is_some_and(is_empty) {
                pod.remove("affinity");
            }
        }
        pod
    };
    if strip(object) != strip(before) {
        let field = "spec.template.spec";
        report.invalid(field, &object["spec"]["template"]["spec"], "field is immutable");
    }
}

fn job_spec(spec: &Value, field: &str, report: &mut Report) {
    table::check(SPEC, spec, field, report);
    indexes(spec, field, report);
    managed_by(spec, field, report);
    let (replacement, failure) = (&spec["podReplacementPolicy"], &spec["podFailurePolicy"]);
    let policies: &[&str] = if failure.is_object() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    report.one_of(&format!("{field}.podReplacementPolicy"), replacement, policies);
    if failure.is_object() {
        failure_policy(spec, &format!("{field}.podFailurePolicy"), report);
    }
    success_policy(spec, &format!("{field}.successPolicy"), report);
    pods::template(&spec["template"], &format!("{field}.template"), report);
    let policy = &spec["template"]["spec"]["restartPolicy"];
    let place = format!("{field}.template.spec.restartPolicy");
    match policy.as_str().unwrap_or_default() {
        "Always" | "" => report.required_because(place, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if failure.is_object() => {
            report.invalid(place, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        _ => report.not_supported(place, policy, &["OnFailure", "Never"]),
    }
}

/// Validates the fields of indexed jobs.
fn indexes(spec: &Value, field: &str, report: &mut Report) {
    let (per_index, failed) = (&spec["backoffLimitPerIndex"], &spec["maxFailedIndexes"]);
    if !failed.is_null() && per_index.is_null() {
        report.required_because(format!("{field}.backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    let is_indexed = text(spec, "/completionMode") == "Indexed";
    if ["NonIndexed"].contains(&text(spec, "/completionMode")) || spec["completionMode"].is_null() {
        for (name, value) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)] {
            if !value.is_null() {
                report.invalid(format!("{field}.{name}"), value, "requires indexed completion mode");
            }
        }
    }
    if !is_indexed {
        return;
    }
    let completions = spec["completions"].as_i64();
    if completions.is_none() {
        report.required_because(format!("{field}.completions"), "when completion mode is Indexed");
    }
    if spec["parallelism"].as_i64().is_some_and(|count| count > 100_000) {
        let why = "must be less than or equal to 100000 when completion mode is Indexed";
        report.invalid(format!("{field}.parallelism"), &spec["parallelism"], why);
    }
    if failed.as_i64().is_some_and(|failed| completions.is_some_and(|completions| failed > completions)) {
        report.invalid(format!("{field}.maxFailedIndexes"), failed, "must be less than or equal to completions");
    }
    if failed.as_i64().is_some_and(|failed| failed > 100_000) {
        report.invalid(format!("{field}.maxFailedIndexes"), failed, "must be less than or equal to 100000");
    }
    if completions.is_some_and(|completions| completions > COMPLETIONS_SOFT_LIMIT) && !per_index.is_null() {
        high_completions(spec, field, report);
    }
}

/// Checks the stricter limits for a job with many completions and a backoff limit per index.
fn high_completions(spec: &Value, field: &str, report: &mut Report) {
    if spec["maxFailedIndexes"].is_null() {
        let why = format!("must be specified when completions is above {COMPLETIONS_SOFT_LIMIT}");
        report.required_because(format!("{field}.maxFailedIndexes"), &why);
    }
    for name in ["parallelism", "maxFailedIndexes"] {
        if spec[name].as_i64().is_some_and(|count| count > HIGH_COMPLETIONS_PARALLELISM_MAX) {
            let why = format!(
                "must be less than or equal to {HIGH_COMPLETIONS_PARALLELISM_MAX} when completions are above \
                 {COMPLETIONS_SOFT_LIMIT} and used with backoff limit per index"
            );
            report.invalid(format!("{field}.{name}"), &spec[name], &why);
        }
    }
}

/// Checks `managedBy`, like `IsDomainPrefixedPath`.
fn managed_by(spec: &Value, field: &str, report: &mut Report) {
    let (value, place) = (&spec["managedBy"], format!("{field}.managedBy"));
    let Some(path) = value.as_str() else { return };
    if path.len() > 63 {
        report.too_long(&place, 63);
    }
    if path.is_empty() {
        return report.required(place);
    }
    match path.split_once('/') {
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            if let Err(why) = names::check_subdomain(host) {
                report.invalid(place, &json!(host), &why);
            }
        }
        _ => report.invalid(place, value, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

pub(super) fn cron_job(object: &Value, previous: Option<&Value>, report: &mut Report) {
    let name = object::name(object);
    if name.len() > 52 && previous.is_none() {
        report.invalid("metadata.name", &json!(name), "must be no more than 52 characters");
    }
    let spec = &object["spec"];
    let job = &spec["jobTemplate"]["spec"];
    job_spec(job, "spec.jobTemplate.spec", report);
    if job["selector"].is_object() {
        report.invalid("spec.jobTemplate.spec.selector", &job["selector"], "`selector` will be auto-generated");
    }
    if job["manualSelector"] == json!(true) {
        report.not_supported("spec.jobTemplate.spec.manualSelector", &json!(true), &["nil", "false"]);
    }
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
    if previous.is_none_or(|previous| previous["spec"]["timeZone"] != spec["timeZone"]) {
        time_zone(&spec["timeZone"], report);
    }
}

/// Checks a time zone, like `validateTimeZone`.
fn time_zone(zone: &Value, report: &mut Report) {
    let field = "spec.timeZone";
    let Some(name) = zone.as_str() else { return };
    if name.is_empty() {
        return report.invalid(field, zone, "timeZone must be nil or non-empty string");
    }
    let is_character = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    let is_part = |part: &str| {
        let is_short = (1..=14).contains(&part.len());
        is_short && part != "." && part != ".." && !part.starts_with('-') && part.bytes().all(is_character)
    };
    let unknown = format!("unknown time zone {name}");
    if !name.split('/').all(is_part) {
        return report.invalid(field, zone, &unknown);
    }
    if name.eq_ignore_ascii_case("local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        report.invalid(field, zone, why);
    }
    if name != "Local" && !TIME_ZONES.lines().any(|known| known == name) {
        report.invalid(field, zone, &unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_with_many_completions_has_stricter_limits() {
        let messages = |spec: Value| {
            let mut report = Report::default();
            indexes(&spec, "spec", &mut report);
            report.0.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect::<Vec<_>>()
        };
        let spec = |completions: u32, parallelism: u32, failed: Option<u32>| {
            json!({
                "completionMode": "Indexed",
                "completions": completions,
                "parallelism": parallelism,
                "backoffLimitPerIndex": 1,
                "maxFailedIndexes": failed,
            })
        };
        assert_eq!(messages(spec(100_000, 10_001, None)), [""; 0]);
        assert_eq!(messages(spec(100_001, 10_000, Some(10_000))), [""; 0]);
        let why = "must be specified when completions is above 100000";
        assert_eq!(messages(spec(100_001, 1, None)), [format!("spec.maxFailedIndexes: Required value: {why}")]);
        let why = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit \
                   per index";
        assert_eq!(
            messages(spec(100_001, 10_001, Some(10_001))),
            ["parallelism", "maxFailedIndexes"].map(|name| format!("spec.{name}: Invalid value: 10001: {why}"))
        );
    }
}
