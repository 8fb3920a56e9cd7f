//! Converts the types of `core` to the JSON of a recording.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use windlass_core::call::compose::Composition;
use windlass_core::call::http::{HttpBody, HttpError, HttpRequest, HttpResponse};
use windlass_core::call::ports::{
    Answer, Answered, Ask, Asked, Claimed, CollectionDeletion, Event, KindsQuery, ListPage, ListQuery, ListedKind,
    LiveGet, LiveQuery, LogQuery, MetricChange, ServedKind, View, Written,
};
use windlass_core::error::ApiError;
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::queue::outcome::{CallResult, Failure, Requeue};
use windlass_core::write::{Collection, DeleteOptions, Operation, PatchType, WriteOptions};

/// Removes the fields of an object that carry no information: nulls, `false`, empty lists.
fn brief(value: Value) -> Value {
    let Value::Object(fields) = value else { return value };
    let is_informative = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    fields.into_iter().filter(|(_, value)| is_informative(value)).collect::<Map<_, _>>().into()
}

pub(crate) fn kind(kind: &ObjectKind) -> Value {
    json!({"apiVersion": *kind.api_version, "kind": *kind.kind})
}

pub(crate) fn reference(object: &ObjectRef) -> Value {
    brief(json!({
        "apiVersion": *object.kind.api_version, "kind": *object.kind.kind, "namespace": object.key.namespace,
        "name": object.key.name, "uid": object.uid,
    }))
}

fn references(objects: &[ObjectRef]) -> Value {
    objects.iter().map(reference).collect()
}

fn get(target: &ObjectRef, fields: Option<&[String]>) -> Value {
    brief(json!({"target": reference(target), "fields": fields}))
}

fn list(query: &ListQuery) -> Value {
    let ListQuery { namespace, label_selector, index, owned, fields, limit, max_bytes, page_token, .. } = query;
    brief(json!({
        "of": kind(&query.kind), "namespace": namespace, "labelSelector": label_selector, "index": index,
        "owned": owned, "fields": fields, "limit": limit, "maxBytes": max_bytes, "pageToken": page_token,
    }))
}

fn view(view: &View) -> Value {
    match view {
        View::Whole => Value::Null,
        View::Metadata => "metadata".into(),
        View::Fields(fields) => json!(fields),
    }
}

fn live_get(asked: &LiveGet) -> Value {
    brief(json!({
        "target": reference(&asked.target), "subresource": asked.subresource, "view": view(&asked.view),
    }))
}

fn live_list(query: &LiveQuery) -> Value {
    let LiveQuery { namespace, label_selector, field_selector, limit, page_token, .. } = query;
    brief(json!({
        "of": kind(&query.kind), "namespace": namespace, "labelSelector": label_selector,
        "fieldSelector": field_selector, "view": view(&query.view), "limit": limit, "pageToken": page_token,
    }))
}

fn log(query: &LogQuery) -> Value {
    let LogQuery { container, previous, tail_lines, since_seconds, limit_bytes, .. } = query;
    brief(json!({
        "target": reference(&query.target), "container": container, "previous": previous, "tailLines": tail_lines,
        "sinceSeconds": since_seconds, "limitBytes": limit_bytes,
    }))
}

fn write_options(options: &WriteOptions) -> Value {
    let WriteOptions { resource_version, owned, force, dry_run, field_validation, manager_suffix, fields, .. } =
        options;
    let subresource = options.subresource.as_ref();
    let mut encoded = brief(json!({
        "subresource": subresource.map(|it| &*it.name),
        "parent": subresource.and_then(|it| it.parent.as_ref()).map(reference),
        "resourceVersion": resource_version, "owned": owned, "force": force, "dryRun": dry_run,
        "fieldValidation": format!("{field_validation:?}"), "managerSuffix": manager_suffix,
    }));
    // An empty list says that nothing but the identity is returned.
    if let Some(fields) = fields {
        encoded["fields"] = json!(fields);
    }
    encoded
}

fn delete_options(options: &DeleteOptions) -> Value {
    let DeleteOptions { resource_version, propagation, grace_period_seconds, dry_run } = options;
    brief(json!({
        "resourceVersion": resource_version, "propagation": format!("{propagation:?}"),
        "gracePeriodSeconds": grace_period_seconds, "dryRun": dry_run,
    }))
}

fn operation(operation: &Operation) -> Value {
    let body = |object: &str, options| json!({"object": object, "options": write_options(options)});
    match operation {
        Operation::Create { object, options }
        | Operation::Update { object, options }
        | Operation::Apply { object, options } => body(object, options),
        Operation::Patch { target, patch_type, patch, options } => {
            let form = match patch_type {
                PatchType::Merge => "merge",
                PatchType::Json => "json",
                PatchType::Strategic => "strategic",
            };
            json!({"target": reference(target), "type": form, "patch": patch, "options": write_options(options)})
        }
        Operation::Delete { target, options } => {
            json!({"target": reference(target), "options": delete_options(options)})
        }
    }
}

/// Encodes a batch. Each operation names the import that does the same outside a batch.
fn batch(operations: &[Operation]) -> Value {
    let each = |it: &Operation| {
        let mut args = operation(it);
        args["import"] = it.import().into();
        args
    };
    json!({"operations": operations.iter().map(each).collect::<Vec<_>>()})
}

fn delete_collection(CollectionDeletion { collection, options }: &CollectionDeletion) -> Value {
    let Collection { namespace, label_selector, field_selector, all, .. } = collection;
    brief(json!({
        "of": kind(&collection.kind), "namespace": namespace, "labelSelector": label_selector,
        "fieldSelector": field_selector, "all": all, "options": delete_options(options),
    }))
}

fn event(event: &Event) -> Value {
    brief(json!({
        "regarding": event.regarding.as_ref().map(reference), "related": event.related.as_ref().map(reference),
        "type": format!("{:?}", event.event_type), "reason": event.reason, "action": event.action, "note": event.note,
    }))
}

fn metric(change: MetricChange, name: &str, value: f64, labels: &[(String, String)]) -> Value {
    json!({"change": format!("{change:?}"), "name": name, "value": value, "labels": labels})
}

fn body(body: &HttpBody) -> Value {
    match body {
        HttpBody::Text(text) => json!({"text": text}),
        HttpBody::Bytes(bytes) => json!({"base64": STANDARD.encode(bytes)}),
    }
}

/// Encodes a request without its remaining time, which differs between runs.
fn fetch(request: &HttpRequest) -> Value {
    let HttpRequest { method, url, headers, body: sent, .. } = request;
    brief(json!({"method": method, "url": url, "headers": headers, "body": sent.as_ref().map(body)}))
}

fn response(response: &HttpResponse) -> Value {
    json!({"status": response.status, "headers": response.headers, "body": body(&response.body)})
}

fn http_error(error: &HttpError) -> Value {
    json!({"reason": format!("{:?}", error.reason), "message": error.message})
}

fn api_error(error: &ApiError) -> Value {
    brief(json!({
        "code": error.code, "reason": format!("{:?}", error.reason), "statusReason": error.status_reason,
        "message": error.message, "retryAfterMs": error.retry_after.map(milliseconds), "verb": error.verb,
        "resource": error.resource, "object": error.object.as_ref().map(reference),
    }))
}

/// The name and the arguments of an import.
pub(crate) fn asked(asked: Asked<'_>) -> (&'static str, Value) {
    match asked {
        Asked::Get { target, fields } => ("cache.get", get(target, fields)),
        Asked::List(query) => ("cache.list", list(query)),
        Asked::Event(emitted) => ("events.emit", event(emitted)),
        Asked::Metric { change, name, value, labels } => ("metrics.record", metric(change, name, value, labels)),
        Asked::Ask(ask) => (ask.import(), arguments(ask)),
    }
}

fn arguments(ask: &Ask) -> Value {
    match ask {
        Ask::Get(asked) => live_get(asked),
        Ask::List(query) => live_list(query),
        Ask::Log(query) => log(query),
        Ask::Served(query) => json!({"of": kind(&query.kind)}),
        Ask::Kinds(KindsQuery) => json!({}),
        Ask::Write(write) => operation(write),
        Ask::Batch(operations) => batch(operations),
        Ask::DeleteCollection(deletion) => delete_collection(deletion),
        Ask::Claim(claim) => json!({"of": kind(&claim.kind), "labelSelector": claim.label_selector}),
        Ask::Fetch(request) => fetch(request),
    }
}

/// Encodes the answer to an import: a value under `ok`, or an error.
pub(crate) fn answered(answered: Answered<'_>) -> Value {
    match answered {
        Answered::Get(found) => object(found),
        Answered::List(found) => either(found, page, api_error),
        Answered::Taken => json!({"ok": null}),
        Answered::Ask(answer) => match answer {
            Answer::Get(written) | Answer::Write(written) => object(written),
            Answer::List(found) => either(found, page, api_error),
            Answer::Log(text) => either(text, |text| json!(text), api_error),
            Answer::Served(kind) => either(kind, |kind| kind.as_ref().map_or(Value::Null, served_kind), api_error),
            Answer::Kinds(kinds) => either(kinds, |kinds| kinds.iter().map(listed_kind).collect(), api_error),
            Answer::Batch(all) => json!({"ok": all.iter().map(object).collect::<Vec<_>>()}),
            Answer::DeleteCollection(deleted) => {
                either(deleted, |deleted| deleted.as_deref().map_or(Value::Null, references), api_error)
            }
            Answer::Claim(found) => either(found, claimed, |errors| errors.iter().map(api_error).collect()),
            Answer::Fetch(found) => either(found, response, http_error),
        },
    }
}

fn either<T, E>(answer: &Result<T, E>, ok: impl FnOnce(&T) -> Value, error: impl FnOnce(&E) -> Value) -> Value {
    match answer {
        Ok(value) => json!({"ok": ok(value)}),
        Err(failed) => json!({"error": error(failed)}),
    }
}

fn object(written: &Written) -> Value {
    either(written, |object| json!(object), api_error)
}

fn page(page: &ListPage) -> Value {
    json!({"items": page.items, "nextToken": page.next_token})
}

fn claimed(claimed: &Claimed) -> Value {
    json!({"adopted": references(&claimed.adopted), "released": references(&claimed.released)})
}

fn served_kind(served: &ServedKind) -> Value {
    let ServedKind { resource, namespaced, verbs, subresources } = served;
    json!({"resource": resource, "namespaced": namespaced, "verbs": verbs, "subresources": subresources})
}

fn listed_kind(listed: &ListedKind) -> Value {
    json!({"of": kind(&listed.kind), "served": served_kind(&listed.served)})
}

pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn failure(failure: &Failure) -> Value {
    match failure {
        Failure::Api(error) => json!({"api": api_error(error)}),
        Failure::Transient(message) => json!({"transient": message}),
        Failure::TransientAfter { message, after } => {
            json!({"transient": message, "afterMs": milliseconds(*after)})
        }
        Failure::Terminal(message) => json!({"terminal": message}),
    }
}

/// The result of a call.
pub(crate) fn result(result: &CallResult) -> Value {
    match result {
        CallResult::Done => json!({"done": true}),
        CallResult::RequeueAfter(after) => json!({"requeueAfterMs": milliseconds(*after)}),
        CallResult::RequeueBackoff => json!({"requeueBackoff": true}),
        CallResult::Failed(failures) => json!({"failed": failures.iter().map(failure).collect::<Vec<_>>()}),
        CallResult::Trapped { reason, message } => json!({"trapped": {"reason": reason, "message": message}}),
        CallResult::NotCalled { .. } => json!({"notCalled": true}),
    }
}

pub(crate) fn composition(answer: &Composition) -> Value {
    let Composition { children, status, events, requeue, allow_empty, finalized } = answer;
    let (requeue_after, requeue_backoff) = match requeue {
        Some(Requeue::After(after)) => (Some(milliseconds(*after)), false),
        Some(Requeue::Backoff) => (None, true),
        None => (None, false),
    };
    json!({"composed": brief(json!({
        "children": children, "status": status, "events": events.iter().map(event).collect::<Vec<_>>(),
        "requeueAfterMs": requeue_after, "requeueBackoff": requeue_backoff, "allowEmpty": allow_empty,
        "finalized": finalized,
    }))})
}
