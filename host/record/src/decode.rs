//! Converts the JSON of a recorded answer to the types of `core`.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use windlass_core::call::http::{HttpBody, HttpError, HttpReason, HttpResponse};
use windlass_core::call::ports::{Answer, Ask, Claimed, ListPage, ListedKind, ServedKind, Written};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};

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

/// The verbs of errors, as static strings.
const VERBS: [&str; 13] = [
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
    "kinds",
    "log",
    "apply",
];

/// The recorded answer to `ask`. `None` if it does not have this host's format.
pub(crate) fn answer(ask: &Ask, recorded: &Value) -> Option<Answer> {
    Some(match ask {
        Ask::Get(_) => Answer::Get(object(recorded)?),
        Ask::List(_) => Answer::List(page(recorded)?),
        Ask::Log(_) => Answer::Log(either(recorded, |text| text.as_str().map(str::to_owned), api_error)?),
        Ask::Served(_) => Answer::Served(either(recorded, |kind| unless_null(kind, served_kind), api_error)?),
        Ask::Kinds(_) => Answer::Kinds(either(recorded, listed_kinds, api_error)?),
        Ask::Write(_) => Answer::Write(object(recorded)?),
        Ask::Batch(_) => Answer::Batch(recorded["ok"].as_array()?.iter().map(object).collect::<Option<_>>()?),
        Ask::DeleteCollection(_) => {
            Answer::DeleteCollection(either(recorded, |deleted| unless_null(deleted, references), api_error)?)
        }
        Ask::Claim(_) => Answer::Claim(either(recorded, claimed, api_errors)?),
        Ask::Fetch(_) => Answer::Fetch(either(recorded, response, http_error)?),
    })
}

/// A recorded answer that contains an object.
pub(crate) fn object(recorded: &Value) -> Option<Written> {
    either(recorded, |text| unless_null(text, |text| text.as_str().map(Arc::from)), api_error)
}

/// A recorded answer that contains a page.
pub(crate) fn page(recorded: &Value) -> Option<Result<ListPage, ApiError>> {
    either(recorded, page_of, api_error)
}

/// Reads `null` as an answer that nothing exists.
#[allow(clippy::option_option, reason = "the outer says whether the recording can be read, the inner is the answer")]
fn unless_null<T>(value: &Value, read: impl FnOnce(&Value) -> Option<T>) -> Option<Option<T>> {
    if value.is_null() { Some(None) } else { read(value).map(Some) }
}

fn either<T, E>(
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

fn page_of(value: &Value) -> Option<ListPage> {
    let items = value["items"].as_array()?.iter().map(|item| item.as_str().map(Arc::from));
    Some(ListPage { items: items.collect::<Option<_>>()?, next_token: text(value, "nextToken") })
}

fn claimed(value: &Value) -> Option<Claimed> {
    Some(Claimed { adopted: references(&value["adopted"])?, released: references(&value["released"])? })
}

fn served_kind(value: &Value) -> Option<ServedKind> {
    Some(ServedKind {
        resource: text(value, "resource")?,
        namespaced: value["namespaced"].as_bool()?,
        verbs: texts(&value["verbs"])?,
        subresources: texts(&value["subresources"])?,
    })
}

fn listed_kinds(value: &Value) -> Option<Vec<ListedKind>> {
    let listed = |value: &Value| {
        let kind = ObjectKind::new(arc(&value["of"], "apiVersion")?, arc(&value["of"], "kind")?);
        Some(ListedKind { kind, served: served_kind(&value["served"])? })
    };
    value.as_array()?.iter().map(listed).collect()
}

fn api_error(value: &Value) -> Option<ApiError> {
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

fn api_errors(value: &Value) -> Option<Vec<ApiError>> {
    value.as_array()?.iter().map(api_error).collect()
}

fn response(value: &Value) -> Option<HttpResponse> {
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

fn http_error(value: &Value) -> Option<HttpError> {
    let reason = value["reason"].as_str()?;
    let reason = HTTP_REASONS.into_iter().find(|it| format!("{it:?}") == reason)?;
    Some(HttpError { reason, message: text(value, "message")? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_core::call::ports::{Answered, Asked};

    use super::*;
    use crate::encode;

    fn error(verb: &str) -> Value {
        json!({
            "code": 409, "reason": "Conflict", "statusReason": "Conflict", "message": "no", "verb": verb,
            "resource": "", "retryAfterMs": 1000,
        })
    }

    /// The forms that hosts have ever written: for each example of an ask, its import and arguments, a successful
    /// answer, and an error. They never change, because otherwise old recordings could not be replayed.
    fn written() -> Vec<(&'static str, Value, Value, Value)> {
        let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let target = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "prod", "name": "a"});
        let options = json!({"propagation": "Background"});
        let response = json!({"status": 200, "headers": [["a", "b"]], "body": {"text": "hi"}});
        let served = json!({"resource": "configmaps", "namespaced": true, "verbs": ["get"], "subresources": []});
        let delete = json!({"import": "writes.delete", "target": target, "options": options});
        let list = json!({"of": kind, "limit": 1});
        let log = json!({"target": target, "limitBytes": 1});
        let fetch = json!({"method": "GET", "url": "https://a.example"});
        let deletion = json!({"of": kind, "labelSelector": "app=a", "options": options});
        let failed = |verb: &str| json!({"error": error(verb)});
        vec![
            ("live.get", json!({"target": target}), json!({"ok": "{}"}), failed("get")),
            ("live.list", list, json!({"ok": {"items": ["{}"], "nextToken": "t"}}), failed("list")),
            ("live.log", log, json!({"ok": "a line"}), failed("log")),
            ("live.served", json!({"of": kind}), json!({"ok": served}), failed("served")),
            ("live.kinds", json!({}), json!({"ok": [{"of": kind, "served": served}]}), failed("kinds")),
            ("writes.delete", json!({"target": target, "options": options}), json!({"ok": null}), failed("delete")),
            (
                "writes.batch",
                json!({"operations": [delete]}),
                json!({"ok": [{"ok": "{}"}]}),
                json!({"ok": [failed("delete")]}),
            ),
            ("writes.delete-collection", deletion, json!({"ok": [target]}), failed("deletecollection")),
            (
                "owners.claim",
                json!({"of": kind, "labelSelector": "app=a"}),
                json!({"ok": {"adopted": [target], "released": []}}),
                json!({"error": [error("claim")]}),
            ),
            ("http.fetch", fetch, json!({"ok": response}), json!({"error": {"reason": "Dns", "message": "no"}})),
        ]
    }

    #[test]
    fn the_form_of_asks_and_answers_in_recordings_never_changes() {
        let asks = Ask::one_of_each();
        assert_eq!(asks.len(), written().len());
        for (ask, (import, args, good, failed)) in asks.iter().zip(written()) {
            assert_eq!(encode::asked(Asked::Ask(ask)), (import, args));
            for recorded in [good, failed] {
                let read = answer(ask, &recorded).unwrap_or_else(|| panic!("{import} is answered with {recorded}"));
                assert_eq!(read.name(), ask.name());
                assert_eq!(encode::answered(Answered::Ask(&read)), recorded, "{import}");
            }
            assert_eq!(answer(ask, &json!({"good": 1})), None, "{import}");
        }
    }

    #[test]
    fn missing_objects_are_recorded_as_null() {
        for ask in Ask::one_of_each().iter().filter(|ask| ["Get", "Served", "DeleteCollection"].contains(&ask.name())) {
            let read = answer(ask, &json!({"ok": null})).expect("it is read");
            assert_eq!(encode::answered(Answered::Ask(&read)), json!({"ok": null}));
        }
    }
}
