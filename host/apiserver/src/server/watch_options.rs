//! The options of a watch: where it starts, which objects it selects, and their form.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::object;
use crate::request::media::{Accepted, Encoding, Form};
use crate::request::selector::Selectors;
use crate::request::{Query, Target, list_options};
use crate::resources::convert;
use crate::server::represent::IncludeObject;
use crate::status_error::ApiError;
use crate::storage::change_log::{Change, ChangeKind};

/// How long a watch runs if the client does not set a timeout.
const WATCH_TIMEOUT_DEFAULT: Duration = Duration::from_mins(30);
/// The longest timeout of a watch. A client may send any number of seconds, and a very large one could overflow when
/// added to a time.
const WATCH_TIMEOUT_MAX: Duration = Duration::from_hours(24 * 365);

/// The options of a watch request.
pub(crate) struct WatchOptions {
    pub(super) selectors: Selectors,
    pub(super) start: Start,
    pub(super) bookmarks: bool,
    /// Whether a bookmark after the current objects marks their end.
    pub(super) marks_end_of_initial: bool,
    pub(super) timeout: Duration,
    pub(super) form: Form,
    /// The revision at which the watch starts because of a reactor. A version in the request takes precedence.
    pub(crate) served_at: Option<u64>,
    pub(super) encoding: Encoding,
    pub(super) include_object: IncludeObject,
}

/// The point at which a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The watch starts with the current objects as `ADDED` events. The state must have reached this version.
    Initial(u64),
    /// The watch starts with the changes after this version.
    After(u64),
    /// The watch starts with the next change.
    Now,
}

impl WatchOptions {
    pub(crate) fn read(target: &Target, query: &Query, accepted: Accepted) -> Result<WatchOptions, ApiError> {
        let fields = field_selector(target, query)?;
        let selectors = Selectors::parse(&target.resource, query.get("labelSelector"), &fields)?;
        if accepted.encoding == Encoding::Yaml {
            let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
            return Err(ApiError::not_acceptable(streams));
        }
        let bookmarks = query.flag("allowWatchBookmarks");
        list_options::check(query, true)?;
        let version = query.resource_version().map_err(|cause| ApiError::internal(cause.to_string()))?;
        let any_version = matches!(version, None | Some(0));
        let sends_initial = list_options::initial_events(query).unwrap_or(any_version);
        let start = match version {
            _ if sends_initial => Start::Initial(version.unwrap_or_default()),
            None | Some(0) => Start::Now,
            Some(version) => Start::After(version),
        };
        let timeout = query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(WatchOptions {
            selectors,
            start,
            bookmarks,
            marks_end_of_initial: sends_initial && bookmarks,
            timeout: timeout
                .filter(|seconds| *seconds > 0)
                .map_or(WATCH_TIMEOUT_DEFAULT, Duration::from_secs)
                .min(WATCH_TIMEOUT_MAX),
            form: accepted.form,
            served_at: None,
            encoding: accepted.encoding,
            include_object: IncludeObject::read(query)?,
        })
    }

    /// The event of a change for this watch. An object that starts to match counts as added, and an object that stops
    /// matching counts as deleted.
    pub(super) fn seen(&self, target: &Target, change: &Change) -> Option<(&'static str, Arc<Value>)> {
        let resource = &target.resource;
        let in_namespace = target.namespace.as_deref().is_none_or(|wanted| object::namespace(&change.object) == wanted);
        if !in_namespace {
            return None;
        }
        let selected = |stored: &Arc<Value>| self.selectors.matches(&convert::for_reader(resource, stored));
        let before = change.previous.as_ref().is_some_and(selected);
        let now = change.kind != ChangeKind::Deleted && selected(&change.object);
        let kind = match (before, now) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        // An object that no longer matches is shown in its last matching state, but with the version of the change.
        let shown = match (&change.previous, kind, change.kind) {
            (Some(previous), "DELETED", ChangeKind::Modified) => {
                let mut last = convert::for_reader(resource, previous);
                let version = json!(change.revision.to_string());
                object::metadata_mut(Arc::make_mut(&mut last)).insert("resourceVersion".to_owned(), version);
                last
            }
            _ => convert::for_reader(resource, &change.object),
        };
        Some((kind, shown))
    }
}

/// The field selector. If the path names an object, it selects that object.
fn field_selector(target: &Target, query: &Query) -> Result<String, ApiError> {
    let given = query.get("fieldSelector");
    match &target.name {
        None => Ok(given.to_owned()),
        Some(name) if given.is_empty() => Ok(format!("metadata.name={name}")),
        Some(name) if query.name_by_field_selector() == *name => Ok(given.to_owned()),
        Some(_) => Err(ApiError::bad_request("fieldSelector metadata.name doesn't match requested name")),
    }
}
