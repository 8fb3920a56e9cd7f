//! Lists: selectors, pages that all show the same moment, and the rules for resource versions.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::request::selector::Selectors;
use crate::request::{Query, Target};
use crate::resources::convert;
use crate::status_error::ApiError;
use crate::storage::change_log::Forgotten;
use crate::storage::state::{Listing, State};

/// The options of a list request.
#[derive(Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) selectors: Selectors,
    limit: Option<usize>,
    /// Listing and offset, from an earlier page's token.
    continuation: Option<(u64, usize)>,
    resource_version: Option<u64>,
    exact: bool,
    /// A reactor has the list served from the state at this revision.
    pub(crate) served_at: Option<u64>,
}

/// One page.
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Value>>,
    pub(crate) revision: u64,
    pub(crate) continuation: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl ListOptions {
    pub(crate) fn read(target: &Target, query: &Query) -> Result<ListOptions, ApiError> {
        let selectors = Selectors::parse(&target.resource, query.get("labelSelector"), query.get("fieldSelector"))?;
        // As for a real server, less than nothing is no limit.
        let is_negative = query.get("limit").parse().is_ok_and(|limit: i64| limit < 0);
        let limit = if is_negative { None } else { query.number("limit")?.filter(|limit| *limit > 0) };
        let token = query.get("continue");
        let resource_version = query.resource_version()?;
        let matching = query.get("resourceVersionMatch");
        if !["", "Exact", "NotOlderThan"].contains(&matching) {
            let cause = Cause::not_supported("resourceVersionMatch", &json!(matching), &["Exact", "NotOlderThan", ""]);
            return Err(ApiError::invalid_options("ListOptions", &cause));
        }
        if !matching.is_empty() && resource_version.is_none() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            return Err(invalid_option("resourceVersionMatch", why));
        }
        if !token.is_empty() && resource_version.is_some_and(|version| version != 0) {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        Ok(ListOptions {
            selectors,
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            continuation: if token.is_empty() { None } else { Some(parse_token(token)?) },
            resource_version,
            exact: matching == "Exact",
            served_at: None,
        })
    }
}

/// A combination of options that is not allowed.
pub(crate) fn invalid_option(field: &str, why: &str) -> ApiError {
    ApiError::invalid_options("ListOptions", &Cause::forbidden(field, why))
}

pub(crate) fn list(state: &mut State, target: &Target, options: &ListOptions) -> Result<Page, ApiError> {
    let (listing, id, offset) = match options.continuation {
        Some((id, offset)) => {
            let message = "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.";
            let listing = state.listings.get(id).ok_or_else(|| ApiError::expired(message))?;
            if listing.of != request(target, options) {
                return Err(invalid_token());
            }
            (listing, Some(id), offset)
        }
        None => (Arc::new(current(state, target, options)?), None, 0),
    };
    let total = listing.objects.len();
    let start = offset.min(total);
    let end = options.limit.map_or(total, |limit| start.saturating_add(limit).min(total));
    let page = |continuation, remaining| Page {
        objects: listing.objects[start..end].to_vec(),
        revision: listing.revision,
        continuation,
        remaining,
    };
    if end == total {
        return Ok(page(None, None));
    }
    let id = id.unwrap_or_else(|| state.listings.keep(Arc::clone(&listing)));
    // A real server cannot know the rest when a selector has yet to be run over it.
    let remaining = options.selectors.is_empty().then_some(total - end);
    Ok(page(Some(format_token(id, end)), remaining))
}

fn current(state: &State, target: &Target, options: &ListOptions) -> Result<Listing, ApiError> {
    let revision = state.store.revision();
    match options.resource_version {
        Some(asked) if asked > revision => return Err(ApiError::future_version(asked, revision)),
        Some(asked) if options.exact && asked != revision => {
            let message = format!("The resourceVersion for the provided list is too old: {asked} ({revision})");
            return Err(ApiError::expired(message));
        }
        _ => {}
    }
    let resource = &target.resource;
    let namespace = target.namespace.as_deref();
    // A cache is at least as new as the client asks for.
    let older = options.served_at.map(|older| older.max(options.resource_version.unwrap_or_default()));
    let older = older.filter(|older| *older < revision && !options.exact);
    let (revision, objects) = match older {
        Some(older) => (older, state.store.list_at(&resource.storage, namespace, older).map_err(expired)?),
        None => (revision, state.store.list(&resource.storage, namespace).cloned().collect()),
    };
    let objects = objects
        .iter()
        .map(|stored| convert::for_reader(resource, stored))
        .filter(|object| options.selectors.matches(object))
        .collect();
    Ok(Listing { of: request(target, options), revision, objects })
}

/// All that decides what a list shows, as a text to compare.
fn request(target: &Target, options: &ListOptions) -> String {
    let Target { resource, namespace, .. } = target;
    format!("{:?} {} {namespace:?} {:?}", resource.id, resource.version, options.selectors)
}

/// The state that a reactor names is no longer known.
pub(crate) fn expired(forgotten: Forgotten) -> ApiError {
    ApiError::expired(format!("The older state that a reactor names is forgotten ({})", forgotten.up_to))
}

fn format_token(listing: u64, offset: usize) -> String {
    format!("v1-{listing}-{offset}")
}

fn parse_token(token: &str) -> Result<(u64, usize), ApiError> {
    let parts = token.strip_prefix("v1-").and_then(|rest| rest.split_once('-'));
    let parsed = parts.and_then(|(listing, offset)| Some((listing.parse().ok()?, offset.parse().ok()?)));
    parsed.ok_or_else(invalid_token)
}

fn invalid_token() -> ApiError {
    ApiError::bad_request("invalid continue token: continue key is not valid")
}
