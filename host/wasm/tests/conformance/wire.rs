//! Requests to ports and their answers as JSON, with the names of WIT in camelCase.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::call::http::{HttpBody, HttpError, HttpReason, HttpRequest, HttpResponse};
use windlass_core::call::ports::{Event, EventType, ListQuery, ListedKind, LiveQuery, LogQuery, ServedKind, View};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::queue::outcome::{CallResult, Failure};
use windlass_core::queue::trigger::{Trigger, TriggerReason, Triggers};
use windlass_core::write::{
    Collection, DeleteOptions, FieldValidation, Operation, PatchType, Propagation, WriteOptions,
};

macro_rules! names {
    ($list:ident: $type:ident { $($case:ident => $name:literal),* $(,)? }) => {
        /// Every case with its name in WIT.
        pub(crate) const $list: &[($type, &str)] = &[$(($type::$case, $name)),*];
    };
}

names!(REASONS: ApiReason {
    NotFound => "not-found", AlreadyExists => "already-exists", Conflict => "conflict", Invalid => "invalid",
    Forbidden => "forbidden", NotGranted => "not-granted", NotWatched => "not-watched",
    NamespaceTerminating => "namespace-terminating", TooManyRequests => "too-many-requests", Expired => "expired",
    Timeout => "timeout", UnknownOutcome => "unknown-outcome", LeaseLost => "lease-lost", ReadOnly => "read-only",
    ServerError => "server-error", TooLarge => "too-large", Other => "other",
});

names!(HTTP_REASONS: HttpReason {
    NotGranted => "not-granted", InvalidRequest => "invalid-request", Dns => "dns", Connect => "connect", Tls => "tls",
    Timeout => "timeout", TooLarge => "too-large", Protocol => "protocol", Other => "other",
});

fn name_of<T: PartialEq>(list: &[(T, &'static str)], case: &T) -> &'static str {
    list.iter().find(|(known, _)| known == case).map_or("?", |(_, name)| name)
}

fn named<T: Copy>(list: &[(T, &'static str)], name: &Value) -> T {
    let known = list.iter().find(|(_, known)| *name == *known);
    known.unwrap_or_else(|| panic!("the case has an unknown reason: {name}")).0
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn kind(kind: &ObjectKind) -> Value {
    json!({"apiVersion": &*kind.api_version, "kind": &*kind.kind})
}

pub(crate) fn reference(target: &ObjectRef) -> Value {
    json!({
        "apiVersion": &*target.kind.api_version, "kind": &*target.kind.kind, "namespace": target.key.namespace.as_deref(),
        "name": &*target.key.name, "uid": target.uid.as_deref(),
    })
}

pub(crate) fn reference_of(value: &Value) -> ObjectRef {
    let namespace = value["namespace"].as_str().map(Arc::from);
    ObjectRef {
        kind: ObjectKind::new(text(&value["apiVersion"]), text(&value["kind"])),
        key: ObjectKey { namespace, name: text(&value["name"]).into() },
        uid: value["uid"].as_str().map(Arc::from),
    }
}

/// A text that should be JSON.
pub(crate) fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| json!({"notJson": text, "error": error.to_string()}))
}

pub(crate) fn list_query(query: &ListQuery, most_bytes: u32) -> Value {
    json!({
        "kind": kind(&query.kind), "namespace": query.namespace.as_deref(), "labelSelector": query.label_selector,
        "index": query.index.as_ref().map(|(index, value)| json!({"index": index, "value": value})),
        "owned": query.owned, "fields": query.fields, "limit": query.limit,
        // If the plugin sets no limit, the sandbox sets `most_bytes`.
        "maxBytes": query.max_bytes.filter(|bytes| *bytes != most_bytes), "pageToken": query.page_token,
    })
}

pub(crate) fn live_query(query: &LiveQuery) -> Value {
    json!({
        "kind": kind(&query.kind), "namespace": query.namespace.as_deref(), "labelSelector": query.label_selector,
        "fieldSelector": query.field_selector, "view": view(&query.view), "limit": query.limit,
        "pageToken": query.page_token,
    })
}

/// The part of an object that is returned. Null means all of it.
pub(crate) fn view(view: &View) -> Value {
    match view {
        View::Whole => Value::Null,
        View::Metadata => json!("metadata"),
        View::Fields(fields) => json!({"fields": fields}),
    }
}

pub(crate) fn log_query(query: &LogQuery, most_bytes: u32) -> Value {
    json!({
        "target": reference(&query.target), "container": query.container, "previous": query.previous,
        "tailLines": query.tail_lines, "sinceSeconds": query.since_seconds,
        // If the plugin sets no limit, the sandbox sets `most_bytes`.
        "limitBytes": Some(query.limit_bytes).filter(|bytes| *bytes != most_bytes),
    })
}

/// How a kind is served, as cases write it. Null means that it is not served.
pub(crate) fn served_kind(value: &Value) -> Option<ServedKind> {
    let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect();
    (!value.is_null()).then(|| ServedKind {
        resource: text(&value["resource"]),
        namespaced: value["namespaced"] == true,
        verbs: texts(&value["verbs"]),
        subresources: texts(&value["subresources"]),
    })
}

/// The kinds that the server serves, as cases write them.
pub(crate) fn listed_kinds(value: &Value) -> Vec<ListedKind> {
    let listed = |value: &Value| {
        let kind = ObjectKind::new(text(&value["kind"]["apiVersion"]), text(&value["kind"]["kind"]));
        ListedKind { kind, served: served_kind(&value["served"]).expect("a listed kind is served") }
    };
    value.as_array().into_iter().flatten().map(listed).collect()
}

pub(crate) fn collection(collection: &Collection) -> Value {
    json!({
        "kind": kind(&collection.kind), "namespace": collection.namespace.as_deref(),
        "labelSelector": collection.label_selector, "fieldSelector": collection.field_selector, "all": collection.all,
    })
}

pub(crate) fn delete_options(options: &DeleteOptions) -> Value {
    let propagation = match options.propagation {
        Propagation::Background => "background",
        Propagation::Foreground => "foreground",
        Propagation::Orphan => "orphan",
    };
    json!({
        "resourceVersion": options.resource_version.as_deref(), "propagation": propagation,
        "gracePeriodSeconds": options.grace_period_seconds, "dryRun": options.dry_run,
    })
}

fn write_options(options: &WriteOptions) -> Value {
    let validation = match options.field_validation {
        FieldValidation::Strict => "strict",
        FieldValidation::Warn => "warn",
        FieldValidation::Ignore => "ignore",
    };
    json!({
        "subresource": options.subresource.as_ref().map(|subresource| {
            json!({"name": &*subresource.name, "parent": subresource.parent.as_ref().map(reference)})
        }),
        "resourceVersion": options.resource_version.as_deref(), "owned": options.owned, "force": options.force,
        "dryRun": options.dry_run, "fieldValidation": validation, "managerSuffix": options.manager_suffix.as_deref(),
        "fields": options.fields,
    })
}

/// An operation; `op` is the function's name.
pub(crate) fn operation(operation: &Operation) -> Value {
    let write =
        |op, object: &String, options| json!({"op": op, "object": document(object), "options": write_options(options)});
    match operation {
        Operation::Create { object, options } => write("create", object, options),
        Operation::Update { object, options } => write("update", object, options),
        Operation::Apply { object, options } => write("apply", object, options),
        Operation::Patch { target, patch_type, patch, options } => {
            let patch_type = match patch_type {
                PatchType::Merge => "merge",
                PatchType::Json => "json",
                PatchType::Strategic => "strategic",
            };
            json!({
                "op": "patch", "target": reference(target), "patchType": patch_type, "patch": document(patch),
                "options": write_options(options),
            })
        }
        Operation::Delete { target, options } => {
            json!({"op": "delete", "target": reference(target), "options": delete_options(options)})
        }
    }
}

pub(crate) fn event(event: &Event) -> Value {
    json!({
        "regarding": event.regarding.as_ref().map(reference), "related": event.related.as_ref().map(reference),
        "eventType": match event.event_type { EventType::Normal => "normal", EventType::Warning => "warning" },
        "reason": event.reason, "action": event.action, "note": event.note,
    })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A request. Its timeout is left out if it is the remaining time of the call.
pub(crate) fn http_request(request: &HttpRequest, longest: Duration) -> Value {
    json!({
        "method": request.method, "url": request.url, "headers": request.headers,
        "body": request.body.as_ref().map(http_body),
        "timeoutMs": request.timeout.filter(|timeout| *timeout < longest).map(milliseconds),
    })
}

fn http_body(body: &HttpBody) -> Value {
    match body {
        HttpBody::Text(text) => json!({"text": text}),
        HttpBody::Bytes(bytes) => json!({"bytes": bytes}),
    }
}

pub(crate) fn http_answer(answer: &Value) -> Result<HttpResponse, HttpError> {
    let error = &answer["error"];
    if !error.is_null() {
        return Err(HttpError { reason: named(HTTP_REASONS, &error["reason"]), message: text(&error["message"]) });
    }
    let response = &answer["ok"];
    let body = match response["body"]["bytes"].as_array() {
        Some(bytes) => HttpBody::Bytes(bytes.iter().map(byte).collect()),
        None => HttpBody::Text(text(&response["body"]["text"])),
    };
    let headers = serde_json::from_value(response["headers"].clone()).unwrap_or_default();
    let status = response["status"].as_u64().and_then(|status| status.try_into().ok()).unwrap_or(200);
    Ok(HttpResponse { status, headers, body })
}

fn byte(value: &Value) -> u8 {
    value.as_u64().and_then(|byte| byte.try_into().ok()).unwrap_or_default()
}

pub(crate) fn api_error(error: &ApiError) -> Value {
    json!({
        "code": error.code, "reason": name_of(REASONS, &error.reason), "statusReason": error.status_reason,
        "message": error.message, "retryAfterMs": error.retry_after.map(milliseconds), "verb": error.verb,
        "resource": error.resource, "object": error.object.as_ref().map(reference),
    })
}

/// An error as a case writes it, with the verb that it comes from.
pub(crate) fn api_error_of(error: &Value) -> ApiError {
    const VERBS: [&str; 10] =
        ["get", "list", "create", "update", "patch", "delete", "deletecollection", "claim", "served", "kinds"];
    let verb = VERBS.into_iter().find(|verb| error["verb"] == *verb).unwrap_or("get");
    let reason = named(REASONS, &error["reason"]);
    let made = ApiError::refused(reason, verb, text(&error["resource"]), None, text(&error["message"]));
    ApiError {
        code: error["code"].as_u64().and_then(|code| code.try_into().ok()).unwrap_or(made.code),
        status_reason: error["statusReason"].as_str().map_or(made.status_reason, str::to_owned),
        retry_after: error["retryAfterMs"].as_u64().map(Duration::from_millis),
        object: (!error["object"].is_null()).then(|| reference_of(&error["object"])),
        ..made
    }
}

/// The triggers of the key, as a case writes them.
pub(crate) fn triggers_of(all: &[Value]) -> Triggers {
    const REASONS: [TriggerReason; 3] = [TriggerReason::Changed, TriggerReason::Deleted, TriggerReason::Resync];
    let mut triggers = Triggers::default();
    for trigger in all {
        let reason = REASONS.into_iter().find(|reason| trigger["reason"] == reason.as_str());
        let object = (!trigger["object"].is_null()).then(|| reference_of(&trigger["object"]));
        let watch = trigger["watch"].as_str().map(Arc::from);
        triggers.note(&Arc::new(Trigger { reason: reason.expect("a reason of a case"), watch, object }));
    }
    triggers
}

/// How a call ended.
pub(crate) fn ended(result: &CallResult) -> Value {
    match result {
        CallResult::Done => json!({"done": true}),
        CallResult::RequeueAfter(after) => json!({"requeueAfterMs": milliseconds(*after)}),
        CallResult::RequeueBackoff => json!({"requeueBackoff": true}),
        CallResult::Failed(failures) => json!({"failed": failures.iter().map(failure).collect::<Value>()}),
        CallResult::Trapped { reason, message } => json!({"stopped": reason, "message": message}),
        CallResult::NotCalled { .. } => json!({"notCalled": true}),
    }
}

fn failure(failure: &Failure) -> Value {
    match failure {
        Failure::Api(error) => json!({"api": api_error(error)}),
        Failure::Transient(message) => json!({"transient": message}),
        Failure::TransientAfter { message, after } => json!({"transient": message, "afterMs": milliseconds(*after)}),
        Failure::Terminal(message) => json!({"terminal": message}),
    }
}
