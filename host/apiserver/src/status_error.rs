//! The errors of requests. Each becomes the `Status` object of a failed request.
//!
//! Each constructor is named after its cause, and has a real server's message, because programs and people search for
//! it. All modules that can refuse a request create these errors. Only `respond` turns them into HTTP.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::{Value, json};

use crate::cause::Cause;
use crate::object;
use crate::resources::resource::{GroupResource, ResourceType};

/// A refused request, with everything that its `Status` contains.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    code: StatusCode,
    reason: Cow<'static, str>,
    message: String,
    details: Option<Value>,
    /// The token with which the client can continue the list.
    continuation: Option<String>,
    /// True if there is no Status, and the message is the whole body.
    is_text: bool,
}

impl ApiError {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> ApiError {
        let reason = Cow::Borrowed(reason);
        ApiError { code, reason, message: message.into(), details: None, continuation: None, is_text: false }
    }

    fn about(mut self, target: &GroupResource, name: &str) -> ApiError {
        let mut details = json!({ "kind": target.plural });
        if !name.is_empty() {
            details["name"] = json!(name);
        }
        if !target.group.is_empty() {
            details["group"] = json!(target.group);
        }
        self.details = Some(details);
        self
    }

    fn with_causes(mut self, causes: Value) -> ApiError {
        self.details.get_or_insert_with(|| json!({}))["causes"] = causes;
        self
    }

    pub(crate) fn not_found(target: &GroupResource, name: &str) -> ApiError {
        let message = format!("{target} \"{name}\" not found");
        ApiError::new(StatusCode::NOT_FOUND, "NotFound", message).about(target, name)
    }

    /// The path or the kind does not exist. (If only the object is missing, the error is [`ApiError::not_found`].)
    pub(crate) fn no_such_resource() -> ApiError {
        let message = "the server could not find the requested resource";
        ApiError::new(StatusCode::NOT_FOUND, "NotFound", message).with_details()
    }

    /// The path does not exist. This is the response of Go's multiplexer, without a Status.
    pub(crate) fn no_such_page() -> ApiError {
        ApiError { is_text: true, ..ApiError::new(StatusCode::NOT_FOUND, "NotFound", "404 page not found\n") }
    }

    pub(crate) fn already_exists(target: &GroupResource, name: &str) -> ApiError {
        let message = format!("{target} \"{name}\" already exists");
        ApiError::new(StatusCode::CONFLICT, "AlreadyExists", message).about(target, name)
    }

    /// The name is in use by an object that is being deleted.
    pub(crate) fn still_terminating(target: &GroupResource, name: &str) -> ApiError {
        let message = format!("object is being deleted: {target} \"{name}\" already exists");
        ApiError::new(StatusCode::CONFLICT, "AlreadyExists", message).about(target, name)
    }

    pub(crate) fn conflict(target: &GroupResource, name: &str, why: &str) -> ApiError {
        let message = format!("Operation cannot be fulfilled on {target} \"{name}\": {why}");
        ApiError::new(StatusCode::CONFLICT, "Conflict", message).about(target, name)
    }

    /// The write is based on an older version of the object.
    pub(crate) fn modified(target: &GroupResource, name: &str) -> ApiError {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        ApiError::conflict(target, name, why)
    }

    /// A precondition of a deletion is not met. The message names the kind instead of the resource.
    pub(crate) fn precondition_of_delete(resource: &ResourceType, name: &str, why: &str) -> ApiError {
        let kind = GroupResource { plural: resource.kind.clone(), ..resource.id.clone() };
        ApiError::conflict(&kind, name, why)
    }

    /// A server-side apply conflicts with fields of other managers. There is one cause per field.
    pub(crate) fn apply_conflict(message: String, causes: &[Cause]) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, "Conflict", message).with_causes(json!(causes))
    }

    /// The object is invalid, for at least one cause.
    pub(crate) fn invalid(resource: &ResourceType, name: &str, causes: &[Cause]) -> ApiError {
        // Events belong to the core group here, even if they are written through `events.k8s.io`.
        ApiError::invalid_kind(&GroupResource::new(&resource.storage.group, &resource.kind), name, causes)
    }

    /// Like [`ApiError::invalid`], for a kind without a resource. `kind` has its group, and its name in place of the
    /// plural.
    pub(crate) fn invalid_kind(kind: &GroupResource, name: &str, causes: &[Cause]) -> ApiError {
        let what = joined(causes);
        let message = format!("{kind} \"{name}\" is invalid: {what}");
        let error = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        error.about(kind, name).with_causes(json!(causes))
    }

    /// An access review has no question that can be answered. As in a real server, the message does not name a kind.
    pub(crate) fn invalid_review(group: &str, causes: &[Cause]) -> ApiError {
        let message = format!(".{group} \"\" is invalid: {}", joined(causes));
        let mut error = ApiError::unprocessable(message);
        error.details = Some(json!({ "group": group, "causes": causes }));
        error
    }

    /// A patch is well-formed but cannot be applied. As in a real server, the message does not say why.
    pub(crate) fn unfit_patch() -> ApiError {
        ApiError::unprocessable("the server rejected our request due to an error in our request").with_details()
    }

    fn unprocessable(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    /// The result of a patch is not an object of the kind. As in a real server, the message names neither of them.
    pub(crate) fn invalid_patch(cause: &Cause) -> ApiError {
        ApiError::unprocessable(format!(" \"\" is invalid: {cause}")).with_causes(json!([cause]))
    }

    /// An option of the request is invalid. `kind` is `ListOptions` or similar.
    pub(crate) fn invalid_options(kind: &str, cause: &Cause) -> ApiError {
        ApiError::invalid_option_list(kind, std::slice::from_ref(cause))
    }

    /// At least one option is invalid.
    pub(crate) fn invalid_option_list(kind: &str, causes: &[Cause]) -> ApiError {
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: {}", in_one_line(causes));
        let mut error = ApiError::unprocessable(message);
        error.details = Some(json!({ "group": "meta.k8s.io", "kind": kind, "causes": causes }));
        error
    }

    /// A failure for which a real server's error has no reason.
    pub(crate) fn internal(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// A failure of the server itself, or of a service that it calls.
    pub(crate) fn internal_error(why: &str) -> ApiError {
        let message = format!("Internal error occurred: {why}");
        let error = ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message);
        error.with_causes(json!([{ "message": why }]))
    }

    /// A webhook denied the request. Its answer had this `Status`, or null.
    pub(crate) fn denied_by_webhook(webhook: &str, status: &Value) -> ApiError {
        let text = |key: &str| status[key].as_str().unwrap_or_default();
        let denied = format!("admission webhook {webhook:?} denied the request");
        let message = match (text("message"), text("reason")) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        let code = code.and_then(|code| StatusCode::from_u16(code).ok()).filter(|code| code.as_u16() >= 400);
        ApiError {
            reason: Cow::Owned(text("reason").to_owned()),
            details: status.get("details").filter(|details| details.is_object()).cloned(),
            ..ApiError::new(code.unwrap_or(StatusCode::BAD_REQUEST), "", message)
        }
    }

    /// A policy denied the request with this reason, by default `Invalid`.
    pub(crate) fn denied_by_policy(target: &GroupResource, name: &str, reason: &str, why: &str) -> ApiError {
        let (code, reason) = match reason {
            "Forbidden" => (StatusCode::FORBIDDEN, "Forbidden"),
            "Unauthorized" => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        };
        let message = format!("{target} \"{name}\" is forbidden: {why}");
        ApiError::new(code, reason, message).about(target, name).with_causes(json!([{ "message": why }]))
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn forbidden(target: &GroupResource, name: &str, why: &str) -> ApiError {
        let message = format!("{target} \"{name}\" is forbidden: {why}");
        ApiError::new(StatusCode::FORBIDDEN, "Forbidden", message).about(target, name)
    }

    /// The user may not make this request to `target`. For a path, the plural of `target` is empty.
    pub(crate) fn unauthorized_action(target: &GroupResource, name: &str, why: &str) -> ApiError {
        if target.plural.is_empty() {
            let message = format!("forbidden: {why}");
            return ApiError::new(StatusCode::FORBIDDEN, "Forbidden", message).with_details();
        }
        if name.is_empty() {
            let message = format!("{target} is forbidden: {why}");
            return ApiError::new(StatusCode::FORBIDDEN, "Forbidden", message).about(target, name);
        }
        ApiError::forbidden(target, name, why)
    }

    /// The client could not be authenticated.
    pub(crate) fn unauthorized() -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// The request may come from a web page, which the server does not serve.
    pub(crate) fn stranger(why: &str) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "Forbidden", why)
    }

    pub(crate) fn namespace_terminating(target: &GroupResource, name: &str, namespace: &str) -> ApiError {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        ApiError::forbidden(target, name, &why).with_causes(json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]))
    }

    pub(crate) fn method_not_allowed() -> ApiError {
        let message = "the server does not allow this method on the requested resource";
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).with_details()
    }

    pub(crate) fn not_acceptable(accepted: &str) -> ApiError {
        let message = format!("only the following media types are accepted: {accepted}");
        ApiError::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The client accepts no available form of an OpenAPI document. This response has no body.
    pub(crate) fn not_acceptable_silently() -> ApiError {
        ApiError { is_text: true, ..ApiError::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", "") }
    }

    /// The router of the built-in kinds does not know the media type. It decides this before the request is parsed.
    pub(crate) fn no_representation(available: &str) -> ApiError {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        ApiError::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message).with_details()
    }

    /// The router of the built-in kinds does not know the media type of the body.
    pub(crate) fn no_such_body() -> ApiError {
        let message = "415: Unsupported Media Type";
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message).with_details()
    }

    pub(crate) fn unsupported_media(accepted: &str) -> ApiError {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// The request took longer than its time limit.
    pub(crate) fn timeout(why: &str) -> ApiError {
        ApiError::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {why}"))
    }

    pub(crate) fn too_large(limit: usize) -> ApiError {
        ApiError::too_much(&format!("limit is {limit}"))
    }

    /// The request exceeds a limit for single requests.
    pub(crate) fn too_much(why: &str) -> ApiError {
        let message = format!("Request entity too large: {why}");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// The history that the request needs has expired.
    pub(crate) fn expired(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::GONE, "Expired", message)
    }

    /// The history that the next page of a list needs has expired. With `token`, the client can continue with the
    /// current state.
    pub(crate) fn expired_page(token: String) -> ApiError {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
                       new list without the continue parameter, or use the continue token in this response to retrieve \
                       the remainder of the results. Continuing with the provided token results in an inconsistent list \
                       - objects that were created, modified, or deleted between the time the first chunk was returned \
                       and now may show up in the list.";
        ApiError { continuation: Some(token), ..ApiError::expired(message) }
    }

    /// The request has a resource version that this server has not reached yet.
    pub(crate) fn future_version(asked: u64, current: u64) -> ApiError {
        let mut error = ApiError::timeout(&format!("Too large resource version: {asked}, current: {current}"));
        let causes = json!([{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }]);
        error.details = Some(json!({ "causes": causes, "retryAfterSeconds": 1 }));
        error
    }

    /// The client should retry later, after `retry_after` seconds if that is known. `reason` is the reason of the only
    /// cause.
    pub(crate) fn too_many_requests(message: &str, reason: &str, why: &str, retry_after: Option<u32>) -> ApiError {
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        let mut error = error.with_causes(json!([{ "reason": reason, "message": why }]));
        if let (Some(seconds), Some(details)) = (retry_after, &mut error.details) {
            details["retryAfterSeconds"] = json!(seconds);
        }
        error
    }

    /// The server cannot serve this yet.
    pub(crate) fn initializing(why: &str) -> ApiError {
        let message = format!("storage is (re)initializing: {why}");
        let details = Some(json!({ "retryAfterSeconds": 1 }));
        ApiError { details, ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message) }
    }

    /// The number of seconds after which the client should retry.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref().and_then(|details| details["retryAfterSeconds"].as_u64())
    }

    fn with_details(mut self) -> ApiError {
        self.details.get_or_insert_with(|| json!({}));
        self
    }

    /// The OpenAPI document does not exist. This response has no body.
    pub(crate) fn no_such_document() -> ApiError {
        ApiError { message: String::new(), ..ApiError::no_such_page() }
    }

    pub(crate) fn is_text(&self) -> bool {
        self.is_text
    }

    pub(crate) fn code(&self) -> StatusCode {
        self.code
    }

    /// The `Status` object.
    pub(crate) fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(token) = &self.continuation {
            status["metadata"]["continue"] = json!(token);
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

/// Joins causes like Go's `Aggregate`.
fn joined(causes: &[Cause]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in causes.iter().map(Cause::to_string) {
        // If several causes have the same text, it appears only once.
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    object::aggregate(&lines)
}

fn in_one_line(causes: &[Cause]) -> String {
    object::aggregate(&causes.iter().map(Cause::to_string).collect::<Vec<_>>())
}
