//! Validates the failure and success policies of jobs, like `pkg/apis/batch/validation/validation.go` of Kubernetes
//! 1.36.3.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Value, json};

use super::report::Report;
use super::table::is_empty;
use crate::object::{self, text};

const CONDITION_STATUSES: &[&str] = &["False", "True", "Unknown"];
const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
/// The most rules of a policy, and the most conditions of a rule.
const POLICY_RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const SUCCEEDED_INDEXES_BYTES_MAX: usize = 64 * 1024;

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

pub(super) fn failure_policy(spec: &Value, field: &str, report: &mut Report) {
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| {
        object::items(spec, &format!("/template/spec/{list}")).iter().map(|container| text(container, "/name"))
    });
    let containers: BTreeSet<&str> = containers.collect();
    let rules = object::items(spec, "/podFailurePolicy/rules");
    at_most(POLICY_RULES_MAX, rules, &format!("{field}.rules"), report);
    for (index, rule) in rules.iter().enumerate() {
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
        at_most(POLICY_RULES_MAX, conditions, &format!("{place}.onPodConditions"), report);
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

fn at_most(most: usize, list: &[Value], field: &str, report: &mut Report) {
    if list.len() > most {
        report.too_many(field, list.len(), most);
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
    at_most(EXIT_CODES_MAX, values, &format!("{field}.values"), report);
    let mut seen = HashSet::new();
    for (index, value) in values.iter().enumerate() {
        let place = format!("{field}.values[{index}]");
        if codes["operator"] == "In" && *value == json!(0) {
            report.invalid(&place, value, "must not be 0 for the In operator");
        }
        if !seen.insert(value) {
            report.duplicate(&place, value);
        }
    }
    if !values.is_sorted_by_key(|value| value.as_i64().unwrap_or(0)) {
        report.invalid(format!("{field}.values"), &codes["values"], "must be ordered");
    }
}

/// Validates a success policy, like `validateSuccessPolicy`. Indexes are counted only if their list is well-formed.
pub(super) fn success_policy(spec: &Value, field: &str, report: &mut Report) {
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
    at_most(POLICY_RULES_MAX, rules, &format!("{field}.rules"), report);
    let completions = spec["completions"].as_i64().unwrap_or(0);
    for (index, rule) in rules.iter().enumerate() {
        let place = format!("{field}.rules[{index}]");
        let (indexes, count) = (&rule["succeededIndexes"], &rule["succeededCount"]);
        if indexes.is_null() && count.is_null() {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            report.required_because(&place, why);
        }
        if indexes.as_str().is_some_and(|text| text.len() > SUCCEEDED_INDEXES_BYTES_MAX) {
            report.too_long(&format!("{place}.succeededIndexes"), SUCCEEDED_INDEXES_BYTES_MAX);
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

/// Checks a list of indexes and counts them, like `validateIndexesFormat`. The list has intervals in ascending order.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(check: fn(&Value, &str, &mut Report), spec: &Value) -> Vec<String> {
        let mut report = Report::default();
        check(spec, "p", &mut report);
        report.0.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn a_failure_policy_has_limits() {
        let policy = |rules: usize, codes: i32, conditions: usize| {
            let codes: Vec<i32> = (1..=codes).collect();
            let on_codes = json!({ "action": "Ignore", "onExitCodes": { "operator": "In", "values": codes } });
            let conditions = vec![json!({ "type": "T", "status": "True" }); conditions];
            let mut list = vec![on_codes; rules - 1];
            list.push(json!({ "action": "Ignore", "onPodConditions": conditions }));
            messages(failure_policy, &json!({ "podFailurePolicy": { "rules": list } }))
        };
        assert_eq!(policy(20, 255, 20), [""; 0]);
        assert_eq!(policy(21, 1, 1), ["p.rules: Too many: 21: must have at most 20 items"]);
        assert_eq!(policy(2, 256, 1), ["p.rules[0].onExitCodes.values: Too many: 256: must have at most 255 items"]);
        assert_eq!(policy(2, 1, 21), ["p.rules[1].onPodConditions: Too many: 21: must have at most 20 items"]);
    }

    #[test]
    fn a_success_policy_has_limits() {
        let policy = |rules: usize, indexes: &str| {
            let rules = vec![json!({ "succeededIndexes": indexes }); rules];
            let spec = json!({
                "completionMode": "Indexed",
                "completions": 100_000,
                "successPolicy": { "rules": rules },
            });
            messages(success_policy, &spec)
        };
        assert_eq!(policy(20, "0,2-3"), [""; 0]);
        assert_eq!(policy(21, "0"), ["p.rules: Too many: 21: must have at most 20 items"]);
        let long: Vec<String> = (0..20_000).map(|index| index.to_string()).collect();
        assert_eq!(
            policy(1, &long.join(",")),
            ["p.rules[0].succeededIndexes: Too long: may not be more than 65536 bytes"]
        );
    }
}
