//! Between the types of WIT and those of `windlass-core`.
//!
//! What comes from the guest is checked here, before any port sees it: names become segments of URLs, so a name with a
//! slash would be another object's, or another API.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::call::ports::{Event, EventType, ListQuery};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::path_segment;
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::queue::outcome::{CallResult, Failure};
use windlass_core::queue::trigger::Trigger;
use windlass_core::write::{
    DeleteOptions, FieldValidation, Operation, PatchType, Propagation, Subresource, WriteOptions,
};
use windlass_manifest::is_dns_label;

use super::bindings::exports::windlass::plugin::reconciler::Outcome;
use super::bindings::windlass::plugin::{cache, triggers, types as wit, writes};
use crate::request::Request;
use crate::text::{shortened, single_line};

/// The longest duration of the interface: 2³¹ − 1 ms.
const MAX_DURATION_MS: u32 = i32::MAX as u32;
/// How many failures of a call are kept, and how long their texts may be.
const MAX_FAILURES: usize = 64;
pub(super) const MAX_MESSAGE: usize = 4 << 10;
/// As long as Kubernetes' names get.
const MAX_NAME: usize = 253;
/// UIDs and versions, which only servers make.
const MAX_TOKEN: usize = 128;
/// The end of a field manager, which may have 128 characters in all.
const MAX_SUFFIX: usize = 32;
/// Selectors, pointers and page tokens; and how many pointers a read may have.
const MAX_TEXT: usize = 4 << 10;
const MAX_FIELDS: usize = 64;
/// The longest reason that `events.k8s.io/v1` accepts.
const MAX_EVENT_REASON: usize = 128;
const MAX_EVENT_NOTE: usize = 1024;

/// Why something that a guest named cannot be.
pub(crate) type Malformed = String;

pub(crate) fn request(request: &Request) -> wit::Request {
    wit::Request {
        controller: request.controller.to_string(),
        cluster: None,
        namespace: request.key.namespace.as_deref().map(str::to_owned),
        name: request.key.name.to_string(),
        uid: request.uid.as_deref().map(str::to_owned),
        object: request.object.as_deref().map(str::to_owned),
        deleting: request.deleting,
        attempt: request.attempt,
        trace_id: request.trace_id.to_string(),
    }
}

pub(crate) fn call_result(answer: Result<Outcome, Vec<wit::Failure>>) -> CallResult {
    match answer {
        Ok(Outcome { requeue_after_ms: None }) => CallResult::Done,
        Ok(Outcome { requeue_after_ms: Some(after) }) => CallResult::RequeueAfter(milliseconds(after)),
        Err(failures) => failed(failures),
    }
}

/// One of each: a plugin may collect the same failure at every place that met it.
pub(super) fn failed(failures: Vec<wit::Failure>) -> CallResult {
    let mut distinct = Vec::new();
    for failure in failures.into_iter().take(MAX_FAILURES).map(failure) {
        if !distinct.contains(&failure) {
            distinct.push(failure);
        }
    }
    CallResult::Failed(distinct)
}

fn failure(failure: wit::Failure) -> Failure {
    let wit::Failure { message, api, terminal, retry_after_ms } = failure;
    // With an API error, its own text must have room, too.
    let message = shortened(message, if api.is_some() { MAX_MESSAGE / 2 } else { MAX_MESSAGE });
    // What it was doing, and what the error says.
    let with = |error: &str| match (message.is_empty(), error.is_empty()) {
        (true, _) => error.to_owned(),
        (_, true) => message.clone(),
        _ => format!("{message}: {error}"),
    };
    let (error, after) = (api.map(reported_error), retry_after_ms.map(milliseconds));
    match (error, after) {
        (Some(error), _) if terminal => Failure::Terminal(shortened(with(&error.to_string()), MAX_MESSAGE)),
        (Some(error), after) => Failure::Api(ApiError {
            message: shortened(with(&error.message), MAX_MESSAGE),
            // Whoever is told to wait longer waits longer.
            retry_after: after.max(error.retry_after),
            ..error
        }),
        (None, _) if terminal => Failure::Terminal(message),
        (None, Some(after)) => Failure::TransientAfter { message, after },
        (None, None) => Failure::Transient(message),
    }
}

/// An API error as the guest passes it on. It may have been made up; nothing depends on it but the guest's own retries.
fn reported_error(error: wit::ApiError) -> ApiError {
    ApiError {
        code: error.code,
        reason: reason_from_wit(error.reason),
        status_reason: shortened(error.status_reason, MAX_NAME),
        message: shortened(error.message, MAX_MESSAGE),
        retry_after: error.retry_after_ms.map(milliseconds),
        verb: known_verb(&error.verb),
        resource: shortened(error.resource, MAX_NAME),
        // An object that cannot exist is not worth a failure of its own here.
        object: error.object.and_then(|object| object_ref(object).ok()),
    }
}

pub(crate) fn milliseconds(ms: u32) -> Duration {
    Duration::from_millis(ms.min(MAX_DURATION_MS).into())
}

fn known_verb(verb: &str) -> &'static str {
    // `fetch` is how the SDKs call a request by HTTP that was denied.
    const VERBS: [&str; 11] =
        ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "claim", "served", "fetch"];
    VERBS.into_iter().find(|known| *known == verb).unwrap_or("unknown")
}

pub(crate) fn api_error(error: ApiError) -> wit::ApiError {
    wit::ApiError {
        code: error.code,
        reason: reason_to_wit(error.reason),
        status_reason: error.status_reason,
        message: error.message,
        retry_after_ms: error
            .retry_after
            .map(|after| u32::try_from(after.as_millis()).unwrap_or(MAX_DURATION_MS).min(MAX_DURATION_MS)),
        verb: error.verb.to_owned(),
        resource: error.resource,
        object: error.object.as_ref().map(reference),
    }
}

pub(crate) fn reference(object: &ObjectRef) -> wit::ObjectRef {
    wit::ObjectRef {
        cluster: None,
        api_version: object.kind.api_version.to_string(),
        kind: object.kind.kind.to_string(),
        namespace: object.key.namespace.as_deref().map(str::to_owned),
        name: object.key.name.to_string(),
        uid: object.uid.as_deref().map(str::to_owned),
    }
}

/// One line a reason, both ways: a reason that is missing on either side does not compile.
macro_rules! reasons {
    ($($reason:ident),* $(,)?) => {
        fn reason_to_wit(reason: ApiReason) -> wit::ApiReason {
            match reason { $(ApiReason::$reason => wit::ApiReason::$reason),* }
        }

        fn reason_from_wit(reason: wit::ApiReason) -> ApiReason {
            match reason { $(wit::ApiReason::$reason => ApiReason::$reason),* }
        }
    };
}

reasons!(
    NotFound,
    AlreadyExists,
    Conflict,
    Invalid,
    Forbidden,
    NotGranted,
    NotWatched,
    NamespaceTerminating,
    TooManyRequests,
    Expired,
    Timeout,
    UnknownOutcome,
    LeaseLost,
    ReadOnly,
    ServerError,
    TooLarge,
    Other,
);

pub(crate) fn object_ref(target: wit::ObjectRef) -> Result<ObjectRef, Malformed> {
    if let Some(cluster) = target.cluster {
        return Err(format!("{} is another cluster: leave `cluster` out, this host works on one", quoted(&cluster)));
    }
    let namespace = target.namespace.map(|namespace| path_segment("namespace", namespace)).transpose()?;
    Ok(ObjectRef {
        kind: object_kind(target.api_version, target.kind)?,
        key: ObjectKey { namespace, name: path_segment("name", target.name)? },
        uid: target.uid.map(|uid| token("uid", uid)).transpose()?,
    })
}

pub(crate) fn object_kind(api_version: String, kind: String) -> Result<ObjectKind, Malformed> {
    ObjectKind::checked(api_version, kind).map_err(|error| error.to_string())
}

/// A name that can be a step of a path, of a length that logs can take (ADR 34).
pub(crate) fn path_segment(what: &str, name: String) -> Result<Arc<str>, Malformed> {
    if name.len() > MAX_NAME || path_segment::flaw(&name).is_some() {
        return Err(format!("{} cannot be the {what} of an object", quoted(&name)));
    }
    Ok(name.into())
}

fn token(what: &str, token: String) -> Result<Arc<str>, Malformed> {
    if token.is_empty() || token.len() > MAX_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("{} cannot be a {what}", quoted(&token)));
    }
    Ok(token.into())
}

fn quoted(text: &str) -> String {
    format!("`{}`", single_line(text, 80))
}

/// Each pointer of a read costs a walk through the object.
pub(crate) fn check_fields(fields: Option<&[String]>) -> Result<(), Malformed> {
    let fields = fields.unwrap_or_default();
    if fields.len() > MAX_FIELDS || fields.iter().any(|pointer| pointer.len() > MAX_TEXT) {
        return Err(format!("at most {MAX_FIELDS} fields of {MAX_TEXT} bytes can be read at a time"));
    }
    Ok(())
}

pub(super) fn check_limit(limit: u32) -> Result<(), Malformed> {
    if limit == 0 { Err("a list needs a `limit` of at least 1".to_owned()) } else { Ok(()) }
}

pub(crate) fn short(what: &str, text: Option<String>) -> Result<Option<String>, Malformed> {
    match text {
        Some(text) if text.len() > MAX_TEXT => Err(format!("the {what} is longer than {MAX_TEXT} bytes")),
        text => Ok(text),
    }
}

pub(crate) fn list_query(query: cache::ListQuery, max_bytes: u32) -> Result<ListQuery, Malformed> {
    check_limit(query.limit)?;
    check_fields(query.fields.as_deref())?;
    let (name, value) = query.index.map(|index| (index.index, index.value)).unzip();
    let index = short("name of an index", name)?.zip(short("value of an index", value)?);
    Ok(ListQuery {
        kind: object_kind(query.kind.api_version, query.kind.kind)?,
        namespace: query.namespace.map(|namespace| path_segment("namespace", namespace)).transpose()?,
        label_selector: short("label selector", query.label_selector)?,
        index,
        owned: query.owned,
        fields: query.fields,
        limit: query.limit,
        max_bytes: Some(query.max_bytes.map_or(max_bytes, |bytes| bytes.min(max_bytes))),
        page_token: short("page token", query.page_token)?,
    })
}

pub(crate) fn operation(operation: writes::Operation) -> Result<Operation, Malformed> {
    Ok(match operation {
        writes::Operation::Create(writes::ObjectWrite { object, options }) => {
            Operation::Create { object, options: write_options(options)? }
        }
        writes::Operation::Update(writes::ObjectWrite { object, options }) => {
            Operation::Update { object, options: write_options(options)? }
        }
        writes::Operation::Apply(writes::ObjectWrite { object, options }) => {
            Operation::Apply { object, options: write_options(options)? }
        }
        writes::Operation::Patch(writes::PatchWrite { target, patch_type: of, patch, options }) => Operation::Patch {
            target: object_ref(target)?,
            patch_type: patch_type(of),
            patch,
            options: write_options(options)?,
        },
        writes::Operation::Delete(writes::DeleteWrite { target, options }) => {
            Operation::Delete { target: object_ref(target)?, options: delete_options(options)? }
        }
    })
}

fn write_options(options: writes::WriteOptions) -> Result<WriteOptions, Malformed> {
    Ok(WriteOptions {
        subresource: options.subresource.map(subresource).transpose()?,
        resource_version: resource_version(options.resource_version)?,
        owned: options.owned,
        force: options.force,
        dry_run: options.dry_run,
        field_validation: match options.field_validation {
            writes::FieldValidation::Strict => FieldValidation::Strict,
            writes::FieldValidation::Warn => FieldValidation::Warn,
            writes::FieldValidation::Ignore => FieldValidation::Ignore,
        },
        manager_suffix: options.manager_suffix.map(manager_suffix).transpose()?,
    })
}

/// With the plugin's name before it, it is within what the server takes for a field manager.
fn manager_suffix(suffix: String) -> Result<Arc<str>, Malformed> {
    if suffix.len() > MAX_SUFFIX || !is_dns_label(&suffix) {
        let rule = "lower-case letters, digits and dashes, beginning and ending with a letter or digit";
        return Err(format!("{} cannot end a field manager: it must be up to {MAX_SUFFIX} {rule}", quoted(&suffix)));
    }
    Ok(suffix.into())
}

fn subresource(subresource: writes::Subresource) -> Result<Subresource, Malformed> {
    let name = subresource_name(subresource.name)?;
    Ok(Subresource { name, parent: subresource.parent.map(object_ref).transpose()? })
}

pub(super) fn subresource_name(name: String) -> Result<Arc<str>, Malformed> {
    if name.is_empty() || name.len() > 63 || !name.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Err(format!("{} is not a subresource, which is like `status`", quoted(&name)));
    }
    Ok(name.into())
}

fn resource_version(version: Option<String>) -> Result<Option<Arc<str>>, Malformed> {
    version.map(|version| token("resourceVersion", version)).transpose()
}

fn patch_type(patch_type: writes::PatchType) -> PatchType {
    match patch_type {
        writes::PatchType::Merge => PatchType::Merge,
        writes::PatchType::Json => PatchType::Json,
        writes::PatchType::Strategic => PatchType::Strategic,
    }
}

pub(super) fn delete_options(options: writes::DeleteOptions) -> Result<DeleteOptions, Malformed> {
    Ok(DeleteOptions {
        resource_version: resource_version(options.resource_version)?,
        propagation: match options.propagation {
            writes::Propagation::Background => Propagation::Background,
            writes::Propagation::Foreground => Propagation::Foreground,
            writes::Propagation::Orphan => Propagation::Orphan,
        },
        grace_period_seconds: options.grace_period_ms.map(|ms| ms.div_ceil(1000)),
        dry_run: options.dry_run,
    })
}

pub(crate) fn event(event: wit::Event) -> Result<Event, Malformed> {
    // The server takes none either; the recorder would warn of each, beyond what a call may log.
    if event.reason.is_empty() {
        return Err("an event needs a reason".to_owned());
    }
    Ok(Event {
        regarding: event.regarding.map(object_ref).transpose()?,
        related: event.related.map(object_ref).transpose()?,
        event_type: match event.event_type {
            wit::EventType::Normal => EventType::Normal,
            wit::EventType::Warning => EventType::Warning,
        },
        reason: shortened(event.reason, MAX_EVENT_REASON),
        action: shortened(event.action, MAX_EVENT_REASON),
        note: shortened(event.note, MAX_EVENT_NOTE),
    })
}

pub(crate) fn trigger(trigger: &Trigger) -> triggers::Trigger {
    triggers::Trigger {
        reason: trigger.reason.as_str().to_owned(),
        watch: trigger.watch.as_deref().map(str::to_owned),
        object: trigger.object.as_ref().map(reference),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(message: &str, api: Option<ApiReason>, terminal: bool, retry_after_ms: Option<u32>) -> Failure {
        let api = api.map(|reason| api_error(ApiError::refused(reason, "get", "pods", None, "no")));
        failure(wit::Failure { message: message.to_owned(), api, terminal, retry_after_ms })
    }

    #[test]
    fn a_failure_keeps_its_class_and_all_its_texts() {
        let text = |failure: Failure| failure.to_string();
        assert!(matches!(reported("later", None, false, None), Failure::Transient(text) if text == "later"));
        let delayed = reported("a backup runs", None, false, Some(30_000));
        assert!(matches!(delayed, Failure::TransientAfter { after, .. } if after == Duration::from_secs(30)));
        assert!(matches!(reported("no image", None, true, Some(5)), Failure::Terminal(text) if text == "no image"));
        let terminal = reported("reading the pods", Some(ApiReason::Forbidden), true, None);
        assert!(matches!(terminal, Failure::Terminal(_)));
        assert_eq!(text(terminal), "reading the pods: get pods: no (403 Forbidden)");
        assert_eq!(text(reported("", Some(ApiReason::Forbidden), false, None)), "get pods: no (403 Forbidden)");
        let Failure::Api(error) = reported("reading", Some(ApiReason::Conflict), false, Some(1_000)) else {
            panic!("an API error stays one")
        };
        assert_eq!((error.retry_after, &*error.message), (Some(Duration::from_secs(1)), "reading: no"));
    }

    #[test]
    fn an_object_in_another_cluster_is_nothing_that_this_host_has() {
        let reference = |cluster: Option<&str>| wit::ObjectRef {
            cluster: cluster.map(str::to_owned),
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: Some("prod".to_owned()),
            name: "a".to_owned(),
            uid: None,
        };
        assert!(object_ref(reference(None)).is_ok());
        let refused = object_ref(reference(Some("east"))).expect_err("there is one cluster");
        assert!(refused.contains("`east` is another cluster"), "{refused}");
    }

    #[test]
    fn names_are_refused_that_kubernetes_refuses_everywhere() {
        let named = |name: &str| path_segment("name", name.to_owned());
        for name in ["a b", "x?y=z", "x#y", "é", "DOMAIN\\team", "a\nb"] {
            assert_eq!(named(name).as_deref(), Ok(name));
        }
        for name in ["", ".", "..", "a/b", "a%2fb"] {
            assert!(named(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_event_without_a_reason_is_malformed() {
        let nothing = |reason: &str| wit::Event {
            regarding: None,
            related: None,
            event_type: wit::EventType::Normal,
            reason: reason.to_owned(),
            action: String::new(),
            note: String::new(),
        };
        assert!(event(nothing("")).is_err());
        assert!(event(nothing("Created")).is_ok());
    }

    #[test]
    fn the_end_of_a_field_manager_is_a_short_label() {
        for suffix in ["tls", "a", "part-2", &"x".repeat(32)] {
            assert!(manager_suffix(suffix.to_owned()).is_ok(), "{suffix}");
        }
        for suffix in ["", "-a", "a-", "A", "a/b", "a.b", "\u{e9}", &"x".repeat(33)] {
            assert!(manager_suffix(suffix.to_owned()).is_err(), "{suffix}");
        }
    }
}
