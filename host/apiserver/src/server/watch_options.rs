//! The options of a watch: where it begins, what it selects, and how it answers.

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

/// How long a watch runs if it names no timeout.
const WATCH_TIMEOUT_DEFAULT: Duration = Duration::from_mins(30);
/// The longest that a watch may ask for: any number of seconds can be asked, but not all can be added to a clock.
const WATCH_TIMEOUT_MAX: Duration = Duration::from_hours(24 * 365);

/// The options of a watch request.
pub(crate) struct WatchOptions {
    pub(super) selectors: Selectors,
    pub(super) start: Start,
    pub(super) bookmarks: bool,
    /// The present state ends with a bookmark that says so.
    pub(super) marks_end_of_initial: bool,
    pub(super) timeout: Duration,
    pub(super) form: Form,
    /// A reactor has the watch begin from the state at this revision, unless it names a version itself.
    pub(crate) served_at: Option<u64>,
    pub(super) encoding: Encoding,
    pub(super) include_object: IncludeObject,
}

/// Where the watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// With the present state, which must have reached this version, as `ADDED` events.
    Initial(u64),
    /// With the changes after this version.
    After(u64),
    /// With the changes from now on.
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

    /// The event of a change for this watch: an object that begins or ceases to match is added or deleted.
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
        // An object that left the selector is shown as it was when it was last selected, at the version of the change.
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

/// A path that names an object selects it, as its field selector would.
fn field_selector(target: &Target, query: &Query) -> Result<String, ApiError> {
    let given = query.get("fieldSelector");
    match &target.name {
        None => Ok(given.to_owned()),
        Some(name) if given.is_empty() => Ok(format!("metadata.name={name}")),
        Some(name) if query.name_by_field_selector() == *name => Ok(given.to_owned()),
        Some(_) => Err(ApiError::bad_request("fieldSelector metadata.name doesn't match requested name")),
    }
}
