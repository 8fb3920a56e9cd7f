//! Validates limit ranges and quotas, like `ValidateLimitRange` and `ValidateResourceQuotaSpec` in
//! `pkg/apis/core/validation/validation.go` of Kubernetes 1.36.3.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::pods::resources;
use super::report::Report;
use crate::object::{self, names, text};
use crate::schema::typed::quantity;

const SCOPES: [&str; 6] =
    ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"];

pub(super) fn limit_range(object: &Value, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, limit) in object::items(object, "/spec/limits").iter().enumerate() {
        let (kind, field) = (text(limit, "/type"), format!("spec.limits[{index}]"));
        let errors = names::label_key_errors(kind);
        for why in &errors {
            report.invalid(format!("{field}.type"), &json!(kind), why);
        }
        let is_standard = ["Pod", "Container", "PersistentVolumeClaim"].contains(&kind) || kind.contains('/');
        if errors.is_empty() && !is_standard {
            let why = "must be a standard limit type or fully qualified";
            report.invalid(format!("{field}.type"), &json!(kind), why);
        }
        if !seen.insert(kind) {
            report.duplicate(format!("{field}.type"), &json!(kind));
        }
        amounts(limit, kind, &field, report);
        let has = |part: &str| !limit[part]["storage"].is_null();
        if kind == "PersistentVolumeClaim" && !has("min") && !has("max") {
            let why = "either minimum or maximum storage value is required, but neither was provided";
            report.required_because(format!("{field}.limits"), why);
        }
    }
}

fn amounts(limit: &Value, kind: &str, field: &str, report: &mut Report) {
    for part in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let given: Vec<(&String, &Value)> = limit[part].as_object().into_iter().flatten().collect();
        if kind == "Pod" && part.starts_with("default") {
            if !given.is_empty() {
                report.forbidden(format!("{field}.{part}"), "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, _) in given {
            let place = format!("{field}.{part}[{name}]");
            if ["Pod", "Container"].contains(&kind) {
                resources::container_name(name, &place, report);
            } else {
                resources::resource_name(name, &place, report);
            }
        }
    }
    // In each line, the first field must not be greater than the second. The third is the field that the error names,
    // and the fourth is the error's text.
    let pairs = [
        ("min", "max", "min", "min value {a} is greater than max value {b}"),
        ("min", "defaultRequest", "defaultRequest", "min value {a} is greater than default request value {b}"),
        ("defaultRequest", "max", "defaultRequest", "default request value {a} is greater than max value {b}"),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            "default request value {a} is greater than default limit value {b}",
        ),
        ("min", "default", "default", "min value {a} is greater than default value {b}"),
        ("default", "max", "default", "default value {a} is greater than max value {b}"),
    ];
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (low, high, about, words) in
        pairs.iter().filter(|(low, high, ..)| kind != "Pod" || (*low, *high) == ("min", "max"))
    {
        for (name, a) in limit[*low].as_object().into_iter().flatten() {
            let b = &limit[*high][name];
            if b.is_null() || !quantity::compare(a, b).is_gt() {
                continue;
            }
            let why = words.replace("{a}", &shown(a)).replace("{b}", &shown(b));
            // As in a real server, some errors show the value of the other field.
            let value = match (*low, *about) {
                ("min", "default" | "min") | ("defaultRequest", _) => a,
                _ => b,
            };
            report.invalid(format!("{field}.{about}[{name}]"), value, &why);
        }
    }
    for (name, ratio) in limit["maxLimitRequestRatio"].as_object().into_iter().flatten() {
        if quantity::compare(ratio, &json!("1")).is_lt() {
            let why = format!("ratio {} is less than 1", shown(ratio));
            report.invalid(format!("{field}.maxLimitRequestRatio[{name}]"), ratio, &why);
        }
    }
}

/// Validates the scopes of a quota.
pub(super) fn quota_scopes(object: &Value, previous: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    let scopes = object::strings(spec, "/scopes");
    for _ in scopes.iter().filter(|scope| !SCOPES.contains(scope)) {
        report.invalid("spec.scopes", &spec["scopes"], "unsupported scope");
    }
    let of = |object: &Value| -> BTreeSet<String> {
        object::strings(object, "/spec/scopes").into_iter().map(str::to_owned).collect()
    };
    if previous.is_some_and(|previous| of(previous) != of(object)) {
        report.invalid("spec.scopes", &spec["scopes"], "field is immutable");
    }
    let field = "spec.scopeSelector.matchExpressions";
    for expression in object::items(spec, "/scopeSelector/matchExpressions") {
        let (scope, operator) = (text(expression, "/scopeName"), text(expression, "/operator"));
        let values = object::items(expression, "/values");
        if !SCOPES.contains(&scope) {
            report.invalid(format!("{field}.scopeName"), &json!(scope), "unsupported scope");
        } else if scope != "PriorityClass" && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                       ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort \
                       or ResourceQuotaScopeCrossNamespacePodAffinity";
            report.invalid(format!("{field}.operator"), &json!(operator), why);
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                report.required_because(format!("{field}.values"), why);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                report.invalid(format!("{field}.values"), &expression["values"], why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => report.invalid(format!("{field}.operator"), &json!(operator), "not a valid selector operator"),
        }
    }
}
