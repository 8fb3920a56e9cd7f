//! Decides how to go on after the end of a list or a watch.

use std::cmp::Ordering;
use std::time::Duration;

use windlass_core::object::compact::Version;

use crate::informer::error::InformerError;
use crate::informer::status::ListReason;

/// Fails if the server's version is before the cache's.
pub(super) fn not_before(server: &Version, cache: &Version) -> Result<(), InformerError> {
    if server.compare(cache) != Some(Ordering::Less) {
        return Ok(());
    }
    Err(InformerError::WentBack { server: server.clone(), cache: cache.clone() })
}

/// Five to ten minutes, as in client-go, so that watches that started together do not end together.
pub(super) fn watch_seconds() -> u64 {
    windlass_world::random_range(300..600)
}

/// Whether the server's history does not reach back to the version from which the watch would resume.
pub(super) fn is_expired(error: &InformerError) -> bool {
    error.code() == Some(410)
}

/// The reason for a new list after the end of a watch. Without a failure, the watch was stopped in order to list.
pub(super) fn list_reason(failure: Option<&InformerError>) -> ListReason {
    match failure {
        None => ListReason::Asked,
        Some(InformerError::Discovery(_) | InformerError::NotWatchable { .. }) => ListReason::First,
        Some(InformerError::Malformed { .. } | InformerError::Disordered { .. }) => ListReason::Distrusted,
        Some(InformerError::WentBack { .. }) => ListReason::WentBack,
        Some(error) if error.is_ahead() => ListReason::WentBack,
        Some(error) if is_expired(error) => ListReason::Expired,
        Some(_) => ListReason::Refused,
    }
}

/// Whether a watch with this failure can be resumed. Any other failure needs a new list, and perhaps discovery.
pub(super) fn can_resume(error: &InformerError) -> bool {
    match error {
        InformerError::Watch(error) => error.code().is_none_or(is_passing),
        InformerError::Ended { code, .. } => is_passing(*code),
        _ => false,
    }
}

/// Whether the error is temporary: too many requests, or a server error. It says nothing about the version.
fn is_passing(code: u16) -> bool {
    code == 429 || code >= 500
}

/// Whether the server understood the request for a streaming list and does not support it.
pub(super) fn is_refusal(error: &InformerError) -> bool {
    matches!(error, InformerError::Watch(error) if matches!(error.code(), Some(400 | 405 | 406 | 422)))
}

pub(super) fn retry_after(error: &InformerError) -> Duration {
    match error {
        InformerError::List(error) | InformerError::Watch(error) => error.retry_after().unwrap_or_default(),
        _ => Duration::ZERO,
    }
}
