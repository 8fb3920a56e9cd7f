//! Reads for a plugin from the stores of its declared watches. Sends no requests.

pub(crate) mod claim;
pub(crate) mod followed;
mod list_grant;
pub(crate) mod live;
pub(crate) mod overlaid;
pub(crate) mod stamps;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use windlass_core::cache::watch::{Index, IndexSource, WatchSpec};
use windlass_core::call::ports::{CallContext, ListPage, ListQuery, Reads};
use windlass_core::call::read_set::ReadQuestion;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::pointer_tree::PointerTree;
use windlass_core::object::progress::Stamp;
use windlass_core::object::selector::{Selector, SelectorError};
use windlass_core::object::{Object, ObjectKey, ObjectKind, ObjectRef};
use windlass_core::rights::grants::{Grants, resource_name};

use crate::client::api_error::RequestSubject;
use crate::discovery::Resource;
use crate::informer::index;
use crate::informer::store::{Store, StoreScope};
use crate::reader::followed::Followed;
use crate::reader::overlaid::newer;
use crate::target::no_namespace;

/// The maximum number of objects per page of a cache's list. The size in bytes is limited too, because a guest has to
/// hold a whole page.
const CACHE_PAGE_OBJECTS_MAX: usize = 1_000;
const CACHE_PAGE_BYTES_MAX: usize = 4 << 20;

/// A declared watch that a plugin may read.
#[derive(Clone, Debug)]
pub struct Readable {
    pub spec: WatchSpec,
    pub store: Store,
    /// The declared indexes.
    pub indexes: Vec<Index>,
}

/// The cache reads of one plugin.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Watches that keep most of an object come first, so that their copy is used if several have the same state.
    watches: Vec<Readable>,
    /// The watches whose changes run keys. Empty if no writes are skipped.
    followed: Vec<Followed>,
}

impl Reader {
    /// A reader for the stores of the plugin's declared watches, and no others.
    #[must_use]
    pub fn new(mut watches: Vec<Readable>) -> Self {
        watches.sort_by_key(|watch| (watch.spec.projection.rank(), !watch.spec.managed_fields));
        Self { watches, followed: Vec::new() }
    }

    /// The same reader, which knows which changes run keys.
    #[must_use]
    pub fn following(self, followed: Vec<Followed>) -> Self {
        Self { followed, ..self }
    }

    /// The watches that may show objects of `kind` in `namespace`; `None` means in any namespace.
    pub(crate) fn covering(
        &self,
        subject: &RequestSubject,
        kind: &ObjectKind,
        namespace: Option<&str>,
    ) -> Result<Vec<&Readable>, ApiError> {
        if !self.watches.iter().any(|watch| watch.spec.kind == *kind) {
            let message = format!("no declared watch covers {kind}: add one to the manifest, or read it live");
            return Err(subject.refuse(ApiReason::NotWatched, message));
        }
        let covering = self.covering_watches(kind, namespace);
        if covering.is_empty() {
            let namespace = namespace.unwrap_or_default();
            let message = format!("no declared watch of {kind} covers the namespace {namespace}");
            return Err(subject.refuse(ApiReason::NotWatched, message));
        }
        Ok(covering)
    }
}

/// The source of the index `name` of `watches`. All of them must declare it, because otherwise the answer would lack
/// objects that only the remaining watches show.
fn declared_index<'a>(
    watches: &[&'a Readable],
    subject: &RequestSubject,
    kind: &ObjectKind,
    name: &str,
) -> Result<&'a IndexSource, ApiError> {
    let of = |watch: &&'a Readable| Index::source(&watch.indexes, name);
    let found = watches.first().and_then(of).filter(|source| watches.iter().all(|watch| of(watch) == Some(source)));
    found.ok_or_else(|| {
        let message =
            format!("not every declared watch of {kind} has this index {name:?}: add it to the manifest's watches");
        subject.refuse(ApiReason::NotWatched, message)
    })
}

impl Reads for Reader {
    fn get(
        &self,
        call: &CallContext,
        target: &ObjectRef,
        fields: Option<&[String]>,
    ) -> Result<Option<Arc<str>>, ApiError> {
        let mut subject = RequestSubject { verb: "get", resource: String::new(), object: Some(target.clone()) };
        let of_kind = self.covering(&subject, &target.kind, None)?;
        let resource = resource_of(&of_kind, &mut subject, &target.kind)?;
        let mut key = target.key.clone();
        if resource.namespaced && key.namespace.is_none() {
            // Without a namespace, the key is in the primary's namespace, as for writes.
            let none = || subject.refuse(ApiReason::Invalid, no_namespace(&resource.kind));
            key.namespace = Some(call.primary_key.namespace.clone().ok_or_else(none)?);
        }
        // Checked before the watches: if a policy has narrowed them to some namespaces, objects elsewhere are denied,
        // not missing.
        subject.check_grant(&call.principal, &resource.access(subject.verb, "", Some(&key)))?;
        let watches = self.covering(&subject, &target.kind, key.namespace.as_deref())?;
        let projection = projection(&subject, fields)?;
        let absent_since = stamps::changed_near(call, &watches, &key);
        let found = overlaid::get(&watches, call, &target.kind, &key)
            .map_err(|error| subject.unavailable(format!("{}: {error}", target.kind)))?;
        stamps::note(call, found.as_ref(), absent_since);
        let meant = |object: &Object| target.uid.as_ref().is_none_or(|uid| object.header.uid.is(uid));
        found.filter(meant).map(|object| project(&subject, &object, projection.as_ref())).transpose()
    }

    fn list(&self, call: &CallContext, query: &ListQuery) -> Result<ListPage, ApiError> {
        let mut subject = RequestSubject { verb: "list", resource: String::new(), object: None };
        let of_kind = self.covering(&subject, &query.kind, None)?;
        let resource = resource_of(&of_kind, &mut subject, &query.kind)?;
        self.check_list_grant(call, &subject, &resource, query)?;
        let watches = self.covering(&subject, &query.kind, query.namespace.as_deref())?;
        let index = query
            .index
            .as_ref()
            .map(|(name, value)| Ok((declared_index(&watches, &subject, &query.kind, name)?, value)));
        let filter = Filter::new(&subject, call, query, index.transpose()?)?;
        let mut page = PageBuilder::new(&subject, query)?;
        if query.owned && call.primary.is_none() {
            // A primary that is gone controls nothing.
            return page.finish();
        }
        let scope = filter.scope();
        let after = filter.after.as_ref();
        let own = overlaid::own(&watches, call, &query.kind)
            .map_err(|error| subject.unavailable(format!("{}: {error}", query.kind)))?;
        let mut own = own.iter().filter(|(key, _)| after.is_none_or(|after| *key > after)).peekable();
        let mut seen_bytes = 0;
        let mut add = |object: &Object| {
            seen_bytes += object.whole_footprint();
            if filter.matches(object) { page.add(object) } else { ControlFlow::Continue(()) }
        };
        let mut visit = |object: &Object| {
            let key = &object.header.key;
            while let Some((_, shown)) = own.next_if(|(own, _)| *own < key) {
                shown.iter().filter(|shown| filter.finds(shown)).try_for_each(&mut add)?;
            }
            match own.next_if(|(own, _)| *own == key) {
                Some((_, shown)) => shown.iter().filter(|shown| filter.finds(shown)).try_for_each(&mut add),
                None => add(object),
            }
        };
        // Which watch an object comes from depends on all of them, so a list of several watches has no state.
        let state = if let [watch] = watches[..] {
            watch.store.scan_state(scope, after, visit).map(Some)
        } else {
            let merged = merged(&watches, scope, after);
            let _ = merged.iter().flat_map(BTreeMap::values).try_for_each(&mut visit);
            merged.map(|_| None)
        };
        let Some(state) = state else {
            // The plugin may have been suspended while this call ran, for example. The call must not conclude that
            // there are no objects.
            return Err(subject.unavailable(format!("the watch of {} has ended, and its cache with it", query.kind)));
        };
        if !page.is_full() {
            let shown = own.filter_map(|(_, shown)| shown.as_ref()).filter(|shown| filter.finds(shown));
            let _ = shown.filter(|shown| filter.matches(shown)).try_for_each(|shown| page.add(shown));
        }
        stamps::note_list(call, &scope, state, seen_bytes);
        page.finish()
    }

    fn stamp(&self, call: &CallContext, question: &ReadQuestion) -> Option<Stamp> {
        self.stamp_of(call, question)
    }

    fn skipped(&self, call: &CallContext, kind: &ObjectKind, key: &ObjectKey) -> Option<Object> {
        self.skipped_for(call, kind, key)
    }
}

/// The key for asking grants about all objects of a namespace. A rule that lists names never allows an empty name.
pub(crate) fn whole_namespace(namespace: Arc<str>) -> ObjectKey {
    ObjectKey::namespaced(namespace, "")
}

/// The resource of the watches. Their stores know it once they have synced; before that, nothing is known about any
/// object.
pub(crate) fn resource_of(
    watches: &[&Readable],
    subject: &mut RequestSubject,
    kind: &ObjectKind,
) -> Result<Arc<Resource>, ApiError> {
    let resources: Option<Vec<_>> = watches.iter().map(|watch| watch.store.resource()).collect();
    let Some(resource) = resources.and_then(|resources| resources.into_iter().next()) else {
        return Err(subject.unavailable(format!("the cache of {kind} has not been filled yet")));
    };
    subject.resource = resource_name(resource.group(), &resource.plural, "");
    Ok(resource)
}

fn projection(subject: &RequestSubject, fields: Option<&[String]>) -> Result<Option<PointerTree>, ApiError> {
    fields.map(PointerTree::of_read).transpose().map_err(|error| subject.refuse(ApiReason::Invalid, error.to_string()))
}

fn project(subject: &RequestSubject, object: &Object, projection: Option<&PointerTree>) -> Result<Arc<str>, ApiError> {
    let Some(projection) = projection else { return Ok(object.text()) };
    let text = projection.select(&object.text());
    text.map(Arc::from).map_err(|error| subject.refuse(ApiReason::ServerError, format!("a cached object: {error}")))
}

/// `None` if a store lacks the index, or was emptied.
fn merged(
    watches: &[&Readable],
    scope: StoreScope<'_>,
    after: Option<&ObjectKey>,
) -> Option<BTreeMap<ObjectKey, Object>> {
    let mut objects: BTreeMap<ObjectKey, Object> = BTreeMap::new();
    let is_comparable = watches.iter().all(|watch| watch.store.is_comparable());
    for watch in watches {
        let is_complete = watch.store.scan_synced(scope, after, |object| {
            let key = object.header.key.clone();
            let object = match objects.remove(&key) {
                Some(other) => newer(other, object.clone(), is_comparable),
                None => object.clone(),
            };
            objects.insert(key, object);
            ControlFlow::Continue(())
        });
        if !is_complete {
            return None;
        }
    }
    Some(objects)
}

/// The objects that a list selects.
struct Filter<'a> {
    namespace: Option<&'a str>,
    selector: Selector,
    /// The UID of the primary, to list only objects that it controls.
    owner: Option<Arc<str>>,
    /// An index and the value to look up.
    index: Option<(&'a IndexSource, &'a str)>,
    after: Option<ObjectKey>,
    /// Even in a granted list of all namespaces, some objects may be hidden from the plugin.
    grants: Arc<Grants>,
}

impl<'a> Filter<'a> {
    fn new(
        subject: &RequestSubject,
        call: &CallContext,
        query: &'a ListQuery,
        index: Option<(&'a IndexSource, &'a String)>,
    ) -> Result<Self, ApiError> {
        let selector = query.label_selector.as_deref().unwrap_or_default().parse();
        let selector: Selector =
            selector.map_err(|error: SelectorError| subject.refuse(ApiReason::Invalid, error.to_string()))?;
        let after = query.page_token.as_deref().map(|token| read_token(subject, token)).transpose()?;
        let primary = call.primary.as_ref().filter(|_| query.owned);
        let owner = primary.map(|primary| primary.header.uid.text());
        if let Some((source, value)) = index {
            index::check(source, value).map_err(|error| subject.refuse(ApiReason::Invalid, error.to_string()))?;
        }
        let index = index.map(|(source, value)| (source, value.as_str()));
        let grants = call.principal.grants();
        Ok(Self { namespace: query.namespace.as_deref(), selector, owner, index, after, grants })
    }

    fn scope(&self) -> StoreScope<'_> {
        match (&self.index, &self.owner, self.namespace) {
            (Some((source, value)), _, _) => StoreScope::Index(source, value),
            (None, Some(owner), _) => StoreScope::Owned(owner),
            (None, None, Some(namespace)) => StoreScope::Namespace(namespace),
            (None, None, None) => StoreScope::All,
        }
    }

    /// Whether a scan would find this object.
    fn finds(&self, object: &Object) -> bool {
        self.index.is_none_or(|(source, value)| index::has_value(source, object, value))
    }

    fn matches(&self, object: &Object) -> bool {
        let header = &object.header;
        let is_owned = |owner: &Arc<str>| header.controller().is_some_and(|controller| controller.uid == *owner);
        self.namespace.is_none_or(|namespace| header.key.namespace.as_deref() == Some(namespace))
            && self.owner.as_ref().is_none_or(is_owned)
            && self.selector.matches(&header.labels)
            && !self.grants.hides(&header.key)
    }
}

/// Collects objects until the page is full.
struct PageBuilder<'a> {
    subject: &'a RequestSubject,
    projection: Option<PointerTree>,
    most_objects: usize,
    most_bytes: usize,
    bytes: usize,
    items: Vec<Arc<str>>,
    last: Option<ObjectKey>,
    more: bool,
    error: Option<ApiError>,
}

impl<'a> PageBuilder<'a> {
    fn new(subject: &'a RequestSubject, query: &ListQuery) -> Result<Self, ApiError> {
        if query.limit == 0 {
            return Err(subject.refuse(ApiReason::Invalid, "a page must hold at least one object: limit is 0"));
        }
        let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Self {
            subject,
            projection: projection(subject, query.fields.as_deref())?,
            most_objects: size(query.limit).min(CACHE_PAGE_OBJECTS_MAX),
            most_bytes: query.max_bytes.map_or(CACHE_PAGE_BYTES_MAX, size).min(CACHE_PAGE_BYTES_MAX),
            bytes: 0,
            items: Vec::new(),
            last: None,
            more: false,
            error: None,
        })
    }

    /// Stops at the first object that does not fit. That object begins the next page.
    fn add(&mut self, object: &Object) -> ControlFlow<()> {
        if self.items.len() == self.most_objects {
            self.more = true;
            return ControlFlow::Break(());
        }
        let text = match project(self.subject, object, self.projection.as_ref()) {
            Ok(text) => text,
            Err(error) => {
                self.error = Some(error);
                return ControlFlow::Break(());
            }
        };
        if !self.items.is_empty() && self.bytes + text.len() > self.most_bytes {
            self.more = true;
            return ControlFlow::Break(());
        }
        self.bytes += text.len();
        self.items.push(text);
        self.last = Some(object.header.key.clone());
        ControlFlow::Continue(())
    }

    /// Whether the page takes no further object.
    fn is_full(&self) -> bool {
        self.more || self.error.is_some()
    }

    fn finish(self) -> Result<ListPage, ApiError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let next_token = self.last.filter(|_| self.more).map(|key| write_token(&key));
        Ok(ListPage { items: self.items, next_token })
    }
}

/// A page token is the key after which the next page begins: `namespace/name`, or `/name` without a namespace. Neither
/// part can contain a slash.
fn write_token(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name)
}

fn read_token(subject: &RequestSubject, token: &str) -> Result<ObjectKey, ApiError> {
    match token.split_once('/') {
        Some(("", name)) => Ok(ObjectKey::cluster(name)),
        Some((namespace, name)) => Ok(ObjectKey::namespaced(namespace, name)),
        None => Err(subject.refuse(ApiReason::Expired, "the page token does not come from this host")),
    }
}
