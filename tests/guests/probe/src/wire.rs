//! The interface's shared types in the form of scripts and results, with WIT's names in camelCase.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_sdk::bindings::windlass::plugin::types::{self, ApiReason};

/// A reference to an object, as in `types.object-ref`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ObjectRef {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
}

impl From<ObjectRef> for types::ObjectRef {
    fn from(target: ObjectRef) -> Self {
        let ObjectRef { api_version, kind, namespace, name, uid } = target;
        Self { cluster: None, api_version, kind, namespace, name, uid }
    }
}

/// A kind, as in `types.object-kind`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ObjectKind {
    api_version: String,
    kind: String,
}

impl From<ObjectKind> for types::ObjectKind {
    fn from(kind: ObjectKind) -> Self {
        Self { api_version: kind.api_version, kind: kind.kind }
    }
}

/// The outcome of a step: one value, or every error that was reported.
pub(crate) type Answer = Result<Value, Value>;

/// The answer of an import that returns an optional object.
pub(crate) fn optional(result: Result<Option<String>, types::ApiError>) -> Answer {
    result.map(|text| text.map_or(Value::Null, |text| document(&text))).map_err(|error| api_error(&error))
}

/// The answer of an import that returns an object.
pub(crate) fn object(result: Result<String, types::ApiError>) -> Answer {
    optional(result.map(Some))
}

/// The answer of an import that returns a page of a list.
pub(crate) fn page(result: Result<types::Page, types::ApiError>) -> Answer {
    let page = |page: types::Page| {
        let items: Vec<_> = page.items.iter().map(|item| document(item)).collect();
        json!({"items": items, "nextToken": page.next_token})
    };
    result.map(page).map_err(|error| api_error(&error))
}

/// An answer within a list of answers.
pub(crate) fn nested(answer: Answer) -> Value {
    match answer {
        Ok(value) => json!({"ok": value}),
        Err(error) => json!({"error": error}),
    }
}

/// A text that should be JSON. If it is not, it is shown unchanged.
pub(crate) fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!({"notJson": text}))
}

pub(crate) fn object_ref(target: &types::ObjectRef) -> Value {
    json!({
        "apiVersion": target.api_version, "kind": target.kind, "namespace": target.namespace, "name": target.name,
        "uid": target.uid,
    })
}

pub(crate) fn api_error(error: &types::ApiError) -> Value {
    json!({
        "code": error.code,
        "reason": reason(error.reason),
        "statusReason": error.status_reason,
        "message": error.message,
        "retryAfterMs": error.retry_after_ms,
        "verb": error.verb,
        "resource": error.resource,
        "object": error.object.as_ref().map(object_ref),
    })
}

/// One line for each reason. It is used for both directions, so a missing reason does not compile.
macro_rules! reasons {
    ($($reason:ident => $name:literal),* $(,)?) => {
        fn reason(reason: ApiReason) -> &'static str {
            match reason { $(ApiReason::$reason => $name),* }
        }

        fn reason_named(name: &str) -> ApiReason {
            match name {
                $($name => ApiReason::$reason,)*
                _ => panic!("probe: there is no reason {name}"),
            }
        }
    };
}

reasons!(
    NotFound => "not-found",
    AlreadyExists => "already-exists",
    Conflict => "conflict",
    Invalid => "invalid",
    Forbidden => "forbidden",
    NotGranted => "not-granted",
    NotWatched => "not-watched",
    NamespaceTerminating => "namespace-terminating",
    TooManyRequests => "too-many-requests",
    Expired => "expired",
    Timeout => "timeout",
    UnknownOutcome => "unknown-outcome",
    LeaseLost => "lease-lost",
    ReadOnly => "read-only",
    ServerError => "server-error",
    TooLarge => "too-large",
    Other => "other",
);

/// An error in the form of a result, or of a script that creates one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ApiError {
    code: u16,
    reason: String,
    #[serde(default)]
    status_reason: String,
    #[serde(default)]
    message: String,
    retry_after_ms: Option<u32>,
    #[serde(default)]
    verb: String,
    #[serde(default)]
    resource: String,
    object: Option<ObjectRef>,
}

impl From<ApiError> for types::ApiError {
    fn from(error: ApiError) -> Self {
        let ApiError { code, reason, status_reason, message, retry_after_ms, verb, resource, object } = error;
        let (reason, object) = (reason_named(&reason), object.map(types::ObjectRef::from));
        Self { code, reason, status_reason, message, retry_after_ms, verb, resource, object }
    }
}
