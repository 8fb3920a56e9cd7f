//! The arguments of steps and the form of errors in results, with WIT's names in camelCase.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_sdk::{ApiError, Error, ObjectKind, ObjectRef};

/// The value at `name` in a step.
///
/// # Panics
/// If it cannot be read.
pub(crate) fn read<T: DeserializeOwned>(step: &Value, name: &str) -> T {
    serde_json::from_value(step[name].clone()).unwrap_or_else(|error| panic!("conformance: {name} of {step}: {error}"))
}

/// A reference in the form of the steps.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Target {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    uid: Option<String>,
}

impl From<Target> for ObjectRef {
    fn from(Target { api_version, kind, namespace, name, uid }: Target) -> Self {
        Self { cluster: None, api_version, kind, namespace, name, uid }
    }
}

/// A kind in the form of the steps.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Kind {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

/// The object that a step is about.
pub(crate) fn target(step: &Value) -> ObjectRef {
    read::<Target>(step, "target").into()
}

pub(crate) fn reference(target: &ObjectRef) -> Value {
    let ObjectRef { api_version, kind, namespace, name, uid, .. } = target;
    json!({"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name, "uid": uid})
}

pub(crate) fn api_error(error: &ApiError) -> Value {
    json!({
        "code": error.code, "reason": error.reason.as_str(), "statusReason": error.status_reason,
        "message": error.message, "retryAfterMs": error.retry_after_ms, "verb": error.verb,
        "resource": error.resource, "object": error.object.as_ref().map(reference),
    })
}

pub(crate) fn error(error: &Error) -> Value {
    match error {
        Error::Api(error) => api_error(error),
        Error::Json(error) => json!({"message": error.to_string()}),
    }
}

/// An error that a step specifies.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MadeUp {
    code: u16,
    reason: String,
    status_reason: String,
    message: String,
    retry_after_ms: Option<u32>,
    verb: String,
    resource: String,
    object: Option<Target>,
}

impl From<MadeUp> for ApiError {
    fn from(error: MadeUp) -> Self {
        let MadeUp { code, reason, status_reason, message, retry_after_ms, verb, resource, object } = error;
        let reason = reason.parse().unwrap_or_else(|error| panic!("conformance: {error}"));
        Self {
            code,
            reason,
            status_reason,
            message,
            retry_after_ms,
            verb,
            resource,
            object: object.map(ObjectRef::from),
        }
    }
}

/// The [`ObjectKind`] of a query.
pub(crate) fn kind(of: &Value) -> ObjectKind {
    let Kind { api_version, kind } = read(of, "kind");
    ObjectKind::new(api_version, kind)
}
