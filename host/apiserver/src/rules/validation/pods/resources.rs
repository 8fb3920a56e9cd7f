//! Validates resources of containers and pods, like `validateResourceRequirements` in
//! `pkg/apis/core/validation/validation.go`, with the resource names in `pkg/apis/core/helper/helpers.go`.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::super::report::Report;
use super::Pod;
use crate::object::{self, names, text};
use crate::schema::typed::quantity;

const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Validates the resources of a container.
pub(super) fn check(resources: &Value, place: &str, pod: &Pod<'_>, report: &mut Report) {
    requirements(resources, place, container_name, report);
    claims(resources, place, pod, report);
}

/// Validates the resources of a whole pod.
pub(super) fn of_pod(resources: &Value, place: &str, pod: &Pod<'_>, report: &mut Report) {
    if resources["claims"].is_array() {
        report.forbidden(format!("{place}.claims"), "claims may not be set for Resources at pod-level");
    }
    requirements(resources, place, pod_name, report);
    claims(resources, place, pod, report);
}

fn requirements(resources: &Value, place: &str, check_name: fn(&str, &str, &mut Report), report: &mut Report) {
    for part in ["limits", "requests"] {
        for (name, amount) in resources[part].as_object().into_iter().flatten() {
            let field = format!("{place}.{part}[{name}]");
            check_name(name, &field, report);
            amount_of(name, amount, &field, report);
        }
    }
    let limits = &resources["limits"];
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let field = format!("{place}.requests");
        match limits.get(name) {
            Some(limit) if quantity::compare(request, limit).is_ne() && !is_shared(name) => {
                report.invalid(field, request, &format!("must be equal to {name} limit of {}", shown(limit)));
            }
            Some(limit) if quantity::compare(request, limit).is_gt() => {
                report.invalid(
                    field,
                    request,
                    &format!("must be less than or equal to {name} limit of {}", shown(limit)),
                );
            }
            None if !is_shared(name) => {
                let why = "Limit must be set for non overcommitable resources";
                report.required_because(format!("{place}.limits"), why);
            }
            _ => {}
        }
    }
    let has = |is_it: fn(&str) -> bool| {
        let parts = ["limits", "requests"].into_iter().filter_map(|part| resources[part].as_object());
        parts.flatten().any(|(name, _)| is_it(name))
    };
    if has(is_huge) && !has(|name| ["cpu", "memory"].contains(&name)) {
        report.forbidden(place, "HugePages require cpu or memory");
    }
}

fn shown(amount: &Value) -> String {
    amount.as_str().map_or_else(|| amount.to_string(), str::to_owned)
}

fn amount_of(name: &str, amount: &Value, field: &str, report: &mut Report) {
    if quantity::compare(amount, &json!("0")).is_lt() {
        report.invalid(field, amount, "must be greater than or equal to 0");
    }
    let is_integer = STANDARD[9..18].contains(&name) && !name.contains("storage") || is_extended(name);
    if is_integer && amount.as_str().is_some_and(|amount| amount.ends_with(['m', 'u', 'n'])) {
        report.invalid(field, amount, "must be an integer");
    }
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource may be overcommitted, like `IsOvercommitAllowed`.
fn is_shared(name: &str) -> bool {
    is_native(name) && !is_huge(name)
}

fn is_extended(name: &str) -> bool {
    let is_own = !is_native(name) && !name.starts_with("requests.");
    is_own && names::label_key_errors(&format!("requests.{name}")).is_empty()
}

/// Checks a resource name, like `validateResourceName`. False if it is invalid.
pub(in super::super) fn resource_name(name: &str, field: &str, report: &mut Report) -> bool {
    let before = report.0.len();
    report.qualified(field, name);
    let is_standard = STANDARD.contains(&name) || is_huge(name) || name.starts_with("requests.hugepages-");
    if report.0.len() == before && !name.contains('/') && !is_standard {
        report.invalid(field, &json!(name), "must be a standard resource type or fully qualified");
    }
    report.0.len() == before
}

/// Checks the name of a container's resource, like `validateContainerResourceName`.
pub(in super::super) fn container_name(name: &str, field: &str, report: &mut Report) {
    resource_name(name, field, report);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_huge(name) {
            report.invalid(field, &json!(name), "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        report.invalid(field, &json!(name), "doesn't follow extended resource name standard");
    }
}

/// Checks the name of a pod's resource, like `validatePodResourceName`.
fn pod_name(name: &str, field: &str, report: &mut Report) {
    let supported = ["cpu", "hugepages-", "memory"];
    if resource_name(name, field, report) && !["cpu", "memory"].contains(&name) && !is_huge(name) {
        report.not_supported(field, &json!(name), &supported);
    }
}

/// Validates the overhead of a pod, like `validateOverhead`.
pub(super) fn overhead(overhead: &Value, field: &str, report: &mut Report) {
    for (name, amount) in overhead.as_object().into_iter().flatten() {
        let field = format!("{field}.limits[{name}]");
        container_name(name, &field, report);
        amount_of(name, amount, &field, report);
    }
}

/// Validates references to resource claims, like `validateResourceClaimNames`.
fn claims(resources: &Value, place: &str, pod: &Pod<'_>, report: &mut Report) {
    // `whole` has the claims that are referenced as a whole; `requests` has the references to single requests of
    // claims.
    let (mut whole, mut requests) = (HashSet::new(), HashSet::new());
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let listed: Vec<&str> = pod.claims.iter().copied().collect();
    let there = if listed.is_empty() { " which is empty".to_owned() } else { format!(": {}", listed.join(", ")) };
    for (index, claim) in object::items(resources, "/claims").iter().enumerate() {
        let field = format!("{place}.claims[{index}]");
        let (name, request) = (text(claim, "/name"), text(claim, "/request"));
        if name.is_empty() {
            report.required(&field);
            continue;
        }
        report.optional_name(&format!("{field}.request"), &claim["request"], names::check_dns_label);
        if whole.contains(name) {
            report.duplicate(&field, &json!(name));
        } else if request.is_empty() {
            for _ in 0..counts.get(name).copied().unwrap_or(0) {
                report.duplicate(&field, &json!(name));
            }
            whole.insert(name);
        } else if requests.insert((name, request)) {
            *counts.entry(name).or_default() += 1;
        } else {
            report.duplicate(&field, &json!(format!("{name}/{request}")));
        }
        if !pod.claims.contains(name) {
            let why = format!("must be one of the names in pod.spec.resourceClaims{there}");
            report.not_found_because(&field, &json!(name), &why);
        }
    }
}
