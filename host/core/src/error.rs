//! API errors, as plugins and the host's own decisions see them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::deceptive;
use crate::object::ObjectRef;

/// The class of an [`ApiError`]; the same list as `api-reason` in `wit/types.wit`, which documents each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiReason {
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
}

impl ApiReason {
    /// Every reason. A test matches the table of outcomes against it, so that no reason is forgotten there.
    pub const ALL: [ApiReason; 17] = [
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

    /// The reason as in Kubernetes' `Status.reason`; also the metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Invalid => "Invalid",
            Self::Forbidden => "Forbidden",
            Self::NotGranted => "NotGranted",
            Self::NotWatched => "NotWatched",
            Self::NamespaceTerminating => "NamespaceTerminating",
            Self::TooManyRequests => "TooManyRequests",
            Self::Expired => "Expired",
            Self::Timeout => "Timeout",
            Self::UnknownOutcome => "UnknownOutcome",
            Self::LeaseLost => "LeaseLost",
            Self::ReadOnly => "ReadOnly",
            Self::ServerError => "ServerError",
            Self::TooLarge => "RequestEntityTooLarge",
            Self::Other => "Unknown",
        }
    }

    /// The closest HTTP status, for refusals by the host itself.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::NotFound => 404,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Invalid => 422,
            Self::Forbidden | Self::NotGranted | Self::NotWatched | Self::NamespaceTerminating | Self::ReadOnly => 403,
            Self::TooManyRequests => 429,
            Self::Expired => 410,
            Self::Timeout | Self::UnknownOutcome => 504,
            Self::LeaseLost => 503,
            Self::TooLarge => 413,
            Self::ServerError | Self::Other => 500,
        }
    }
}

/// A failed request to the API server or to the host's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status, or the closest one if the host itself refused the request.
    pub code: u16,
    /// The class, which decides about retries.
    pub reason: ApiReason,
    /// The server's own reason, never empty.
    pub status_reason: String,
    /// The message, for people.
    pub message: String,
    /// How long the server asked to wait.
    pub retry_after: Option<Duration>,
    /// The API verb, such as `get` or `patch`.
    pub verb: &'static str,
    /// Resource, group and subresource, such as `deployments.apps/scale`.
    pub resource: String,
    /// The object, if the request was about a single one. [`ApiReason::NotFound`] has this field only if this object
    /// itself is missing; see [`ApiError::is_object_missing`].
    pub object: Option<ObjectRef>,
}

impl ApiError {
    /// A refusal by the host itself. `reason` determines the code and the status reason.
    pub fn refused(
        reason: ApiReason,
        verb: &'static str,
        resource: impl Into<String>,
        object: Option<ObjectRef>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code: reason.code(),
            reason,
            status_reason: reason.as_str().to_owned(),
            message: message.into(),
            retry_after: None,
            verb,
            resource: resource.into(),
            object,
        }
    }

    /// Whether the object of the request does not exist. False if its kind, subresource or namespace is missing: such
    /// an error names no object. The rule is encoded in a field that plugins pass on, because the host judges an
    /// error only after it has passed through the guest.
    #[must_use]
    pub fn is_object_missing(&self) -> bool {
        self.reason == ApiReason::NotFound && self.object.is_some()
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.verb)?;
        if !self.resource.is_empty() {
            write!(f, " {}", self.resource)?;
        }
        if let Some(object) = &self.object {
            write!(f, " {}", object.key)?;
        }
        write!(f, ": {} ({} {})", self.message, self.code, self.status_reason)
    }
}

impl std::error::Error for ApiError {}

/// `error` and its causes on one line. Causes that an error already repeats appear once.
pub fn chained(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// As [`chained`], with deceptive characters escaped: errors quote untrusted text.
pub fn explained(error: &(dyn std::error::Error + 'static)) -> String {
    let text = chained(error);
    match deceptive::escape(&text) {
        Cow::Owned(escaped) => escaped,
        Cow::Borrowed(_) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_appears_once() {
        #[derive(Debug)]
        struct Repeats(fmt::Error, &'static str);
        impl fmt::Display for Repeats {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.1)
            }
        }
        impl std::error::Error for Repeats {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let cause = fmt::Error.to_string();
        let repeated: &'static str = format!("cannot write it: {cause}").leak();
        assert_eq!(explained(&Repeats(fmt::Error, repeated)), repeated);
        assert_eq!(explained(&Repeats(fmt::Error, "cannot write it")), repeated);
    }
}
