//! The answers to a plugin about a write that was not sent, or whose answer cannot be parsed.

use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::withheld::WithheldWrite;
use windlass_core::write::Operation;

use crate::client::api_error::RequestSubject;
use crate::informer::parse::ParseError;

/// The error for an `operation` of a batch that was not sent because `last`, which was sent, failed. The error has the
/// reason of `last`, unless that reason is about an object, its namespace, or the outcome of a request. About this
/// operation, only one fact is known: it was not sent. A plugin that treats a missing object as deleted must not treat
/// this object as deleted.
pub(super) fn unsent_after(operation: &Operation, last: &ApiError) -> ApiError {
    let reason = match last.reason {
        ApiReason::NotFound
        | ApiReason::AlreadyExists
        | ApiReason::Expired
        | ApiReason::NamespaceTerminating
        | ApiReason::UnknownOutcome => ApiReason::ServerError,
        reason => reason,
    };
    // The code of a conflict could suggest another UID.
    let (code, status_reason) = if reason == last.reason && reason != ApiReason::Conflict {
        (last.code, last.status_reason.clone())
    } else {
        (reason.code(), reason.as_str().to_owned())
    };
    let message =
        format!("not sent because all operations of the three previous rounds failed, the last one with: {last}");
    let object = match operation {
        Operation::Patch { target, .. } | Operation::Delete { target, .. } => Some(target.clone()),
        Operation::Create { .. } | Operation::Update { .. } | Operation::Apply { .. } => None,
    };
    let (verb, resource) = (operation.verb(), String::new());
    ApiError { code, reason, status_reason, message, retry_after: last.retry_after, verb, resource, object }
}

pub(super) fn abandoned(subject: &RequestSubject) -> ApiError {
    let message = "not sent: the call ended while the write waited, as the plugin writes more often than it may";
    subject.refuse(ApiReason::TooManyRequests, message)
}

/// The error for a withheld write that was not even tried as a dry run, because of `why`.
pub(super) fn read_only(subject: &RequestSubject, withheld: &WithheldWrite, why: &str) -> ApiError {
    let WithheldWrite { effect, difference, .. } = withheld;
    let colon = if difference.is_empty() { "" } else { ": " };
    let message = format!(
        "the host runs with --read-only: nothing is changed, and there is no dry run either, because {why}. \
         The write would {} the object{colon}{difference}",
        effect.as_str()
    );
    subject.refuse(ApiReason::ReadOnly, message)
}

pub(super) fn unreadable(subject: &RequestSubject, code: u16, error: &ParseError) -> ApiError {
    let message = format!("the API server committed it (HTTP {code}), but its answer is {error}");
    subject.refuse(ApiReason::UnknownOutcome, message)
}
