//! Validates references from a container or volume to fields of its pod, like `validateObjectFieldSelector` and
//! `validateContainerResourceFieldSelector` in `pkg/apis/core/validation/validation.go`.

use serde_json::{Value, json};

use super::super::report::Report;
use crate::object::text;
use crate::schema::typed::quantity;

/// The pod fields that a variable may refer to.
pub(super) const OF_VARIABLES: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The pod fields that a volume may refer to.
pub(super) const OF_VOLUMES: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Validates a reference to a field of the pod.
pub(super) fn object_field(reference: &Value, field: &str, allowed: &[&str], report: &mut Report) {
    let (version, path) = (text(reference, "/apiVersion"), text(reference, "/fieldPath"));
    if version.is_empty() {
        return report.required(format!("{field}.apiVersion"));
    }
    if path.is_empty() {
        return report.required(format!("{field}.fieldPath"));
    }
    let place = format!("{field}.fieldPath");
    let subscripted = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    if let Err(why) = convert(version, path, subscripted.map(|(path, _)| path)) {
        return report.invalid(&place, &json!(path), &format!("error converting fieldPath: {why}"));
    }
    match subscripted {
        Some(("metadata.annotations", key)) => report.qualified(field, &key.to_lowercase()),
        Some((_, key)) => report.qualified(field, key),
        None if !allowed.contains(&path) => report.not_supported(&place, &json!(path), allowed),
        None => {}
    }
}

/// Checks that the field exists, like `ConvertDownwardAPIFieldLabel`.
fn convert(version: &str, path: &str, subscripted: Option<&str>) -> Result<(), String> {
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    match subscripted {
        Some("metadata.annotations" | "metadata.labels") => return Ok(()),
        Some(_) => return Err(format!("field label does not support subscript: {path}")),
        None => {}
    }
    let known = OF_VARIABLES.contains(&path) || OF_VOLUMES.contains(&path);
    let others = ["spec.host", "spec.restartPolicy", "spec.schedulerName", "status.phase"];
    let is_known = known || others.contains(&path);
    is_known.then_some(()).ok_or_else(|| format!("field label not supported: {path}"))
}

/// Validates a reference to a container's resource.
pub(super) fn resource_field(reference: &Value, field: &str, needs_container: bool, report: &mut Report) {
    let resource = text(reference, "/resource");
    let is_huge = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if needs_container && text(reference, "/containerName").is_empty() {
        report.required(format!("{field}.containerName"));
    } else if resource.is_empty() {
        report.required(format!("{field}.resource"));
    } else if !RESOURCES.contains(&resource) && !is_huge {
        report.not_supported(format!("{field}.resource"), &json!(resource), RESOURCES);
    }
    divisor(resource, is_huge, &reference["divisor"], field, report);
}

/// Checks the divisor of a resource, like `validateContainerResourceDivisor`.
fn divisor(resource: &str, is_huge: bool, divisor: &Value, field: &str, report: &mut Report) {
    const SIZES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    if divisor.is_null() || quantity::compare(divisor, &json!("0")).is_eq() {
        return;
    }
    let of = match resource.split_once('.').map(|(_, resource)| resource) {
        Some("cpu") => "cpu",
        Some("memory") => "memory",
        Some("ephemeral-storage") => "local ephemeral storage",
        _ if is_huge => "hugepages",
        _ => return,
    };
    let given = divisor.as_str().map_or_else(|| divisor.to_string(), str::to_owned);
    let (allowed, listed) =
        if of == "cpu" { (vec!["1m", "1"], "1m and 1".to_owned()) } else { (SIZES.to_vec(), SIZES.join(", ")) };
    if !allowed.contains(&given.as_str()) {
        let why = format!("only divisor's values {listed} are supported with the {of} resource");
        report.invalid(format!("{field}.divisor"), &json!(resource), &why);
    }
}
