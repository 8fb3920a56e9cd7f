//! The reasons why an informer cannot list or watch.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::object::ObjectKey;
use windlass_core::object::compact::Version;
use windlass_core::object::pointer_tree::PointerError;

use crate::client::request::RequestError;
use crate::discovery::{DiscoveryError, Resource};
use crate::informer::parse::ParseError;

/// All subscribers were stopped because the cache became too large for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

#[derive(Debug, thiserror::Error)]
pub enum InformerError {
    /// The kind has no resource.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The server cannot list or watch the resource.
    #[error("the API server cannot list and watch {}: it is not a stored resource", resource.plural)]
    NotWatchable { resource: Arc<Resource> },
    /// The projection is invalid.
    #[error(transparent)]
    Pointer(#[from] PointerError),
    #[error("the list failed: {0}")]
    List(#[source] RequestError),
    /// The server ended a list before it was complete.
    #[error("the list was interrupted before it was complete")]
    Interrupted,
    /// The watch could not be started.
    #[error("the watch failed: {0}")]
    Watch(#[source] RequestError),
    /// The server ended the watch with an error event. The code is 410 if its history does not reach back far enough.
    #[error("the watch ended with an error: {code} {reason}: {message}")]
    Ended { code: u16, reason: String, message: String },
    /// The server ended the watch right after its start.
    #[error("the API server ended the watch within {within:?} and sent no event")]
    TooShort {
        /// The time within which the watch ended.
        within: Duration,
    },
    /// The server sent an event that is larger than the host allows.
    #[error("an event of the watch is larger than {most} bytes")]
    TooLarge {
        /// The maximum size in bytes.
        most: usize,
    },
    /// The server sent data that cannot be parsed.
    #[error("a {what} of the API server cannot be read: {source}")]
    Malformed {
        /// A list or an event.
        what: &'static str,
        source: ParseError,
    },
    /// The watch went back in time, so its events cannot be trusted.
    #[error("the watch sent {key} at resourceVersion {version} after later versions")]
    Disordered { key: ObjectKey, version: Version },
    /// The server has gone back to before the cache's version, as after a restored backup.
    #[error(
        "the API server is at resourceVersion {server}, before the cache's {cache}: it seems to have been restored \
         from a backup"
    )]
    WentBack { server: Version, cache: Version },
    /// No subscriber has budget for the cache: see [`Budget::exceeded`](crate::Budget::exceeded).
    #[error("the cache is larger than the budget of every subscriber")]
    OverBudget(OverBudget),
}

impl InformerError {
    /// The HTTP status of the server's answer, or of the error event that ended a watch.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::List(error) | Self::Watch(error) => error.code(),
            Self::Ended { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the server refused to list or watch for lack of a right.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Whether the server refused a version that it has not reached: it lags or went back.
    pub(crate) fn is_ahead(&self) -> bool {
        let message = match self {
            Self::Watch(RequestError::Refused { status, .. }) => &status.message,
            Self::Ended { message, .. } => message,
            _ => return false,
        };
        message.contains("Too large resource version")
    }
}
