//! Validation of what holds data: config maps, secrets, claims and volumes.

use serde_json::{Value, json};

use super::report::{Report, members};
use crate::object::{self, names, text};
use crate::schema::typed::quantity;

const KEYS: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                    'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const MOST_BYTES: usize = 1024 * 1024;

pub(super) fn config_map(object: &Value, previous: Option<&Value>, report: &mut Report) {
    immutable(object, previous, &["data", "binaryData"], report);
    for field in ["data", "binaryData"] {
        keys(object, field, report);
    }
    for key in object["data"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if object["binaryData"].get(key).is_some() {
            report.invalid(format!("data[{key}]"), &json!(key), "duplicate of key present in binaryData");
        }
    }
    size(object, "", report);
}

pub(super) fn secret(object: &Value, previous: Option<&Value>, report: &mut Report) {
    report.immutable("type", object, previous);
    immutable(object, previous, &["data"], report);
    keys(object, "data", report);
    size(object, "data", report);
    let required: &[&str] = match text(object, "/type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    let lacks = |key: &str| object["data"].get(key).is_none();
    required.iter().filter(|key| lacks(key)).for_each(|key| report.required(format!("data[{key}]")));
    if text(object, "/type") == "kubernetes.io/basic-auth" && lacks("username") && lacks("password") {
        for key in ["username", "password"] {
            report.required(format!("data[{key}]"));
        }
    }
    let account = "kubernetes.io/service-account.name";
    let is_token = text(object, "/type") == "kubernetes.io/service-account-token";
    if is_token && object["metadata"]["annotations"][account].as_str().is_none_or(str::is_empty) {
        report.required(format!("metadata.annotations[{account}]"));
    }
}

fn keys(object: &Value, field: &str, report: &mut Report) {
    for key in object[field].as_object().into_iter().flatten().map(|(key, _)| key) {
        let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let why = match key.as_str() {
            "." => "must not be '.'",
            key if key.starts_with("..") && key != ".." => "must not start with '..'",
            ".." => "must not be '..'",
            key if key.len() > 253 => "must be no more than 253 characters",
            key if key.is_empty() || !key.bytes().all(is_key) => KEYS,
            _ => continue,
        };
        report.invalid(format!("{field}[{key}]"), &json!(key), why);
    }
}

fn size(object: &Value, field: &str, report: &mut Report) {
    let values = ["data", "binaryData"].into_iter().flat_map(|name| object[name].as_object().into_iter().flatten());
    let bytes: usize = values.map(|(_, value)| value.as_str().map_or(0, str::len)).sum();
    // Base64 takes four bytes for three.
    let bytes = if field.is_empty() { bytes } else { bytes / 4 * 3 };
    if bytes > MOST_BYTES {
        report.too_long(field, MOST_BYTES);
    }
}

fn immutable(object: &Value, previous: Option<&Value>, fields: &[&str], report: &mut Report) {
    let Some(previous) = previous.filter(|previous| previous["immutable"] == json!(true)) else { return };
    let why = "field is immutable when `immutable` is set";
    if object["immutable"] != json!(true) {
        report.forbidden("immutable", why);
    }
    for field in fields {
        if previous.get(*field) != object.get(*field) {
            report.forbidden(*field, why);
        }
    }
}

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn claim(object: &Value, previous: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    if object::items(spec, "/accessModes").is_empty() {
        report.required_because("spec.accessModes", "at least 1 access mode is required");
    }
    access_modes(spec, report);
    match spec.pointer("/resources/requests/storage") {
        None => report.required("spec.resources[storage]"),
        Some(size) if !quantity::compare(size, &json!("0")).is_gt() => {
            report.invalid("spec.resources[storage]", size, "must be greater than zero");
        }
        Some(_) => {}
    }
    report.one_of("spec.volumeMode", &spec["volumeMode"], &["Block", "Filesystem"]);
    if let Some(previous) = previous {
        claim_update(spec, &previous["spec"], report);
    }
}

fn claim_update(spec: &Value, previous: &Value, report: &mut Report) {
    let is_bound = !text(previous, "/volumeName").is_empty();
    let strip = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            if is_bound {
                fields.remove("volumeAttributesClassName");
                fields.remove("resources");
            } else {
                fields.remove("volumeName");
            }
        }
        spec
    };
    if strip(spec) != strip(previous) {
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        report.forbidden("spec", why);
    }
}

fn access_modes(spec: &Value, report: &mut Report) {
    for mode in object::items(spec, "/accessModes") {
        report.one_of("spec.accessModes", mode, &ACCESS_MODES);
    }
}

pub(super) fn volume(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    if object::items(spec, "/accessModes").is_empty() {
        report.required("spec.accessModes");
    }
    access_modes(spec, report);
    let capacity = &spec["capacity"];
    if capacity.as_object().is_none_or(serde_json::Map::is_empty) {
        report.required("spec.capacity");
    }
    if capacity.get("storage").is_none() || capacity.as_object().is_some_and(|map| map.len() > 1) {
        let capacity = if capacity.is_null() { &json!({}) } else { capacity };
        report.not_supported("spec.capacity", capacity, &["storage"]);
    }
    let policies = ["Delete", "Recycle", "Retain"];
    report.one_of("spec.persistentVolumeReclaimPolicy", &spec["persistentVolumeReclaimPolicy"], &policies);
    let mut sources = members(spec, &["capacity", "claimRef", "nodeAffinity"]);
    sources.sort_by_key(|source| u8::from(*source != "hostPath"));
    if sources.is_empty() {
        report.required_because("spec", "must specify a volume type");
    }
    for source in sources.iter().skip(1) {
        report.forbidden(format!("spec.{source}"), "may not specify more than 1 volume type");
    }
}

pub(super) fn storage_class(object: &Value, previous: Option<&Value>, report: &mut Report) {
    if text(object, "/provisioner").is_empty() {
        report.required("provisioner");
    }
    report.one_of("reclaimPolicy", &object["reclaimPolicy"], &["Delete", "Retain"]);
    report.one_of("volumeBindingMode", &object["volumeBindingMode"], &["Immediate", "WaitForFirstConsumer"]);
    if let Some(previous) = previous {
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            if object.get(field) != previous.get(field) {
                report.forbidden(field, &format!("updates to {field} are forbidden."));
            }
        }
    }
}

/// Names that a class of runtimes has.
pub(super) fn runtime_class(object: &Value, previous: Option<&Value>, report: &mut Report) {
    report.name("handler", &object["handler"], names::check_dns_label);
    report.immutable("handler", object, previous);
}
