//! Decides what happens to a key after a call: a decision table, as one `match` over a value.
//!
//! It does not touch the queue; dispatch carries out the [`Decision`]. Conflicts and failures of the API server are
//! retried without being counted, because they say nothing about the plugin.

use std::fmt;
use std::time::Duration;

use crate::defect::Defect;
use crate::error::{ApiError, ApiReason};
use crate::object::{ObjectKey, ObjectKind};
use crate::queue::aggregate::Aggregate;

/// The longest wait that a server or a plugin can request with `retry-after`.
pub const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

/// The shortest wait that a plugin can request with `requeue-after`, so that a plugin that always answers 0 does not
/// spin.
pub const REQUEUE_DELAY_MIN: Duration = Duration::from_millis(10);

/// The longest summary in bytes. The summary is logged at every retry, and a plugin may report many long failures.
const SUMMARY_BYTES_MAX: usize = 4 << 10;

/// The class of a call that reached its deadline mostly because it waited for the host's answers.
pub const WAITED: &str = "waited";

/// One failed operation as reported by a plugin; as `types.failure` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An API error, passed on unchanged.
    Api(ApiError),
    Transient(String),
    /// A retry may help, but not before `after` has passed.
    TransientAfter {
        /// The text for people.
        message: String,
        /// Capped at [`RETRY_AFTER_MAX`].
        after: Duration,
    },
    /// A retry does not help until something changes.
    Terminal(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(error) => error.fmt(f),
            Self::Transient(message) | Self::TransientAfter { message, .. } | Self::Terminal(message) => {
                f.write_str(message)
            }
        }
    }
}

/// The messages of `failures` without duplicates, for a log line or an Event.
#[must_use]
pub fn summary(failures: &[Failure]) -> String {
    let Some(failures) = Aggregate::of(failures.iter().map(Some)) else {
        return "the plugin failed without saying why: an error must hold at least one failure".to_owned();
    };
    let mut text = failures.to_string();
    if text.len() > SUMMARY_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SUMMARY_BYTES_MAX));
        text.push('…');
    }
    text
}

/// When a key runs again although nothing has changed. This is not a failure. As `types.requeue` in WIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    After(Duration),
    /// After the key's backoff, which grows with each such answer in a row.
    Backoff,
}

impl From<Requeue> for CallResult {
    fn from(requeue: Requeue) -> Self {
        match requeue {
            Requeue::After(delay) => Self::RequeueAfter(delay),
            Requeue::Backoff => Self::RequeueBackoff,
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// The plugin has finished with the key.
    Done,
    /// The plugin wants to run again; this is not a failure.
    RequeueAfter(Duration),
    /// The plugin wants the key to run again after the key's backoff; this is not a failure.
    RequeueBackoff,
    /// The plugin reported failures.
    Failed(Vec<Failure>),
    /// The guest trapped, exceeded a limit, or could not be started.
    Trapped {
        /// The class, a fixed label such as `trap`, `deadline` or `memory`.
        reason: &'static str,
        /// The message, for people.
        message: String,
    },
    /// No call was made, because the operator does not want one now.
    NotCalled {
        /// The delay after which a call may be made. `None` means only after a change.
        again: Option<Duration>,
    },
}

impl CallResult {
    /// Whether the call reached its deadline because the host's answers took too long. This is a failure, but it says
    /// more about the server than about the plugin's code.
    #[must_use]
    pub fn is_wait(&self) -> bool {
        matches!(self, Self::Trapped { reason, .. } if *reason == WAITED)
    }

    /// The failure in words, or empty if there is none.
    #[must_use]
    pub fn failure(&self) -> String {
        match self {
            Self::Failed(failures) => summary(failures),
            Self::Trapped { message, .. } => message.clone(),
            Self::Done | Self::RequeueAfter(_) | Self::RequeueBackoff | Self::NotCalled { .. } => String::new(),
        }
    }
}

/// Whether a retry counts against the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The retry is one of the key's limited attempts.
    Counted,
    Uncounted,
}

/// The step to take with the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Forget the key's failures. The next event runs the key again.
    Forget,
    /// Forget the key's failures, and run it again after a delay.
    ForgetAndAddAfter(Duration),
    /// Forget the key's failures, and run it again after a backoff that grows with each such decision in a row.
    ForgetAndBackOff,
    /// Run the key again after its backoff, or after `at_least` if that is longer.
    Retry {
        /// Whether the attempt counts.
        retry: Retry,
        /// The delay that the server or the plugin requested, at most [`RETRY_AFTER_MAX`].
        at_least: Option<Duration>,
    },
    /// Forget the key and report why: it cannot succeed until its objects change.
    ForgetAndReport(String),
    /// Leave the key with its failures. Run it again after the delay, if there is one.
    Leave(Option<Duration>),
}

/// Decides about a key whose call, about the primary `kind` and `key`, ended with `result`.
#[must_use]
pub fn decide(result: &CallResult, kind: &ObjectKind, key: &ObjectKey) -> Decision {
    let failures = match result {
        CallResult::Done => return Decision::Forget,
        CallResult::RequeueAfter(delay) => return Decision::ForgetAndAddAfter((*delay).max(REQUEUE_DELAY_MIN)),
        CallResult::RequeueBackoff => return Decision::ForgetAndBackOff,
        CallResult::Trapped { .. } => return Decision::Retry { retry: Retry::Counted, at_least: None },
        CallResult::NotCalled { again } => return Decision::Leave(*again),
        CallResult::Failed(failures) => failures,
    };
    let classes = failures.iter().map(|failure| classify(failure, kind, key));
    let at_least = failures.iter().filter_map(retry_after).max();
    // Failures that can be retried take precedence over other failures, and counted failures over uncounted ones. An
    // empty list is a bug of the plugin and counts.
    match classes.max().unwrap_or(Class::Counted) {
        Class::Counted => Decision::Retry { retry: Retry::Counted, at_least },
        Class::Uncounted => Decision::Retry { retry: Retry::Uncounted, at_least },
        Class::Terminal => Decision::ForgetAndReport(summary(failures)),
        Class::Moot => Decision::Forget,
    }
}

/// In ascending order of precedence in a list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// The operation's object is being deleted or gone, or the operator does not want the operation: there is nothing
    /// to do.
    Moot,
    Terminal,
    Uncounted,
    Counted,
}

fn classify(failure: &Failure, kind: &ObjectKind, key: &ObjectKey) -> Class {
    match failure {
        Failure::Terminal(_) => Class::Terminal,
        Failure::Transient(_) | Failure::TransientAfter { .. } => Class::Counted,
        Failure::Api(error) => match error.reason {
            // The host is read-only, or the operator does not grant the operation. Retries do not change that, and
            // the object is not at fault. A change of the policies runs every primary.
            ApiReason::ReadOnly | ApiReason::NotGranted => Class::Moot,
            ApiReason::NotFound if concerns(error, kind, key) => Class::Moot,
            ApiReason::NamespaceTerminating if goes_with_primary(error, kind, key) => Class::Moot,
            ApiReason::Conflict if Defect::ConflictIsForgotten.is_seeded() => Class::Moot,
            ApiReason::Conflict
            | ApiReason::TooManyRequests
            | ApiReason::LeaseLost
            | ApiReason::ServerError
            | ApiReason::Timeout
            | ApiReason::UnknownOutcome
            // A namespace of this name may be created again, without an event for this key. A finalizer may keep the
            // namespace terminating for days, which is not the plugin's fault, so the key is never given up.
            | ApiReason::NamespaceTerminating => Class::Uncounted,
            // Includes 403 and 422: rights and schemas change without an event for this key.
            _ => Class::Counted,
        },
    }
}

fn concerns(error: &ApiError, kind: &ObjectKind, key: &ObjectKey) -> bool {
    error.object.as_ref().is_some_and(|object| object.kind == *kind && object.key == *key)
}

/// Whether the terminating namespace in the error is the primary's namespace, or the primary itself. In both cases the
/// primary is being deleted as well.
fn goes_with_primary(error: &ApiError, kind: &ObjectKind, key: &ObjectKey) -> bool {
    let Some(namespace) = error.object.as_ref().and_then(|object| object.key.namespace.as_ref()) else { return false };
    let is_namespace = &*kind.api_version == "v1" && &*kind.kind == "Namespace";
    let of_primary = if is_namespace { Some(&key.name) } else { key.namespace.as_ref() };
    of_primary == Some(namespace)
}

fn retry_after(failure: &Failure) -> Option<Duration> {
    let asked = match failure {
        Failure::Api(error) => error.retry_after,
        Failure::TransientAfter { after, .. } => Some(*after),
        Failure::Transient(_) | Failure::Terminal(_) => None,
    };
    asked.map(|delay| delay.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectRef;

    fn kind() -> ObjectKind {
        ObjectKind::new("apps.kubedojo.io/v1beta1", "WebApp")
    }

    fn key() -> ObjectKey {
        ObjectKey::namespaced("prod", "shop")
    }

    fn api(reason: ApiReason) -> Failure {
        Failure::Api(ApiError::refused(reason, "patch", "deployments.apps", None, "no"))
    }

    fn after(reason: ApiReason, seconds: u64) -> Failure {
        let Failure::Api(error) = api(reason) else { unreachable!("api() makes an API failure") };
        Failure::Api(ApiError { retry_after: Some(Duration::from_secs(seconds)), ..error })
    }

    fn about_primary(reason: ApiReason) -> Failure {
        let object = ObjectRef { kind: kind(), key: key(), uid: None };
        Failure::Api(ApiError::refused(reason, "patch", "webapps", Some(object), "gone"))
    }

    fn failed(failures: Vec<Failure>) -> Decision {
        decide(&CallResult::Failed(failures), &kind(), &key())
    }

    const COUNTED: Decision = Decision::Retry { retry: Retry::Counted, at_least: None };
    const UNCOUNTED: Decision = Decision::Retry { retry: Retry::Uncounted, at_least: None };

    #[test]
    fn done_forgets() {
        assert_eq!(decide(&CallResult::Done, &kind(), &key()), Decision::Forget);
    }

    #[test]
    fn requeue_after_forgets_and_comes_back() {
        let delay = Duration::from_secs(5);
        let decision = decide(&CallResult::RequeueAfter(delay), &kind(), &key());
        assert_eq!(decision, Decision::ForgetAndAddAfter(delay));
    }

    #[test]
    fn requeue_at_once_waits_a_little() {
        let decision = decide(&CallResult::RequeueAfter(Duration::ZERO), &kind(), &key());
        assert_eq!(decision, Decision::ForgetAndAddAfter(Duration::from_millis(10)));
    }

    #[test]
    fn requeue_with_backoff_forgets_and_backs_off() {
        assert_eq!(decide(&Requeue::Backoff.into(), &kind(), &key()), Decision::ForgetAndBackOff);
        let after = Requeue::After(Duration::from_secs(5));
        assert_eq!(CallResult::from(after), CallResult::RequeueAfter(Duration::from_secs(5)));
    }

    #[test]
    fn a_trap_is_counted() {
        let trapped = CallResult::Trapped { reason: "trap", message: "unreachable".into() };
        assert_eq!(decide(&trapped, &kind(), &key()), COUNTED);
    }

    #[test]
    fn conflicts_alone_are_not_counted() {
        assert_eq!(failed(vec![api(ApiReason::Conflict), api(ApiReason::Conflict)]), UNCOUNTED);
    }

    #[test]
    fn failures_of_the_api_server_are_not_counted() {
        for reason in [ApiReason::ServerError, ApiReason::Timeout, ApiReason::TooManyRequests] {
            assert_eq!(failed(vec![api(reason)]), UNCOUNTED, "{reason:?}");
        }
    }

    #[test]
    fn refusals_are_retried_and_counted() {
        for reason in [ApiReason::Invalid, ApiReason::Forbidden, ApiReason::NotWatched, ApiReason::NotFound] {
            assert_eq!(failed(vec![api(reason)]), COUNTED, "{reason:?}");
        }
    }

    #[test]
    fn a_request_the_operator_denies_is_no_failure_of_the_object() {
        assert_eq!(failed(vec![api(ApiReason::NotGranted)]), Decision::Forget);
    }

    #[test]
    fn a_call_that_failed_only_because_of_read_only_is_done() {
        let read_only = || api(ApiReason::ReadOnly);
        assert_eq!(failed(vec![read_only(), read_only()]), Decision::Forget);
        assert_eq!(failed(vec![read_only(), api(ApiReason::Conflict)]), UNCOUNTED);
        let terminal = failed(vec![read_only(), Failure::Terminal("x".into())]);
        assert!(matches!(terminal, Decision::ForgetAndReport(_)), "{terminal:?}");
    }

    #[test]
    fn a_primary_that_is_not_found_is_forgotten() {
        assert_eq!(failed(vec![about_primary(ApiReason::NotFound)]), Decision::Forget);
    }

    #[test]
    fn a_not_found_error_without_an_object_is_retried_and_counted() {
        let Failure::Api(named) = about_primary(ApiReason::NotFound) else { unreachable!("an API failure") };
        let unnamed = ApiError { object: None, ..named.clone() };
        assert!(named.is_object_missing() && !unnamed.is_object_missing());
        assert_eq!(failed(vec![Failure::Api(unnamed)]), COUNTED);
    }

    fn terminating(namespace: &str) -> CallResult {
        let kind = ObjectKind::new("v1", "ConfigMap");
        let object = ObjectRef { kind, key: ObjectKey::namespaced(namespace, "child"), uid: None };
        let error = ApiError::refused(ApiReason::NamespaceTerminating, "create", "configmaps", Some(object), "no");
        CallResult::Failed(vec![Failure::Api(error)])
    }

    #[test]
    fn a_primary_is_forgotten_if_its_own_namespace_terminates() {
        assert_eq!(decide(&terminating("prod"), &kind(), &key()), Decision::Forget);
        let namespace = ObjectKind::new("v1", "Namespace");
        assert_eq!(decide(&terminating("prod"), &namespace, &ObjectKey::cluster("prod")), Decision::Forget);
    }

    #[test]
    fn another_terminating_namespace_is_retried_without_being_counted() {
        let namespace = ObjectKind::new("v1", "Namespace");
        for (kind, primary) in [
            (kind(), ObjectKey::cluster("shop")),
            // A primary of another kind with the namespace's name is not that namespace.
            (kind(), ObjectKey::cluster("other")),
            (kind(), key()),
            (namespace, ObjectKey::cluster("prod")),
        ] {
            assert_eq!(decide(&terminating("other"), &kind, &primary), UNCOUNTED, "{kind} {primary}");
        }
        assert_eq!(failed(vec![api(ApiReason::NamespaceTerminating)]), UNCOUNTED, "it names no object");
    }

    #[test]
    fn terminal_failures_alone_are_reported_once_each() {
        let terminal = || Failure::Terminal("no image".into());
        assert_eq!(failed(vec![terminal(), terminal()]), Decision::ForgetAndReport("no image".into()));
    }

    #[test]
    fn anything_retryable_beats_terminal() {
        assert_eq!(failed(vec![Failure::Terminal("x".into()), api(ApiReason::Conflict)]), UNCOUNTED);
        assert_eq!(failed(vec![Failure::Terminal("x".into()), Failure::Transient("y".into())]), COUNTED);
    }

    #[test]
    fn a_summary_does_not_fill_the_log() {
        let failures: Vec<_> = (0..64).map(|i| Failure::Transient(format!("{i}{}", "ü".repeat(1000)))).collect();
        let summary = summary(&failures);
        assert!(summary.len() <= SUMMARY_BYTES_MAX + 3 && summary.ends_with('…'), "{} bytes", summary.len());
    }

    #[test]
    fn an_empty_list_is_a_counted_bug() {
        assert_eq!(failed(vec![]), COUNTED);
    }

    #[test]
    fn the_longest_retry_after_holds_within_its_bound() {
        let at_least = |seconds| Some(Duration::from_secs(seconds));
        let two = vec![after(ApiReason::TooManyRequests, 3), after(ApiReason::ServerError, 7)];
        assert_eq!(failed(two), Decision::Retry { retry: Retry::Uncounted, at_least: at_least(7) });
        let own = Failure::TransientAfter { message: "a backup runs".into(), after: Duration::from_secs(30) };
        assert_eq!(failed(vec![own]), Decision::Retry { retry: Retry::Counted, at_least: at_least(30) });
        let day = vec![after(ApiReason::TooManyRequests, 86_400)];
        assert_eq!(failed(day), Decision::Retry { retry: Retry::Uncounted, at_least: at_least(600) });
    }
}
