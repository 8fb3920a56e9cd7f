//! From the JSON of a recorded answer to the values of `core`.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::http::{HttpBody, HttpError, HttpReason, HttpResponse};
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::ports::{Claimed, ListPage, ServedKind};

const HTTP_REASONS: [HttpReason; 9] = [
    HttpReason::NotGranted,
    HttpReason::InvalidRequest,
    HttpReason::Dns,
    HttpReason::Connect,
    HttpReason::Tls,
    HttpReason::Timeout,
    HttpReason::TooLarge,
    HttpReason::Protocol,
    HttpReason::Other,
];

/// The verbs of errors, which are fixed words.
const VERBS: [&str; 12] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "claim",
    "served",
    "log",
    "apply",
];

/// The answer that an import gave, of which `ok` reads the value and `error` the error. None: the recording is not as this
/// host writes it.
pub(crate) fn answer<T, E>(
    answer: &Value,
    ok: impl FnOnce(&Value) -> Option<T>,
    error: impl FnOnce(&Value) -> Option<E>,
) -> Option<Result<T, E>> {
    match (answer.get("ok"), answer.get("error")) {
        (Some(value), _) => ok(value).map(Ok),
        (None, Some(value)) => error(value).map(Err),
        (None, None) => None,
    }
}

fn text(value: &Value, field: &str) -> Option<String> {
    value[field].as_str().map(str::to_owned)
}

fn arc(value: &Value, field: &str) -> Option<Arc<str>> {
    value[field].as_str().map(Arc::from)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

fn number<T: TryFrom<u64>>(value: &Value) -> Option<T> {
    T::try_from(value.as_u64()?).ok()
}

pub(crate) fn reference(value: &Value) -> Option<ObjectRef> {
    Some(ObjectRef {
        kind: ObjectKind::new(arc(value, "apiVersion")?, arc(value, "kind")?),
        key: ObjectKey { namespace: arc(value, "namespace"), name: arc(value, "name")? },
        uid: arc(value, "uid"),
    })
}

fn references(value: &Value) -> Option<Vec<ObjectRef>> {
    value.as_array()?.iter().map(reference).collect()
}

// Of an object that is not there, `null` is the answer.
#[allow(clippy::option_option, reason = "the outer says whether the recording can be read, the inner is the answer")]
pub(crate) fn object(value: &Value) -> Option<Option<Arc<str>>> {
    if value.is_null() { Some(None) } else { value.as_str().map(|text| Some(text.into())) }
}

pub(crate) fn page(value: &Value) -> Option<ListPage> {
    let items = value["items"].as_array()?.iter().map(|item| item.as_str().map(Arc::from));
    Some(ListPage { items: items.collect::<Option<_>>()?, next_token: text(value, "nextToken") })
}

pub(crate) fn log(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub(crate) fn claimed(value: &Value) -> Option<Claimed> {
    Some(Claimed { adopted: references(&value["adopted"])?, released: references(&value["released"])? })
}

#[allow(clippy::option_option, reason = "as of an object")]
pub(crate) fn deleted(value: &Value) -> Option<Option<Vec<ObjectRef>>> {
    if value.is_null() { Some(None) } else { references(value).map(Some) }
}

#[allow(clippy::option_option, reason = "as of an object")]
pub(crate) fn served_kind(value: &Value) -> Option<Option<ServedKind>> {
    if value.is_null() {
        return Some(None);
    }
    Some(Some(ServedKind {
        resource: text(value, "resource")?,
        namespaced: value["namespaced"].as_bool()?,
        verbs: texts(&value["verbs"])?,
        subresources: texts(&value["subresources"])?,
    }))
}

pub(crate) fn api_error(value: &Value) -> Option<ApiError> {
    let reason = value["reason"].as_str()?;
    let verb = value["verb"].as_str().unwrap_or_default();
    Some(ApiError {
        code: number(&value["code"])?,
        reason: ApiReason::ALL.into_iter().find(|it| format!("{it:?}") == reason)?,
        status_reason: text(value, "statusReason")?,
        message: text(value, "message")?,
        retry_after: value["retryAfterMs"].as_u64().map(Duration::from_millis),
        verb: VERBS.into_iter().find(|it| *it == verb).unwrap_or_default(),
        resource: text(value, "resource").unwrap_or_default(),
        object: reference(&value["object"]),
    })
}

pub(crate) fn api_errors(value: &Value) -> Option<Vec<ApiError>> {
    value.as_array()?.iter().map(api_error).collect()
}

pub(crate) fn response(value: &Value) -> Option<HttpResponse> {
    let body = &value["body"];
    let header = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()));
    Some(HttpResponse {
        status: number(&value["status"])?,
        headers: value["headers"].as_array()?.iter().map(header).collect::<Option<_>>()?,
        body: match (body["text"].as_str(), body["base64"].as_str()) {
            (Some(text), _) => HttpBody::Text(text.to_owned()),
            (None, Some(bytes)) => HttpBody::Bytes(STANDARD.decode(bytes).ok()?),
            (None, None) => return None,
        },
    })
}

pub(crate) fn http_error(value: &Value) -> Option<HttpError> {
    let reason = value["reason"].as_str()?;
    let reason = HTTP_REASONS.into_iter().find(|it| format!("{it:?}") == reason)?;
    Some(HttpError { reason, message: text(value, "message")? })
}
