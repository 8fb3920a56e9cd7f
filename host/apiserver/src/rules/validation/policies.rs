//! Validates roles, budgets, leases and other small kinds.

use serde_json::{Value, json};

use super::report::Report;
use crate::object::{self, names, text};
use crate::schema::typed::quantity;

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn role(kind: &str, object: &Value, report: &mut Report) {
    policy_rules(kind, object, report);
    let aggregation = &object["aggregationRule"];
    if !aggregation.is_object() {
        return;
    }
    let selectors = object::items(aggregation, "/clusterRoleSelectors");
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        report.required_because("aggregationRule.clusterRoleSelectors", why);
    }
    for (index, selector) in selectors.iter().enumerate() {
        let place = format!("aggregationRule.clusterRoleSelectors[{index}]");
        let before = report.0.len();
        report.selector(&place, selector);
        if report.0.len() > before {
            report.invalid(place, &Value::Null, "invalid label selector.");
        }
    }
}

fn policy_rules(kind: &str, object: &Value, report: &mut Report) {
    for (index, rule) in object::items(object, "/rules").iter().enumerate() {
        let place = format!("rules[{index}]");
        let has = |name: &str| !object::items(rule, &format!("/{name}")).is_empty();
        if !has("verbs") {
            report.required_because(format!("{place}.verbs"), "verbs must contain at least one value");
        }
        if has("nonResourceURLs") {
            let field = format!("{place}.nonResourceURLs");
            if kind == "Role" {
                report.invalid(&field, &rule["nonResourceURLs"], "namespaced rules cannot apply to non-resource URLs");
            }
            if has("apiGroups") || has("resources") || has("resourceNames") {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                report.invalid(&field, &rule["nonResourceURLs"], why);
            }
            continue;
        }
        if !has("apiGroups") {
            report.required_because(format!("{place}.apiGroups"), "resource rules must supply at least one api group");
        }
        if !has("resources") {
            report.required_because(format!("{place}.resources"), "resource rules must supply at least one resource");
        }
    }
}

pub(super) fn binding(kind: &str, object: &Value, previous: Option<&Value>, report: &mut Report) {
    let role = &object["roleRef"];
    if text(role, "/apiGroup") != RBAC {
        report.not_supported("roleRef.apiGroup", &role["apiGroup"], &[RBAC]);
    }
    let is_namespaced = kind == "RoleBinding";
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "/kind")) {
        report.not_supported("roleRef.kind", &role["kind"], kinds);
    }
    report.name("roleRef.name", &role["name"], names::check_path_segment);
    for (index, subject) in object::items(object, "/subjects").iter().enumerate() {
        self::subject(is_namespaced, subject, &format!("subjects[{index}]"), report);
    }
    if previous.is_some_and(|previous| previous["roleRef"] != *role) {
        // The error shows the names of Go's fields.
        let [group, kind, name] = ["apiGroup", "kind", "name"].map(|field| &role[field]);
        let shown = format!("{{\"APIGroup\":{group},\"Kind\":{kind},\"Name\":{name}}}");
        report.invalid_shown("roleRef", &shown, "cannot change roleRef");
    }
}

fn subject(is_namespaced: bool, subject: &Value, place: &str, report: &mut Report) {
    if text(subject, "/name").is_empty() {
        report.required(format!("{place}.name"));
    }
    let group = text(subject, "/apiGroup");
    let group_field = format!("{place}.apiGroup");
    match text(subject, "/kind") {
        "ServiceAccount" => {
            report.optional_name(&format!("{place}.name"), &subject["name"], names::check_subdomain);
            if !group.is_empty() {
                report.not_supported(group_field, &subject["apiGroup"], &[""]);
            }
            // In a role binding, an account without a namespace means an account in the binding's namespace.
            if !is_namespaced && text(subject, "/namespace").is_empty() {
                report.required(format!("{place}.namespace"));
            }
        }
        "User" | "Group" if group != RBAC => report.not_supported(group_field, &subject["apiGroup"], &[RBAC]),
        "User" | "Group" => {}
        _ => {
            let kinds = ["ServiceAccount", "User", "Group"];
            report.not_supported(format!("{place}.kind"), &subject["kind"], &kinds);
        }
    }
}

pub(super) fn budget(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    let (least, most) = (&spec["minAvailable"], &spec["maxUnavailable"]);
    if !least.is_null() && !most.is_null() {
        let shown = format!(
            "{{\"MinAvailable\":{least},\"Selector\":{},\"MaxUnavailable\":{most},\"UnhealthyPodEvictionPolicy\":{}}}",
            spec["selector"], spec["unhealthyPodEvictionPolicy"]
        );
        report.invalid_shown("spec", &shown, "minAvailable and maxUnavailable cannot be both set");
    }
    report.int_or_percent("spec.minAvailable", least);
    report.int_or_percent("spec.maxUnavailable", most);
    report.selector("spec.selector", &spec["selector"]);
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    report.one_of("spec.unhealthyPodEvictionPolicy", &spec["unhealthyPodEvictionPolicy"], &policies);
}

pub(super) fn lease(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    let seconds = &spec["leaseDurationSeconds"];
    if seconds.as_i64().is_some_and(|seconds| seconds <= 0) {
        report.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0");
    }
    report.none_negative("spec", spec, &["leaseTransitions"]);
}

pub(super) fn quota(object: &Value, report: &mut Report) {
    for (name, amount) in object["spec"]["hard"].as_object().into_iter().flatten() {
        let field = format!("spec.hard[{name}]");
        if let Err(why) = names::check_label_key(name) {
            report.invalid(&field, &json!(name), &why);
            report.invalid(&field, &json!(name), "must be a standard resource for quota");
        }
        if quantity::compare(amount, &json!("0")).is_lt() {
            report.invalid(&field, amount, "must be greater than or equal to 0");
        }
        let is_count =
            ["pods", "services", "secrets", "configmaps"].contains(&name.as_str()) || name.starts_with("count/");
        if is_count && amount.as_str().is_some_and(|amount| amount.ends_with(['m', 'u', 'n'])) {
            report.invalid(&field, amount, "must be an integer");
        }
    }
}

pub(super) fn priority_class(object: &Value, previous: Option<&Value>, report: &mut Report) {
    const USER_PRIORITY_MAX: i64 = 1_000_000_000;
    let name = object::name(object);
    let is_system = ["system-cluster-critical", "system-node-critical"].contains(&name);
    if name.starts_with("system-") && !is_system {
        let why = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known \
             system priority class"
        );
        report.forbidden("metadata.name", &why);
    }
    if object["value"].as_i64().is_some_and(|value| value > USER_PRIORITY_MAX) && !is_system {
        report.forbidden("value", &format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"));
    }
    report.one_of("preemptionPolicy", &object["preemptionPolicy"], &["PreemptLowerPriority", "Never"]);
    if let Some(previous) = previous {
        if previous["value"] != object["value"] {
            report.forbidden("value", "may not be changed in an update.");
        }
        report.immutable("preemptionPolicy", object, Some(previous));
    }
}
