//! Validates the rules about where a pod may run, like `validateAffinity`, `ValidateTolerations` and
//! `validateTopologySpreadConstraints` in `pkg/apis/core/validation/validation.go` of Kubernetes 1.36.3.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::super::report::Report;
use super::super::table::{self, Check, FieldRule};
use crate::object::{self, names, text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT: Check = Check::RangeOr(1, 100, "must be in the range 1-100");
const TERM: &[FieldRule] = &[("labelSelector", Check::Selector), ("namespaceSelector", Check::Selector)];
const SPREAD: &[FieldRule] = &[
    ("topologyKey", Check::RequiredBecause("can not be empty")),
    ("whenUnsatisfiable", Check::Either(&["DoNotSchedule", "ScheduleAnyway"])),
    ("minDomains", Check::RangeOr(1, i64::MAX, "must be greater than zero")),
    ("nodeAffinityPolicy", Check::OneOf(&["Honor", "Ignore"])),
    ("nodeTaintsPolicy", Check::OneOf(&["Honor", "Ignore"])),
    ("labelSelector", Check::Selector),
];
pub(in super::super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Validates all rules of a pod about nodes and other pods.
pub(super) fn check(pod: &Value, field: &str, report: &mut Report) {
    affinity(&pod["affinity"], &format!("{field}.affinity"), report);
    tolerations(&pod["tolerations"], &format!("{field}.tolerations"), report);
    spread(pod, field, report);
}

fn affinity(affinity: &Value, field: &str, report: &mut Report) {
    let node = &affinity["nodeAffinity"];
    let place = format!("{field}.nodeAffinity");
    if node[REQUIRED].is_object() {
        node_selector(&node[REQUIRED], &format!("{place}.{REQUIRED}"), report);
    }
    for (index, term) in object::items(node, &format!("/{PREFERRED}")).iter().enumerate() {
        let place = format!("{place}.{PREFERRED}[{index}]");
        weight(term, &place, report);
        node_term(&term["preference"], &format!("{place}.preference"), false, report);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (pods, place) = (&affinity[kind], format!("{field}.{kind}"));
        for (index, term) in object::items(pods, &format!("/{REQUIRED}")).iter().enumerate() {
            pod_term(term, &format!("{place}.{REQUIRED}[{index}]"), report);
        }
        for (index, term) in object::items(pods, &format!("/{PREFERRED}")).iter().enumerate() {
            let place = format!("{place}.{PREFERRED}[{index}]");
            weight(term, &place, report);
            pod_term(&term["podAffinityTerm"], &format!("{place}.podAffinityTerm"), report);
        }
    }
}

fn weight(term: &Value, place: &str, report: &mut Report) {
    // A missing weight counts as 0.
    let given = json!({ "weight": term["weight"].as_i64().unwrap_or(0) });
    table::check(&[("weight", WEIGHT)], &given, place, report);
}

/// Validates a node selector, like `ValidateNodeSelector`. Persistent volumes have one, too.
pub(in super::super) fn node_selector(selector: &Value, field: &str, report: &mut Report) {
    let terms = object::items(selector, "/nodeSelectorTerms");
    let place = format!("{field}.nodeSelectorTerms");
    if terms.is_empty() {
        report.required_because(&place, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        node_term(term, &format!("{place}[{index}]"), true, report);
    }
}

fn node_term(term: &Value, field: &str, checks_values: bool, report: &mut Report) {
    for (index, expression) in object::items(term, "/matchExpressions").iter().enumerate() {
        let place = format!("{field}.matchExpressions[{index}]");
        let values = object::items(expression, "/values");
        let at_values = format!("{place}.values");
        match text(expression, "/operator") {
            "In" | "NotIn" if values.is_empty() => {
                report.required_because(at_values, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                report.forbidden(at_values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Gt" | "Lt" if values.len() != 1 => {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                report.required_because(at_values, why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => report.invalid(format!("{place}.operator"), &json!(other), "not a valid selector operator"),
        }
        report.qualified(&format!("{place}.key"), text(expression, "/key"));
        for (index, value) in values.iter().enumerate().filter(|_| checks_values) {
            if let Err(why) = names::check_label_value(value.as_str().unwrap_or_default()) {
                report.invalid(format!("{place}.values[{index}]"), value, &why);
            }
        }
    }
    for (index, expression) in object::items(term, "/matchFields").iter().enumerate() {
        let place = format!("{field}.matchFields[{index}]");
        let (key, values) = (text(expression, "/key"), object::items(expression, "/values"));
        match text(expression, "/operator") {
            "In" | "NotIn" if values.len() != 1 => {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                report.required_because(format!("{place}.values"), why);
            }
            "In" | "NotIn" => {}
            other => report.invalid(format!("{place}.operator"), &json!(other), "not a valid selector operator"),
        }
        if key != "metadata.name" {
            report.invalid(format!("{place}.key"), &json!(key), "not a valid field selector key");
            continue;
        }
        for (index, value) in values.iter().enumerate() {
            if let Err(why) = names::check_subdomain(value.as_str().unwrap_or_default()) {
                report.invalid(format!("{place}.values[{index}]"), value, &why);
            }
        }
    }
}

fn pod_term(term: &Value, field: &str, report: &mut Report) {
    if !term.is_object() {
        report.required_because(format!("{field}.topologyKey"), "can not be empty");
        return report.qualified(&format!("{field}.topologyKey"), "");
    }
    table::check(TERM, term, field, report);
    for name in object::items(term, "/namespaces") {
        if let Err(why) = names::check_dns_label(name.as_str().unwrap_or_default()) {
            report.invalid(format!("{field}.namespace"), name, &why);
        }
    }
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        label_keys(term, name, field, report);
    }
    let (key, place) = (text(term, "/topologyKey"), format!("{field}.topologyKey"));
    if key.is_empty() {
        report.required_because(&place, "can not be empty");
    }
    report.qualified(&place, key);
}

/// Validates label keys, like `validateLabelKeys`.
fn label_keys(term: &Value, name: &str, field: &str, report: &mut Report) {
    let (keys, place) = (object::strings(term, &format!("/{name}")), format!("{field}.{name}"));
    if !keys.is_empty() && term["labelSelector"].is_null() {
        return report.forbidden(place, "must not be specified when labelSelector is not set");
    }
    for (index, key) in keys.iter().enumerate() {
        report.qualified(&format!("{place}[{index}]"), key);
    }
}

/// Validates tolerations, like `ValidateTolerations`. Runtime classes have them, too.
pub(in super::super) fn tolerations(tolerations: &Value, field: &str, report: &mut Report) {
    for (index, toleration) in object::items(tolerations, "").iter().enumerate() {
        let place = format!("{field}[{index}]");
        let at_operator = format!("{place}.operator");
        let (key, value) = (text(toleration, "/key"), text(toleration, "/value"));
        let (operator, effect) = (text(toleration, "/operator"), text(toleration, "/effect"));
        if !key.is_empty() {
            report.qualified(&format!("{place}.key"), key);
        } else if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            report.invalid(&at_operator, &json!(operator), why);
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            report.invalid(format!("{place}.effect"), &json!(effect), why);
        }
        match operator {
            "Equal" | "" => {
                if let Err(why) = names::check_label_value(value) {
                    report.invalid(&at_operator, &json!(value), &why);
                }
            }
            "Exists" if !value.is_empty() => {
                report.invalid(&at_operator, &json!(value), "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            // These operators need a feature gate that is off.
            "Lt" | "Gt" => report.not_supported(&at_operator, &json!(operator), &["Equal", "Exists", "Lt", "Gt"]),
            _ => report.not_supported(&at_operator, &json!(operator), &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            report.one_of(&format!("{place}.effect"), &toleration["effect"], &EFFECTS);
        }
    }
}

fn spread(pod: &Value, field: &str, report: &mut Report) {
    let all = object::items(pod, "/topologySpreadConstraints");
    let pair_of = |constraint| (text(constraint, "/topologyKey"), text(constraint, "/whenUnsatisfiable"));
    // If several constraints are equal, each of them except the last is reported.
    let mut last = HashMap::new();
    for (index, constraint) in all.iter().enumerate() {
        last.insert(pair_of(constraint), index);
    }
    for (index, constraint) in all.iter().enumerate() {
        let place = format!("{field}.topologySpreadConstraints[{index}]");
        if constraint["maxSkew"].as_i64().is_none_or(|skew| skew <= 0) {
            let skew = json!(constraint["maxSkew"].as_i64().unwrap_or(0));
            report.invalid(format!("{place}.maxSkew"), &skew, "must be greater than zero");
        }
        table::check(SPREAD, constraint, &place, report);
        let (key, action) = pair_of(constraint);
        if last[&(key, action)] > index {
            let pair = json!(format!("{{{key}, {action}}}"));
            report.duplicate(format!("{place}.{{topologyKey, whenUnsatisfiable}}"), &pair);
        }
        if !constraint["minDomains"].is_null() && action != "DoNotSchedule" {
            let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            report.invalid(format!("{place}.minDomains"), &constraint["minDomains"], &why);
        }
        let selected = &constraint["labelSelector"]["matchLabels"];
        label_keys(constraint, "matchLabelKeys", &place, report);
        for (index, key) in object::strings(constraint, "/matchLabelKeys").iter().enumerate() {
            if selected.get(key).is_some() {
                let why = "exists in both matchLabelKeys and labelSelector";
                report.invalid(format!("{place}.matchLabelKeys[{index}]"), &json!(key), why);
            }
        }
    }
}
