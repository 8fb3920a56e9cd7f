//! The errors of the SDK's calls.

use std::fmt;

use crate::bindings::windlass::plugin::types;
use crate::object::ObjectRef;

pub use types::ApiReason;

/// A text that is not the name of an [`ApiReason`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownReason(String);

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no reason `{}`", self.0)
    }
}

impl std::error::Error for UnknownReason {}

impl std::str::FromStr for ApiReason {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or_else(|| UnknownReason(text.to_owned()))
    }
}

impl ApiReason {
    /// Every reason that this SDK knows.
    pub const ALL: [Self; 17] = [
        Self::NotFound,
        Self::AlreadyExists,
        Self::Conflict,
        Self::Invalid,
        Self::Forbidden,
        Self::NotGranted,
        Self::NotWatched,
        Self::NamespaceTerminating,
        Self::TooManyRequests,
        Self::Expired,
        Self::Timeout,
        Self::UnknownOutcome,
        Self::LeaseLost,
        Self::ReadOnly,
        Self::ServerError,
        Self::TooLarge,
        Self::Other,
    ];

    /// The reason as the interface spells it, such as `not-found`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::AlreadyExists => "already-exists",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::Forbidden => "forbidden",
            Self::NotGranted => "not-granted",
            Self::NotWatched => "not-watched",
            Self::NamespaceTerminating => "namespace-terminating",
            Self::TooManyRequests => "too-many-requests",
            Self::Expired => "expired",
            Self::Timeout => "timeout",
            Self::UnknownOutcome => "unknown-outcome",
            Self::LeaseLost => "lease-lost",
            Self::ReadOnly => "read-only",
            Self::ServerError => "server-error",
            Self::TooLarge => "too-large",
            Self::Other => "other",
        }
    }
}

/// A failed request to the API server, or to the host's cache.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// The HTTP status, or the closest one if the request never reached the server.
    pub code: u16,
    /// The class of the failure, by which the host decides how to retry.
    pub reason: ApiReason,
    /// The reason as in Kubernetes' `Status.reason`. If `reason` is `Other`, this has the actual reason.
    pub status_reason: String,
    /// The message for people.
    pub message: String,
    /// The milliseconds to wait before a retry, if the server has set them.
    pub retry_after_ms: Option<u32>,
    /// The API verb, such as `get` or `patch`.
    pub verb: String,
    /// Resource, group and subresource, such as `deployments.apps/scale`.
    pub resource: String,
    /// The object, if the request was about a single object. An error of [`ApiReason::NotFound`] names it only if the
    /// object itself does not exist, not if its kind, its namespace or a subresource is missing.
    pub object: Option<ObjectRef>,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, resource, status_reason, message, .. } = self;
        match &self.object {
            Some(object) => write!(f, "{verb} {resource} {object}: {status_reason}: {message}"),
            None => write!(f, "{verb} {resource}: {status_reason}: {message}"),
        }
    }
}

impl std::error::Error for ApiError {}

impl From<types::ApiError> for ApiError {
    fn from(error: types::ApiError) -> Self {
        let types::ApiError { code, reason, status_reason, message, retry_after_ms, verb, resource, object } = error;
        Self { code, reason, status_reason, message, retry_after_ms, verb, resource, object }
    }
}

impl From<ApiError> for types::ApiError {
    fn from(error: ApiError) -> Self {
        let ApiError { code, reason, status_reason, message, retry_after_ms, verb, resource, object } = error;
        Self { code, reason, status_reason, message, retry_after_ms, verb, resource, object }
    }
}

/// JSON that does not fit the plugin's types, when read or written. It names the value by its path:
/// `.spec.ports[0].name`.
#[derive(Debug)]
pub struct JsonError {
    what: &'static str,
    source: Misfit,
}

/// Marks serde's error as a mismatch with a plugin's types. The mark is also found if an `#[error(transparent)]`
/// variant wraps the [`JsonError`]: such a variant hides the `JsonError` itself and exposes only its source.
#[derive(Debug)]
pub(crate) struct Misfit {
    message: String,
    cause: serde_json::Error,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Misfit {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

impl JsonError {
    /// The error for a value that cannot be written.
    pub(crate) fn new(what: &'static str, cause: serde_json::Error) -> Self {
        Self { what, source: Misfit { message: cause.to_string(), cause } }
    }

    /// The error for a document that cannot be read. The message calls the document `what`.
    pub(crate) fn reading(what: &'static str, message: String, cause: serde_json::Error) -> Self {
        Self { what, source: Misfit { message, cause } }
    }

    pub(crate) fn cause(&self) -> &serde_json::Error {
        &self.source.cause
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for JsonError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// The error of a read or a write.
#[derive(Debug)]
pub enum Error {
    /// The API server refused the request, or the host did.
    Api(Box<ApiError>),
    /// The object does not fit the type that it was read into or written from.
    Json(JsonError),
}

impl Error {
    /// The reason of the API error, if this is one.
    #[must_use]
    pub fn reason(&self) -> Option<ApiReason> {
        match self {
            Self::Api(error) => Some(error.reason),
            Self::Json(_) => None,
        }
    }

    /// Whether this is an API error with this `reason`.
    ///
    /// ```
    /// # use windlass_sdk::{ApiReason, Error, ObjectRef, writes};
    /// # fn forget(target: ObjectRef) -> Result<(), Error> {
    /// match writes::delete(target).send() {
    ///     Err(error) if error.is(ApiReason::NotFound) => {} // It is gone already.
    ///     deleted => drop(deleted?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is(&self, reason: ApiReason) -> bool {
        self.reason() == Some(reason)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(error) => error.fmt(f),
            Self::Json(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Api(error) => Some(&**error),
            Self::Json(error) => Some(error),
        }
    }
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Self::Api(Box::new(error))
    }
}

impl From<types::ApiError> for Error {
    fn from(error: types::ApiError) -> Self {
        ApiError::from(error).into()
    }
}

impl From<JsonError> for Error {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn refused(reason: ApiReason) -> ApiError {
        ApiError { reason, ..conflict() }
    }

    fn conflict() -> ApiError {
        ApiError {
            code: 409,
            reason: ApiReason::Conflict,
            status_reason: "Conflict".into(),
            message: "the object has been modified".into(),
            retry_after_ms: Some(10),
            verb: "patch".into(),
            resource: "deployments.apps/scale".into(),
            object: Some(ObjectRef::namespaced("apps/v1", "Deployment", "prod", "shop")),
        }
    }

    #[test]
    fn an_api_error_names_the_request_and_the_object() {
        assert_eq!(
            conflict().to_string(),
            "patch deployments.apps/scale Deployment prod/shop: Conflict: the object has been modified"
        );
    }

    #[test]
    fn an_error_is_compared_by_its_reason() {
        let error = Error::from(conflict());
        assert!(error.is(ApiReason::Conflict) && !error.is(ApiReason::NotFound));
    }

    #[test]
    fn an_api_error_is_passed_completely() {
        assert_eq!(ApiError::from(types::ApiError::from(conflict())), conflict());
    }
}
