//! Validation of jobs: `pkg/apis/batch/validation/validation.go` of Kubernetes 1.36.3.

use std::collections::BTreeSet;

use serde_json::{Value, json};

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
/// The names of the tz database, which Go's `time.LoadLocation` knows.
const TIME_ZONES: &str = include_str!("../../../kubernetes/zones.txt");
const CONDITION_STATUSES: &[&str] = &["False", "True", "Unknown"];
const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];

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

/// `validatePodTemplateUpdate`: a suspended job may still be told what its containers need, and one that has not begun
/// where its pods run.
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

/// Counts of an indexed job.
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
}

/// `IsDomainPrefixedPath`.
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

fn listed(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn one_of_required(value: &Value, field: &str, allowed: &[&str], report: &mut Report) {
    if is_empty(value) {
        report.required_because(field, &listed(allowed));
    } else {
        report.one_of(field, value, allowed);
    }
}

fn failure_policy(spec: &Value, field: &str, report: &mut Report) {
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| {
        object::items(spec, &format!("/template/spec/{list}")).iter().map(|container| text(container, "/name"))
    });
    let containers: BTreeSet<&str> = containers.collect();
    for (index, rule) in object::items(spec, "/podFailurePolicy/rules").iter().enumerate() {
        let place = format!("{field}.rules[{index}]");
        if rule["action"] != "FailIndex" {
            one_of_required(&rule["action"], &format!("{place}.action"), ACTIONS, report);
        } else if spec["backoffLimitPerIndex"].is_null() {
            let why = "requires the backoffLimitPerIndex to be set";
            report.invalid(format!("{place}.action"), &rule["action"], why);
        }
        let (codes, conditions) = (&rule["onExitCodes"], object::items(rule, "/onPodConditions"));
        if codes.is_object() {
            exit_codes(codes, &format!("{place}.onExitCodes"), &containers, report);
        }
        for (index, pattern) in conditions.iter().enumerate() {
            let place = format!("{place}.onPodConditions[{index}]");
            report.qualified(&format!("{place}.type"), text(pattern, "/type"));
            one_of_required(&pattern["status"], &format!("{place}.status"), CONDITION_STATUSES, report);
        }
        let why = match (codes.is_object(), conditions.is_empty()) {
            (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        report.invalid_plainly(&place, why);
    }
}

fn exit_codes(codes: &Value, field: &str, containers: &BTreeSet<&str>, report: &mut Report) {
    one_of_required(&codes["operator"], &format!("{field}.operator"), &["In", "NotIn"], report);
    if codes["containerName"].as_str().is_some_and(|name| !containers.contains(name)) {
        let why = "must be one of the container or initContainer names in the pod template";
        report.invalid(format!("{field}.containerName"), &codes["containerName"], why);
    }
    let values = object::items(codes, "/values");
    if values.is_empty() {
        report.invalid(format!("{field}.values"), &codes["values"], "at least one value is required");
    }
    for (index, value) in values.iter().enumerate() {
        let place = format!("{field}.values[{index}]");
        if codes["operator"] == "In" && *value == json!(0) {
            report.invalid(&place, value, "must not be 0 for the In operator");
        }
        if values[..index].contains(value) {
            report.duplicate(&place, value);
        }
    }
    if !values.is_sorted_by_key(|value| value.as_i64().unwrap_or(0)) {
        report.invalid(format!("{field}.values"), &codes["values"], "must be ordered");
    }
}

/// `validateSuccessPolicy`. A list of indexes is only counted where it is well formed.
fn success_policy(spec: &Value, field: &str, report: &mut Report) {
    let policy = &spec["successPolicy"];
    if !policy.is_object() {
        return;
    }
    let rules = object::items(policy, "/rules");
    if text(spec, "/completionMode") != "Indexed" {
        let shown: Vec<String> = rules
            .iter()
            .map(|rule| {
                format!(
                    "{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}",
                    rule["succeededIndexes"], rule["succeededCount"]
                )
            })
            .collect();
        let list = if policy["rules"].is_array() { format!("[{}]", shown.join(",")) } else { "null".to_owned() };
        return report.invalid_shown(field, &format!("{{\"Rules\":{list}}}"), "requires indexed completion mode");
    }
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        report.required_because(format!("{field}.rules"), why);
    }
    let completions = spec["completions"].as_i64().unwrap_or(0);
    for (index, rule) in rules.iter().enumerate() {
        let place = format!("{field}.rules[{index}]");
        let (indexes, count) = (&rule["succeededIndexes"], &rule["succeededCount"]);
        if indexes.is_null() && count.is_null() {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            report.required_because(&place, why);
        }
        let total = indexes.as_str().map(|text| count_indexes(text, completions));
        if let Some(Err(why)) = &total {
            let why = format!("error parsing succeededIndexes: {why}");
            report.invalid(format!("{place}.succeededIndexes"), indexes, &why);
        }
        let Some(number) = count.as_i64() else { continue };
        let place = format!("{place}.succeededCount");
        report.not_negative(&place, count);
        if number > completions {
            let why = format!("must be less than or equal to {completions} (the number of specified completions)");
            report.invalid(&place, count, &why);
        }
        let total = total.map(|total| total.unwrap_or(0));
        if let Some(total) = total.filter(|total| number > *total) {
            let why = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            report.invalid(&place, count, &why);
        }
    }
}

/// `validateIndexesFormat`: intervals in ascending order.
fn count_indexes(indexes: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    let number = |text: &str| {
        text.parse::<i32>().map(i64::from).map_err(|_| format!("cannot convert string to integer for index: {text:?}"))
    };
    if indexes.is_empty() {
        return Ok(0);
    }
    for interval in indexes.split(',') {
        let limits: Vec<&str> = interval.split('-').collect();
        if limits.len() > 2 {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let first = number(limits[0])?;
        if first >= completions {
            return Err(format!("too large index: {:?}", limits[0]));
        }
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        let mut end = first;
        if let Some(text) = limits.get(1) {
            end = number(text)?;
            if end >= completions {
                return Err(format!("too large index: {text:?}"));
            }
            if first >= end {
                return Err(format!("non-increasing order, previous: {first}, current: {end}"));
            }
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
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

/// `validateTimeZone`.
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
