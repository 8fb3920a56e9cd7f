//! Validates changes of an existing pod, like `ValidatePodUpdate` in `pkg/apis/core/validation/validation.go` of
//! Kubernetes 1.36.3. Only few changes are allowed.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::super::report::Report;
use super::super::table::is_empty;
use crate::object::{self, text};

const OTHERS: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                      `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
                      to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                      previously negative)";
const NODE_TERMS: &str = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
const AT_NODE_TERMS: &str =
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";

/// Compares a pod with its previous state. Ephemeral containers may change only through their subresource.
pub(in super::super) fn check(subresource: &str, pod: &Value, previous: &Value, report: &mut Report) {
    let (spec, before) = (&pod["spec"], &previous["spec"]);
    if subresource == "ephemeralcontainers" {
        return ephemeral_containers(spec, previous, report);
    }
    for list in ["containers", "initContainers"] {
        let count = |spec: &Value| object::items(spec, &format!("/{list}")).len();
        if count(spec) != count(before) {
            return report.forbidden(format!("spec.{list}"), "pod updates may not add or remove containers");
        }
    }
    if deadline(&spec["activeDeadlineSeconds"], &before["activeDeadlineSeconds"], report) {
        return;
    }
    tolerations(spec, before, report);
    gates(spec, before, report);
    let mut kept = without_images(spec, before);
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        object::copy_field(&mut kept, before, name);
    }
    if before["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0)
        && spec["terminationGracePeriodSeconds"] == json!(1)
    {
        object::copy_field(&mut kept, before, "terminationGracePeriodSeconds");
    }
    if !is_empty(&before["schedulingGates"]) {
        gated(spec, before, &mut kept, report);
    }
    // A binding is validated here, too. It sets the node.
    if text(before, "/nodeName").is_empty() {
        object::copy_field(&mut kept, before, "nodeName");
    }
    if kept != *before {
        report.forbidden("spec", OTHERS);
    }
}

/// Checks that ephemeral containers are only added, like `ValidatePodEphemeralContainersUpdate`. A real server appends
/// a diff of Go structs to the last message.
fn ephemeral_containers(spec: &Value, previous: &Value, report: &mut Report) {
    if !previous["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null() {
        report.0.clear();
        return report.forbidden("[]", "static pods do not support ephemeral containers");
    }
    let containers = |spec| object::items(spec, "/ephemeralContainers").iter();
    let now: HashMap<&str, &Value> = containers(spec).map(|container| (text(container, "/name"), container)).collect();
    for old in containers(&previous["spec"]) {
        let name = text(old, "/name");
        let change = match now.get(name) {
            None => "removed",
            Some(new) if *new != old => "changed",
            Some(_) => continue,
        };
        let why = format!("existing ephemeral containers {name:?} may not be {change}\n");
        report.forbidden("spec.ephemeralContainers", &why);
    }
}

/// Checks a change of `activeDeadlineSeconds`. Returns true if further checks must be skipped.
fn deadline(now: &Value, before: &Value, report: &mut Report) -> bool {
    let field = "spec.activeDeadlineSeconds";
    match (now.as_i64(), before.as_i64()) {
        (Some(now_seconds), _) if !(0..=i64::from(i32::MAX)).contains(&now_seconds) => {
            report.invalid(field, now, "must be between 0 and 2147483647, inclusive");
            true
        }
        (Some(now_seconds), Some(before)) if before < now_seconds => {
            report.invalid(field, now, "must be less than or equal to previous value");
            true
        }
        (None, Some(_)) => {
            report.invalid(field, &Value::Null, "must not update from a positive integer to nil value");
            false
        }
        _ => false,
    }
}

/// Checks that tolerations are only added, like `validateOnlyAddedTolerations`.
fn tolerations(spec: &Value, before: &Value, report: &mut Report) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        object::as_map_mut(&mut toleration).remove("tolerationSeconds");
        toleration
    };
    let now: HashSet<Value> = object::items(spec, "/tolerations").iter().map(without_seconds).collect();
    if !object::items(before, "/tolerations").iter().all(|old| now.contains(&without_seconds(old))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        report.forbidden("spec.tolerations", why);
    }
}

/// Checks that scheduling gates are only removed.
fn gates(spec: &Value, before: &Value, report: &mut Report) {
    let known: HashSet<&Value> = object::items(before, "/schedulingGates").iter().collect();
    for (index, gate) in object::items(spec, "/schedulingGates").iter().enumerate() {
        if !known.contains(gate) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "/name"));
            report.forbidden(format!("spec.schedulingGates[{index}].name"), &why);
        }
    }
}

fn without_images(spec: &Value, before: &Value) -> Value {
    let mut kept = spec.clone();
    for list in ["containers", "initContainers"] {
        let old = object::items(before, &format!("/{list}"));
        let containers = kept.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, old) in containers.zip(old) {
            object::copy_field(container, old, "image");
        }
    }
    kept
}

/// Checks changes of the node selection in a pod with scheduling gates. It may be narrowed.
fn gated(spec: &Value, before: &Value, kept: &mut Value, report: &mut Report) {
    let (selector, old) = (&spec["nodeSelector"], &before["nodeSelector"]);
    if old.as_object().into_iter().flatten().any(|(key, value)| selector.get(key) != Some(value)) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        report.invalid("spec.nodeSelector", selector, why);
    }
    object::copy_field(kept, before, "nodeSelector");
    let (terms, old) = (object::items(spec, NODE_TERMS), object::items(before, NODE_TERMS));
    if !old.is_empty() && terms.len() != old.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let shown: Vec<String> = terms.iter().map(shown_term).collect();
        let shown = if terms.is_empty() { "null".to_owned() } else { format!("[{}]", shown.join(",")) };
        report.invalid_shown(AT_NODE_TERMS, &shown, why);
    } else {
        for (index, (now, _)) in terms.iter().zip(old).enumerate().filter(|(_, (now, old))| !only_adds(now, old)) {
            let why = "only additions are allowed (no mutations or deletions)";
            report.invalid_shown(&format!("{AT_NODE_TERMS}[{index}]"), &shown_term(now), why);
        }
    }
    let node = before["affinity"].get("nodeAffinity");
    match (spec["affinity"].is_object(), node) {
        (false, None) => {}
        (_, Some(node)) => object::map_mut_value(kept, "affinity")["nodeAffinity"] = node.clone(),
        (true, None) => {
            let affinity = object::map_mut(kept, "affinity");
            affinity.remove("nodeAffinity");
            if affinity.is_empty() && before["affinity"].is_null() {
                object::as_map_mut(kept).remove("affinity");
            }
        }
    }
}

fn only_adds(now: &Value, old: &Value) -> bool {
    let parts = ["/matchExpressions", "/matchFields"].map(|part| (object::items(now, part), object::items(old, part)));
    let was_empty = parts.iter().all(|(_, old)| old.is_empty());
    let is_empty = parts.iter().all(|(now, _)| now.is_empty());
    (!was_empty || is_empty) && parts.iter().all(|(now, old)| now.starts_with(old))
}

/// The term as Go prints the server's internal type.
fn shown_term(term: &Value) -> String {
    let list = |part: &str| {
        let Some(items) = term[part].as_array() else { return "null".to_owned() };
        let shown = items.iter().map(|item| {
            format!(
                "{{\"Key\":{},\"Operator\":{},\"Values\":{}}}",
                json!(text(item, "/key")),
                json!(text(item, "/operator")),
                item["values"]
            )
        });
        format!("[{}]", shown.collect::<Vec<_>>().join(","))
    };
    format!("{{\"MatchExpressions\":{},\"MatchFields\":{}}}", list("matchExpressions"), list("matchFields"))
}
