//! The options of a watch: where it begins, what it selects, and how it answers.

use std::time::Duration;

use crate::request::media::{Accepted, Encoding, Form};
use crate::request::selector::Selectors;
use crate::request::{Query, Target, list_options};
use crate::server::represent::IncludeObject;
use crate::status_error::ApiError;

/// How long a watch runs if it names no timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);
/// The longest that a watch may ask for: any number of seconds can be asked, but not all can be added to a clock.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(24 * 365);

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
                .map_or(DEFAULT_TIMEOUT, Duration::from_secs)
                .min(LONGEST_TIMEOUT),
            form: accepted.form,
            served_at: None,
            encoding: accepted.encoding,
            include_object: IncludeObject::read(query)?,
        })
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
