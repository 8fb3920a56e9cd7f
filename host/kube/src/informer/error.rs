//! The reasons why an informer cannot list or watch.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::object::ObjectKey;
use windlass_core::object::compact::Version;

use crate::client::request::RequestError;
use crate::discovery::{DiscoveryError, Resource};
use crate::informer::parse::ParseError;
use crate::informer::pointer::PointerError;

/// All subscribers have been stopped because the cache became too large for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

/// The reason why an informer cannot list or watch.
#[derive(Debug, thiserror::Error)]
pub enum InformerError {
    /// There is no resource to watch.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The server cannot list or watch the resource.
    #[error("the API server cannot list and watch {}: it is not a stored resource", resource.plural)]
    NotWatchable {
        /// The resource.
        resource: Arc<Resource>,
    },
    /// The projection is none.
    #[error(transparent)]
    Pointer(#[from] PointerError),
    /// The list failed.
    #[error("the list failed: {0}")]
    List(#[source] RequestError),
    /// The server ended a list before it was complete.
    #[error("the list was interrupted before it was complete")]
    Interrupted,
    /// The watch could not be begun.
    #[error("the watch failed: {0}")]
    Watch(#[source] RequestError),
    /// The server ended the watch with an error event; 410 when its history no longer reaches back far enough.
    #[error("the watch ended with an error: {code} {reason}: {message}")]
    Ended {
        /// The HTTP status.
        code: u16,
        /// The server's word for it.
        reason: String,
        /// The server's message.
        message: String,
    },
    /// The server ended the watch as soon as it had begun.
    #[error("the API server ended the watch within {within:?} and told nothing")]
    TooShort {
        /// The time that counts as soon.
        within: Duration,
    },
    /// The server sent an event that is longer than any that the host reads.
    #[error("an event of the watch is larger than {most} bytes")]
    TooLarge {
        /// How many bytes it may have.
        most: usize,
    },
    /// The server sent what cannot be read.
    #[error("a {what} of the API server cannot be read: {source}")]
    Malformed {
        /// A list or an event.
        what: &'static str,
        /// The error.
        source: ParseError,
    },
    /// The watch went back in time, so what it tells cannot be trusted.
    #[error("the watch told of {key} at version {version} after later versions")]
    Disordered {
        /// The object.
        key: ObjectKey,
        /// Its version.
        version: Version,
    },
    /// The server has gone back to before what the cache has seen, as after a restored backup.
    #[error(
        "the API server is at version {server}, before the cache's {cache}: it went back, as after a restored backup"
    )]
    WentBack {
        /// Where the server is.
        server: Version,
        /// Where the cache is.
        cache: Version,
    },
    /// Nobody who subscribes can afford the cache: see [`Budget::exceeded`](crate::Budget::exceeded).
    #[error("the cache is larger than any of its subscribers may have")]
    OverBudget(OverBudget),
}

impl InformerError {
    /// The HTTP status that the server answered or ended a watch with.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::List(error) | Self::Watch(error) => error.code(),
            Self::Ended { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the server refused a version that it has not come to: it lags, or went back.
    pub(crate) fn is_ahead(&self) -> bool {
        let message = match self {
            Self::Watch(RequestError::Refused { status, .. }) => &status.message,
            Self::Ended { message, .. } => message,
            _ => return false,
        };
        message.contains("Too large resource version")
    }
}
