//! Validates config maps and secrets, like `pkg/apis/core/validation/validation.go` of Kubernetes 1.36.3.

use serde_json::{Value, json};

use super::report::Report;
use crate::object::text;

const KEYS: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                    'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const STORED_DATA_BYTES_MAX: usize = 1024 * 1024;

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
        if let Err(why) = check_key(key) {
            report.invalid(format!("{field}[{key}]"), &json!(key), &why);
        }
    }
}

/// Checks a key, like `IsConfigMapKey`.
pub(super) fn check_key(key: &str) -> Result<(), String> {
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let why = match key {
        "." => "must not be '.'",
        key if key.starts_with("..") && key != ".." => "must not start with '..'",
        ".." => "must not be '..'",
        key if key.len() > 253 => "must be no more than 253 characters",
        key if key.is_empty() || !key.bytes().all(is_key) => KEYS,
        _ => return Ok(()),
    };
    Err(why.to_owned())
}

fn size(object: &Value, field: &str, report: &mut Report) {
    let values = ["data", "binaryData"].into_iter().flat_map(|name| object[name].as_object().into_iter().flatten());
    let bytes: usize = values.map(|(_, value)| value.as_str().map_or(0, str::len)).sum();
    // Base64 takes four characters for three bytes.
    let bytes = if field.is_empty() { bytes } else { bytes / 4 * 3 };
    if bytes > STORED_DATA_BYTES_MAX {
        report.too_long(field, STORED_DATA_BYTES_MAX);
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
