//! Cells of volumes, quotas and devices.

use serde_json::Value;

use super::texts::name_or_default;
use crate::object::{self, strings, text};

/// The annotation that had the storage class before there was a field.
const CLASS: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";

pub(super) fn phase(object: &Value) -> String {
    if object::is_terminating(object) { "Terminating" } else { text(object, "/status/phase") }.to_owned()
}

/// The capacity of a bound claim.
pub(super) fn claimed_capacity(claim: &Value) -> String {
    match (text(claim, "/spec/volumeName"), text(claim, "/status/capacity/storage")) {
        ("", _) => String::new(),
        (_, "") => "0".to_owned(),
        (_, capacity) => capacity.to_owned(),
    }
}

/// The access modes of a bound claim.
pub(super) fn claimed_modes(claim: &Value) -> String {
    if text(claim, "/spec/volumeName").is_empty() { String::new() } else { short(claim, "/status/accessModes") }
}

/// The access modes of a volume.
pub(super) fn modes(volume: &Value) -> String {
    short(volume, "/spec/accessModes")
}

fn short(object: &Value, pointer: &str) -> String {
    let found = strings(object, pointer);
    let names =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let short = names.iter().filter(|(name, _)| found.contains(name)).map(|(_, short)| *short);
    short.collect::<Vec<_>>().join(",")
}

/// The claim that a volume is bound to.
pub(super) fn claim(volume: &Value) -> String {
    match volume.pointer("/spec/claimRef") {
        Some(claim) if claim.is_object() => format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")),
        _ => String::new(),
    }
}

/// The storage class of a volume or a claim.
pub(super) fn class(object: &Value) -> String {
    object.pointer(CLASS).and_then(Value::as_str).unwrap_or_else(|| text(object, "/spec/storageClassName")).to_owned()
}

pub(super) fn class_name(class: &Value) -> String {
    let annotations =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    name_or_default(class, &annotations)
}

/// The used and the hard requests of a quota.
pub(super) fn quota_requests(quota: &Value) -> String {
    quota_lines(quota, false)
}

/// The used and the hard limits of a quota.
pub(super) fn quota_limits(quota: &Value) -> String {
    quota_lines(quota, true)
}

fn quota_lines(quota: &Value, of_limits: bool) -> String {
    let amount = |kind: &str, name: &str| {
        let found = quota.pointer(&format!("/status/{kind}")).and_then(|all| all[name].as_str());
        found.unwrap_or("0").to_owned()
    };
    let hard = quota.pointer("/status/hard").and_then(Value::as_object);
    let mut names: Vec<&String> =
        hard.into_iter().flat_map(|hard| hard.keys()).filter(|name| name.starts_with("limits.") == of_limits).collect();
    names.sort_unstable();
    let line = |name: &&String| format!("{name}: {}/{}", amount("used", name), amount("hard", name));
    names.iter().map(line).collect::<Vec<_>>().join(", ")
}

/// The allocation state of a device claim.
pub(super) fn device_claim_state(claim: &Value) -> String {
    let mut states = Vec::new();
    if object::is_terminating(claim) {
        states.push("deleted");
    }
    if claim.pointer("/status/allocation").is_some_and(Value::is_object) {
        states.push("allocated");
        if !object::items(claim, "/status/reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if states.is_empty() {
        states.push("pending");
    }
    states.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bound_claim_shows_its_capacity_and_access_modes() {
        let mut claim = json!({ "spec": { "storageClassName": "fast" }, "status": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteMany", "ReadWriteOnce"] } });
        assert_eq!((claimed_capacity(&claim), claimed_modes(&claim)), (String::new(), String::new()));
        claim["spec"]["volumeName"] = json!("v");
        assert_eq!((claimed_capacity(&claim), claimed_modes(&claim)), ("1Gi".to_owned(), "RWO,RWX".to_owned()));
        assert_eq!(class(&claim), "fast");
    }

    #[test]
    fn a_quota_has_requests_and_limits_apart() {
        let status = json!({ "hard": { "pods": "5", "limits.cpu": "2", "cpu": "1" }, "used": { "pods": "3" } });
        let quota = json!({ "status": status });
        assert_eq!(quota_requests(&quota), "cpu: 0/1, pods: 3/5");
        assert_eq!(quota_limits(&quota), "limits.cpu: 0/2");
    }
}
