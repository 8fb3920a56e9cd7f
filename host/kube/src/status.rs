//! From a failed request to the [`ApiError`] that plugins and the outcome table see. The class comes from the server's
//! own word where it gave one, else from the HTTP status.

use kube::core::Status;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::grants::Denial;
use windlass_core::object::ObjectRef;
use windlass_core::principal::Principal;

use crate::request::RequestError;

/// What a request was about, for the errors it may end in.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) verb: &'static str,
    /// As `grants::resource_name` writes it.
    pub(crate) resource: String,
    pub(crate) object: Option<ObjectRef>,
}

impl Subject {
    /// A refusal by the host.
    pub(crate) fn refuse(&self, reason: ApiReason, message: impl Into<String>) -> ApiError {
        ApiError::refused(reason, self.verb, self.resource.clone(), self.object.clone(), message)
    }

    /// What the principal's grants do not cover.
    pub(crate) fn not_granted(&self, principal: &Principal, denial: &Denial) -> ApiError {
        self.refuse(ApiReason::NotGranted, format!("the plugin {} may not: {denial}", principal.plugin))
    }

    /// The error of a mutation whose request failed.
    pub(crate) fn mutation_failed(&self, error: &RequestError) -> ApiError {
        match error {
            RequestError::Refused { status, retry_after } => ApiError {
                code: status.code,
                reason: reason(status),
                status_reason: word(status),
                message: status.message.clone(),
                retry_after: *retry_after,
                verb: self.verb,
                resource: self.resource.clone(),
                object: self.object.clone(),
            },
            RequestError::NotSent { .. } => self.unavailable(error.to_string()),
            RequestError::Broken { .. } | RequestError::TimedOut { .. } => {
                self.refuse(ApiReason::UnknownOutcome, format!("{error}; whether it was carried out is not known"))
            }
            // The server did answer with success; only its answer is lost.
            RequestError::NotText(_) => self.refuse(ApiReason::UnknownOutcome, error.to_string()),
        }
    }

    /// The server cannot be reached; nothing was sent.
    pub(crate) fn unavailable(&self, message: String) -> ApiError {
        ApiError {
            code: 503,
            status_reason: "ServiceUnavailable".to_owned(),
            ..self.refuse(ApiReason::ServerError, message)
        }
    }
}

fn reason(status: &Status) -> ApiReason {
    match status.reason.as_str() {
        "NotFound" => ApiReason::NotFound,
        "AlreadyExists" => ApiReason::AlreadyExists,
        "Conflict" => ApiReason::Conflict,
        "Forbidden" if has_cause(status, "NamespaceTerminating") => ApiReason::NamespaceTerminating,
        "Forbidden" => ApiReason::Forbidden,
        "Invalid" => ApiReason::Invalid,
        "Gone" | "Expired" => ApiReason::Expired,
        "TooManyRequests" => ApiReason::TooManyRequests,
        "Timeout" => ApiReason::Timeout,
        "RequestEntityTooLarge" => ApiReason::TooLarge,
        "InternalError" | "ServerTimeout" | "ServiceUnavailable" => ApiReason::ServerError,
        _ => by_code(status.code),
    }
}

fn by_code(code: u16) -> ApiReason {
    match code {
        403 => ApiReason::Forbidden,
        404 => ApiReason::NotFound,
        409 => ApiReason::Conflict,
        410 => ApiReason::Expired,
        413 => ApiReason::TooLarge,
        422 => ApiReason::Invalid,
        429 => ApiReason::TooManyRequests,
        504 => ApiReason::Timeout,
        500..=599 => ApiReason::ServerError,
        _ => ApiReason::Other,
    }
}

fn word(status: &Status) -> String {
    match (status.reason.as_str(), status.code) {
        ("", 401) => "Unauthorized".to_owned(),
        ("", 400) => "BadRequest".to_owned(),
        ("", code) => by_code(code).as_str().to_owned(),
        (word, _) => word.to_owned(),
    }
}

fn has_cause(status: &Status, reason: &str) -> bool {
    status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == reason)
}

/// Whether the server refused because `metadata.uid` is another's. For patches it calls that an invalid change of an
/// immutable field.
pub(crate) fn concerns_uid(status: &Status) -> bool {
    status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.field == "metadata.uid")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(json: &str) -> Status {
        serde_json::from_str(json).expect("a status")
    }

    #[test]
    fn the_servers_word_decides_before_its_code() {
        let cases = [
            (r#"{"code":409,"reason":"AlreadyExists"}"#, ApiReason::AlreadyExists),
            (r#"{"code":409,"reason":"Conflict"}"#, ApiReason::Conflict),
            (r#"{"code":409}"#, ApiReason::Conflict),
            (r#"{"code":403,"reason":"Forbidden"}"#, ApiReason::Forbidden),
            (
                r#"{"code":403,"reason":"Forbidden","details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#,
                ApiReason::NamespaceTerminating,
            ),
            (r#"{"code":410,"reason":"Expired"}"#, ApiReason::Expired),
            (r#"{"code":500,"reason":"ServerTimeout"}"#, ApiReason::ServerError),
            (r#"{"code":504,"reason":"Timeout"}"#, ApiReason::Timeout),
            (r#"{"code":502}"#, ApiReason::ServerError),
            (r#"{"code":401,"reason":"Unauthorized"}"#, ApiReason::Other),
            (r#"{"code":413}"#, ApiReason::TooLarge),
        ];
        for (json, expected) in cases {
            assert_eq!(reason(&status(json)), expected, "{json}");
        }
    }

    #[test]
    fn the_status_reason_is_never_empty() {
        for code in [400, 401, 404, 418, 500] {
            assert!(!word(&status(&format!(r#"{{"code":{code}}}"#))).is_empty());
        }
    }
}
