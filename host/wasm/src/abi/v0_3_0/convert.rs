//! Converts between the types of WIT and those of `windlass-core`.
//!
//! Data from the guest is checked here, before any port receives it. Names become segments of URLs, so a name with a
//! slash would refer to another object or another API.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::call::ports::{Event, EventType, ListQuery};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::path_segment;
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::queue::outcome::{CallResult, Failure, Requeue};
use windlass_core::write::{
    DeleteOptions, FieldValidation, Operation, PatchType, Propagation, Subresource, WriteOptions,
};
use windlass_manifest::is_dns_label;

use super::bindings::exports::windlass::plugin::reconciler::Outcome;
use super::bindings::windlass::plugin::{cache, types as wit, writes};
use crate::request::Request;
use crate::text::{shortened, single_line};

/// The longest duration in the interface: 2³¹ − 1 ms.
const DURATION_MS_MAX: u32 = i32::MAX as u32;
/// The maximum number of failures of a call that are kept, and the maximum length of their texts.
const FAILURES_MAX: usize = 64;
pub(super) const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// The maximum length of a Kubernetes name.
const NAME_BYTES_MAX: usize = 253;
/// The maximum length of UIDs and resource versions, which only servers create.
const TOKEN_BYTES_MAX: usize = 128;
/// The maximum length of a field manager's suffix. A field manager has at most 128 characters.
const SUFFIX_BYTES_MAX: usize = 32;
/// The maximum length of selectors, pointers and page tokens, and the maximum number of pointers of a read.
const PARAMETER_BYTES_MAX: usize = 4 << 10;
const FIELDS_MAX: usize = 64;
/// The longest reason and note that `events.k8s.io/v1` accepts.
const EVENT_REASON_BYTES_MAX: usize = 128;
const EVENT_NOTE_BYTES_MAX: usize = 1024;

/// The reason why a value from a guest is refused.
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
        Ok(Outcome { requeue }) => requeue.map_or(CallResult::Done, |it| self::requeue(it).into()),
        Err(failures) => failed(failures),
    }
}

pub(super) fn requeue(requeue: wit::Requeue) -> Requeue {
    match requeue {
        wit::Requeue::AfterMs(after) => Requeue::After(milliseconds(after)),
        wit::Requeue::Backoff => Requeue::Backoff,
    }
}

/// The result of a call that reports `failures`. Duplicates are removed, because a plugin may report the same failure
/// from every place that met it.
pub(super) fn failed(failures: Vec<wit::Failure>) -> CallResult {
    let mut distinct = Vec::new();
    for failure in failures.into_iter().take(FAILURES_MAX).map(failure) {
        if !distinct.contains(&failure) {
            distinct.push(failure);
        }
    }
    CallResult::Failed(distinct)
}

fn failure(failure: wit::Failure) -> Failure {
    let wit::Failure { message, api, terminal, retry_after_ms } = failure;
    // An API error's own text needs room, too.
    let message = shortened(message, if api.is_some() { MESSAGE_BYTES_MAX / 2 } else { MESSAGE_BYTES_MAX });
    // Combines the plugin's text with that of the error.
    let with = |error: &str| match (message.is_empty(), error.is_empty()) {
        (true, _) => error.to_owned(),
        (_, true) => message.clone(),
        _ => format!("{message}: {error}"),
    };
    let (error, after) = (api.map(reported_error), retry_after_ms.map(milliseconds));
    match (error, after) {
        (Some(error), _) if terminal => Failure::Terminal(shortened(with(&error.to_string()), MESSAGE_BYTES_MAX)),
        (Some(error), after) => Failure::Api(ApiError {
            message: shortened(with(&error.message), MESSAGE_BYTES_MAX),
            // The longer of two requested delays counts.
            retry_after: after.max(error.retry_after),
            ..error
        }),
        (None, _) if terminal => Failure::Terminal(message),
        (None, Some(after)) => Failure::TransientAfter { message, after },
        (None, None) => Failure::Transient(message),
    }
}

/// An API error that the guest passes on. The guest may have invented it, but only the guest's own retries depend on
/// it.
fn reported_error(error: wit::ApiError) -> ApiError {
    ApiError {
        code: error.code,
        reason: reason_from_wit(error.reason),
        status_reason: shortened(error.status_reason, NAME_BYTES_MAX),
        message: shortened(error.message, MESSAGE_BYTES_MAX),
        retry_after: error.retry_after_ms.map(milliseconds),
        verb: known_verb(&error.verb),
        resource: shortened(error.resource, NAME_BYTES_MAX),
        // A reference to an impossible object is dropped, because it is not worth another failure.
        object: error.object.and_then(|object| object_ref(object).ok()),
    }
}

pub(crate) fn milliseconds(ms: u32) -> Duration {
    Duration::from_millis(ms.min(DURATION_MS_MAX).into())
}

fn known_verb(verb: &str) -> &'static str {
    // The SDKs report a denied HTTP request with the verb `fetch`.
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
        "kinds",
        "fetch",
    ];
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
            .map(|after| u32::try_from(after.as_millis()).unwrap_or(DURATION_MS_MAX).min(DURATION_MS_MAX)),
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

/// One line per reason, for both directions: a reason that is missing on either side does not compile.
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
        return Err(format!(
            "{} is another cluster: omit `cluster`, because this host works on a single cluster",
            quoted(&cluster)
        ));
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

/// A name that is valid as a path segment, and short enough for logs (ADR 34).
pub(crate) fn path_segment(what: &str, name: String) -> Result<Arc<str>, Malformed> {
    if name.len() > NAME_BYTES_MAX || path_segment::flaw(&name).is_some() {
        return Err(format!("{} cannot be the {what} of an object", quoted(&name)));
    }
    Ok(name.into())
}

fn token(what: &str, token: String) -> Result<Arc<str>, Malformed> {
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("{} cannot be a {what}", quoted(&token)));
    }
    Ok(token.into())
}

fn quoted(text: &str) -> String {
    format!("`{}`", single_line(text, 80))
}

/// Each pointer costs a traversal of the returned object.
pub(crate) fn check_fields(fields: Option<&[String]>) -> Result<(), Malformed> {
    let fields = fields.unwrap_or_default();
    if fields.len() > FIELDS_MAX || fields.iter().any(|pointer| pointer.len() > PARAMETER_BYTES_MAX) {
        return Err(format!("at most {FIELDS_MAX} fields of {PARAMETER_BYTES_MAX} bytes can be returned at a time"));
    }
    Ok(())
}

pub(super) fn check_limit(limit: u32) -> Result<(), Malformed> {
    if limit == 0 { Err("a list needs a `limit` of at least 1".to_owned()) } else { Ok(()) }
}

pub(crate) fn short(what: &str, text: Option<String>) -> Result<Option<String>, Malformed> {
    match text {
        Some(text) if text.len() > PARAMETER_BYTES_MAX => {
            Err(format!("the {what} is longer than {PARAMETER_BYTES_MAX} bytes"))
        }
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
    check_fields(options.fields.as_deref())?;
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
        fields: options.fields,
    })
}

/// Checks a suffix, which must fit into a field manager together with the plugin's name.
fn manager_suffix(suffix: String) -> Result<Arc<str>, Malformed> {
    if suffix.len() > SUFFIX_BYTES_MAX || !is_dns_label(&suffix) {
        let rule = "lower-case letters, digits and dashes, beginning and ending with a letter or digit";
        return Err(format!(
            "{} cannot be the suffix of a field manager: it must be up to {SUFFIX_BYTES_MAX} {rule}",
            quoted(&suffix)
        ));
    }
    Ok(suffix.into())
}

fn subresource(subresource: writes::Subresource) -> Result<Subresource, Malformed> {
    let name = subresource_name(subresource.name)?;
    Ok(Subresource { name, parent: subresource.parent.map(object_ref).transpose()? })
}

pub(super) fn subresource_name(name: String) -> Result<Arc<str>, Malformed> {
    if name.is_empty() || name.len() > 63 || !name.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Err(format!("{} is not a subresource: use one like `status`", quoted(&name)));
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
    // The server refuses such an Event, and the recorder would log a warning for each one, beyond the log limits of a
    // call.
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
        reason: shortened(event.reason, EVENT_REASON_BYTES_MAX),
        action: shortened(event.action, EVENT_REASON_BYTES_MAX),
        note: shortened(event.note, EVENT_NOTE_BYTES_MAX),
    })
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
    fn an_object_in_another_cluster_is_refused() {
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
    fn names_that_kubernetes_always_refuses_are_refused() {
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
    fn the_suffix_of_a_field_manager_is_a_short_label() {
        for suffix in ["tls", "a", "part-2", &"x".repeat(32)] {
            assert!(manager_suffix(suffix.to_owned()).is_ok(), "{suffix}");
        }
        for suffix in ["", "-a", "a-", "A", "a/b", "a.b", "\u{e9}", &"x".repeat(33)] {
            assert!(manager_suffix(suffix.to_owned()).is_err(), "{suffix}");
        }
    }
}
