//! Validates autoscalers, like `pkg/apis/autoscaling/validation/validation.go` of Kubernetes 1.36.3.

use serde_json::{Value, json};

use super::report::Report;
use super::table::{self, Check, FieldRule, is_empty};
use crate::object::{self, names, text};
use crate::schema::typed::quantity;

/// The types of metrics, each with its field. They are in a real server's order, because the first field that is set
/// counts.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const KINDS: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
const POSITIVE: Check = Check::RangeOr(1, i64::MAX, "must be greater than zero");
const RULES: &[FieldRule] = &[
    ("stabilizationWindowSeconds", Check::RangeOr(0, i64::MAX, "must be greater than or equal to zero")),
    ("stabilizationWindowSeconds", Check::RangeOr(i64::MIN, 3600, "must be less than or equal to 3600")),
    ("selectPolicy", Check::OneOf(&["Disabled", "Max", "Min"])),
    ("policies", Check::RequiredBecause("must specify at least one Policy")),
    ("policies[].type", Check::Either(&["Percent", "Pods"])),
    ("policies[].value", POSITIVE),
    ("policies[].periodSeconds", POSITIVE),
    ("policies[].periodSeconds", Check::RangeOr(i64::MIN, 1800, "must be less than or equal to 1800")),
];

pub(super) fn autoscaler(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    let (least, most) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or(0));
    if least.is_some_and(|least| least < 1) {
        report.invalid("spec.minReplicas", &spec["minReplicas"], "must be greater than or equal to 1");
    }
    if most == 0 {
        report.required_because("spec.maxReplicas", "must be set and greater than 0");
    } else if most < 0 {
        report.invalid("spec.maxReplicas", &json!(most), "must be greater than or equal to 1");
    }
    if least.is_some_and(|least| most < least) {
        report.invalid("spec.maxReplicas", &json!(most), "must be greater than or equal to `minReplicas`");
    }
    reference(&spec["scaleTargetRef"], "spec.scaleTargetRef", true, report);
    let metrics = object::items(spec, "/metrics");
    for (index, metric) in metrics.iter().enumerate() {
        self::metric(metric, &format!("spec.metrics[{index}]"), report);
    }
    let is_outside = |metric: &Value| ["Object", "External"].contains(&text(metric, "/type"));
    if least == Some(0) && !metrics.iter().any(is_outside) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        report.forbidden("spec.metrics", why);
    }
    for direction in ["scaleUp", "scaleDown"] {
        table::check(RULES, &spec["behavior"][direction], &format!("spec.behavior.{direction}"), report);
    }
}

/// Validates a reference, like `ValidateCrossVersionObjectReference`.
fn reference(target: &Value, field: &str, needs_group: bool, report: &mut Report) {
    for name in ["kind", "name"] {
        report.name(&format!("{field}.{name}"), &target[name], names::check_path_segment);
    }
    let version = text(target, "/apiVersion");
    let place = format!("{field}.apiVersion");
    if version.matches('/').count() > 1 {
        report.invalid(place, &json!(version), &format!("unexpected GroupVersion string: {version}"));
    } else if needs_group && version.split_once('/').is_none_or(|(group, _)| group.is_empty()) {
        report.invalid(place, &json!(version), "apiVersion must specify API group");
    }
}

fn metric(metric: &Value, field: &str, report: &mut Report) {
    let kind = text(metric, "/type");
    let at_type = format!("{field}.type");
    if kind.is_empty() {
        report.required_because(&at_type, "must specify a metric source type");
    }
    if !KINDS.contains(&kind) {
        // As in a real server, this error is reported twice.
        report.not_supported(&at_type, &json!(kind), KINDS);
        report.not_supported(&at_type, &json!(kind), KINDS);
    }
    let given: Vec<&str> = SOURCES.iter().map(|(_, name)| *name).filter(|name| metric[*name].is_object()).collect();
    if let Some(first) = given.first() {
        source(first, &metric[*first], &format!("{field}.{first}"), report);
    }
    let expected = SOURCES.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name);
    if let Some(name) = expected.filter(|name| !given.contains(name)) {
        let why = "must populate information for the given metric source";
        report.required_because(format!("{field}.{name}"), why);
    }
    if given.len() != 1 {
        for name in given.iter().filter(|name| Some(**name) != expected) {
            report.forbidden(format!("{field}.{name}"), "must populate the given metric source only");
        }
    }
}

fn source(name: &str, source: &Value, field: &str, report: &mut Report) {
    if name == "object" {
        reference(&source["describedObject"], &format!("{field}.describedObject"), false, report);
    }
    if ["object", "external", "pods"].contains(&name) {
        let place = format!("{field}.metric.name");
        match text(source, "/metric/name") {
            "" => report.required_because(place, "must specify a metric name"),
            _ => report.optional_name(&place, &source["metric"]["name"], names::check_path_segment),
        }
    } else if is_empty(&source["name"]) {
        report.required_because(format!("{field}.name"), "must specify a resource name");
    } else if name == "containerResource" {
        super::pods::resources::container_name(text(source, "/name"), &format!("{field}.name"), report);
    }
    if name == "containerResource" && is_empty(&source["container"]) {
        report.required_because(format!("{field}.container"), "must specify a container");
    } else if name == "containerResource" {
        report.optional_name(&format!("{field}.container"), &source["container"], names::check_dns_label);
    }
    target(name, &source["target"], &format!("{field}.target"), report);
}

fn target(name: &str, target: &Value, field: &str, report: &mut Report) {
    let kind = text(target, "/type");
    if kind.is_empty() {
        report.required_because(format!("{field}.type"), "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let why = "must be either Utilization, Value, or AverageValue";
        report.invalid(format!("{field}.type"), &json!(kind), why);
    }
    let (value, average, usage) = (&target["value"], &target["averageValue"], &target["averageUtilization"]);
    for (name, amount) in [("value", value), ("averageValue", average)] {
        if !amount.is_null() && !quantity::compare(amount, &json!("0")).is_gt() {
            report.invalid(format!("{field}.{name}"), amount, "must be positive");
        }
    }
    report.range(&format!("{field}.averageUtilization"), usage, 1, i64::MAX, "must be greater than 0");
    let missing = match name {
        "object" if value.is_null() && average.is_null() => "must set either a target value or averageValue",
        "external" if value.is_null() && average.is_null() => {
            "must set either a target value for metric or a per-pod target"
        }
        "pods" if average.is_null() => "must specify a positive target averageValue",
        _ => "",
    };
    if !missing.is_empty() {
        report.required_because(format!("{field}.averageValue"), missing);
    }
    if name == "external" && !value.is_null() && !average.is_null() {
        let why = "may not set both a target value for metric and a per-pod target";
        report.forbidden(format!("{field}.value"), why);
    }
    if ["resource", "containerResource"].contains(&name) {
        match (usage.is_null(), average.is_null()) {
            (true, true) => {
                let why = "must set either a target raw value or a target utilization";
                report.required_because(format!("{field}.averageUtilization"), why);
            }
            (false, false) => {
                let why = "may not set both a target raw value and a target utilization";
                report.forbidden(format!("{field}.averageValue"), why);
            }
            _ => {}
        }
    }
}
