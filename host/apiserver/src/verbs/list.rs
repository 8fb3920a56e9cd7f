//! Lists: selectors, pages that all show the same state, and the rules for resource versions.

use std::sync::Arc;

use serde_json::Value;

use crate::object;
use crate::request::selector::Selectors;
use crate::request::{Continuation, Query, Target, list_options};
use crate::resources::convert;
use crate::status_error::ApiError;
use crate::storage::change_log::Forgotten;
use crate::storage::place;
use crate::storage::state::State;

/// The options of a list request.
#[derive(Debug, Default)]
pub(crate) struct ListOptions {
    selectors: Selectors,
    limit: Option<usize>,
    continuation: Option<Continuation>,
    resource_version: Option<u64>,
    /// The version must match exactly; otherwise it is a minimum.
    exact: bool,
    /// A reactor makes the list show the state at this revision.
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
        list_options::check(query, false)?;
        let selectors = Selectors::parse(&target.resource, query.get("labelSelector"), query.get("fieldSelector"))?;
        let token = query.get("continue");
        let continuation = if token.is_empty() { None } else { Some(Continuation::parse(token)?) };
        let version = query
            .resource_version()
            .map_err(|cause| ApiError::bad_request(format!("invalid resource version: {cause}")))?;
        if continuation.is_some() && version.is_some_and(|version| version != 0) {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        // A negative limit means no limit, and version 0 has no limit either.
        let limit = query.number("limit")?.filter(|limit| *limit > 0 && version != Some(0));
        let matching = query.get("resourceVersionMatch");
        let exact = matching == "Exact" || matching.is_empty() && limit.is_some();
        Ok(ListOptions {
            selectors,
            limit: limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            exact: exact && continuation.is_none() && version.is_some(),
            continuation,
            resource_version: version,
            served_at: None,
        })
    }

    /// The revision whose state is listed.
    fn revision(&self, current: u64) -> Result<u64, ApiError> {
        let asked = self.continuation.as_ref().map_or(self.resource_version, |token| token.revision);
        if let Some(asked) = asked.filter(|asked| *asked > current) {
            return Err(ApiError::future_version(asked, current));
        }
        Ok(match (asked, self.served_at) {
            (Some(asked), _) if self.exact || self.continuation.is_some() => asked,
            // A cache is at least as new as the client requires.
            (asked, Some(older)) if self.continuation.is_none() => older.max(asked.unwrap_or_default()).min(current),
            _ => current,
        })
    }

    /// The requested state has expired.
    fn too_old(&self, forgotten: Forgotten) -> ApiError {
        match &self.continuation {
            Some(token) => ApiError::expired_page(Continuation { revision: None, ..token.clone() }.text()),
            None if self.exact => ApiError::expired("The resourceVersion for the provided list is too old."),
            None => expired(forgotten),
        }
    }
}

/// A list as a real server's watch cache returns it. The cache cannot be filled while any object is unreadable.
pub(crate) fn list(state: &State, target: &Target, options: &ListOptions) -> Result<Page, ApiError> {
    let resource = &target.resource;
    list_or(state, target, options, |version| {
        let why = super::unreadable(version);
        let kind = &resource.kind;
        ApiError::initializing(&format!("failed to list {}, Kind={kind}: {why}", resource.api_version()))
    })
}

/// A list in the stored form.
pub(super) fn list_stored(state: &State, target: &Target, options: &ListOptions) -> Result<Page, ApiError> {
    list_or(state, target, options, |version| ApiError::internal(super::unreadable(version)))
}

/// A list, or the error of an object that is stored in a version that its definition no longer has.
fn list_or(
    state: &State,
    target: &Target,
    options: &ListOptions,
    gone: impl Fn(&str) -> ApiError,
) -> Result<Page, ApiError> {
    let (resource, namespace) = (&target.resource, target.namespace.as_deref());
    let revision = options.revision(state.store.revision())?;
    let start = options.continuation.as_ref().map_or("", |token| token.start.as_str());
    let stored = state.store.list_at(&resource.storage, namespace, revision, start);
    let stored = stored.map_err(|forgotten| options.too_old(forgotten))?;
    let mut page = Page { objects: Vec::new(), revision, continuation: None, remaining: None };
    for (index, found) in stored.iter().enumerate() {
        if let Some(version) = super::gone_version(resource, found) {
            return Err(gone(version));
        }
        let object = convert::for_reader(resource, found);
        if !options.selectors.matches(&object) {
            continue;
        }
        page.objects.push(object);
        if options.limit != Some(page.objects.len()) {
            continue;
        }
        let rest = stored.len() - index - 1;
        if rest > 0 {
            page.continuation = Some(Continuation::after(&place_in(namespace, found), revision).text());
            // A real server cannot know the remaining count if it still has to apply a selector.
            page.remaining = options.selectors.is_empty().then_some(rest);
        }
        break;
    }
    Ok(page)
}

/// The key of an object within the listed namespace, or within all namespaces.
fn place_in(namespace: Option<&str>, found: &Value) -> String {
    match namespace {
        Some(_) => object::name(found).to_owned(),
        None => place(object::namespace(found), object::name(found)),
    }
}

/// The state that a reactor names has expired.
pub(crate) fn expired(forgotten: Forgotten) -> ApiError {
    ApiError::expired(format!("The older state that a reactor names is forgotten ({})", forgotten.up_to))
}
