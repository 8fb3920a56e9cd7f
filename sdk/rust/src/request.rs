//! The request of a call, and its outcome.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::exports::windlass::plugin::reconciler;
use crate::bindings::windlass::plugin::types;
use crate::error::JsonError;
use crate::json;

/// The result of a reconcile without a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do until something changes.
    Done,
    /// Asks for another call after this many milliseconds. This does not count as a failure.
    RequeueAfter(u32),
    /// Asks for another call after the key's backoff, which grows with each such outcome in a row. This does not count
    /// as a failure, so the host never gives the key up.
    RequeueBackoff,
}

impl Outcome {
    /// Asks for another call after this time, which is limited to 24 days. This does not count as a failure.
    #[must_use]
    pub fn requeue_after(delay: Duration) -> Self {
        Self::RequeueAfter(milliseconds(delay))
    }
}

impl From<Outcome> for reconciler::Outcome {
    fn from(outcome: Outcome) -> Self {
        let requeue = match outcome {
            Outcome::Done => None,
            Outcome::RequeueAfter(ms) => Some(types::Requeue::AfterMs(ms)),
            Outcome::RequeueBackoff => Some(types::Requeue::Backoff),
        };
        Self { requeue }
    }
}

/// 2³¹−1, which every guest language can represent.
const DURATION_MILLIS_MAX: u32 = i32::MAX.cast_unsigned();

/// A duration in milliseconds, as the interface represents it.
pub(crate) fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).map_or(DURATION_MILLIS_MAX, |ms| ms.min(DURATION_MILLIS_MAX))
}

/// The object that a call is about, and the context of the call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// The controller's name in the manifest.
    pub controller: String,
    /// `None` for a cluster-scoped primary.
    pub namespace: Option<String>,
    /// The primary's name.
    pub name: String,
    /// The last known UID, even if the primary is deleted.
    pub uid: Option<String>,
    /// Whether the primary is being deleted and waits for its finalizers.
    pub deleting: bool,
    /// The number of counted retries of this key since its last success, initially 0.
    pub attempt: u32,
    /// The id of the trace that has this call's logs, spans and API requests.
    pub trace_id: String,
    pub(crate) object: Option<String>,
}

impl Request {
    /// A request without an object, for tests.
    pub fn new(controller: impl Into<String>, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { controller: controller.into(), namespace: Some(namespace.into()), name: name.into(), ..Self::default() }
    }

    /// Sets the primary, for tests.
    pub fn with_object<T: Serialize>(self, object: &T) -> Result<Self, JsonError> {
        let object = serde_json::to_string(object).map_err(|error| JsonError::new("the primary", error))?;
        Ok(Self { object: Some(object), ..self })
    }

    /// Marks the primary as being deleted, for tests.
    #[must_use]
    pub fn in_deletion(self) -> Self {
        Self { deleting: true, ..self }
    }

    /// Whether the primary is missing: it is not in the watch's scope, usually because it was deleted. The garbage
    /// collector deletes the objects that it owned, so a plugin only has to clean up things that it did not own.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.object.is_none()
    }

    /// The primary as cached when the call began. `None` if it is not in the watch's scope, usually because it was
    /// deleted. If its watch has [`call_fields`](crate::manifest::Watch::call_fields), only these fields of it.
    pub fn object<T: DeserializeOwned>(&self) -> Result<Option<T>, JsonError> {
        self.object.as_deref().map(|text| json::read("the primary", text)).transpose()
    }

    /// The primary as JSON text.
    #[must_use]
    pub fn object_json(&self) -> Option<&str> {
        self.object.as_deref()
    }
}

impl From<types::Request> for Request {
    fn from(request: types::Request) -> Self {
        // There is only one cluster.
        let types::Request { controller, namespace, name, uid, object, deleting, attempt, trace_id, cluster: _ } =
            request;
        Self { controller, namespace, name, uid, deleting, attempt, trace_id, object }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_request_gives_its_object_as_any_type() {
        let request = Request::new("c", "prod", "shop").with_object(&json!({"spec": 1})).unwrap();
        assert_eq!(request.object::<Value>().unwrap(), Some(json!({"spec": 1})));
        assert!(request.object::<u8>().is_err());
        assert_eq!(Request::new("c", "prod", "shop").object::<u8>().unwrap(), None);
        assert!(!request.is_gone() && Request::new("c", "prod", "shop").in_deletion().is_gone());
    }

    #[test]
    fn an_outcome_says_when_the_key_runs_again() {
        let requeue = |outcome: Outcome| reconciler::Outcome::from(outcome).requeue;
        assert_eq!(requeue(Outcome::Done), None);
        assert_eq!(requeue(Outcome::RequeueAfter(50)), Some(types::Requeue::AfterMs(50)));
        assert_eq!(requeue(Outcome::RequeueBackoff), Some(types::Requeue::Backoff));
    }

    #[test]
    fn a_delay_that_is_too_long_is_cut() {
        assert_eq!(Outcome::requeue_after(Duration::from_millis(50)), Outcome::RequeueAfter(50));
        assert_eq!(Outcome::requeue_after(Duration::MAX), Outcome::RequeueAfter(2_147_483_647));
    }
}
