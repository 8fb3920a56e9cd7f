//! Requests lists and watches for a watch specification. [`Collector`](super::collector::Collector) builds a complete
//! list from the answers.

use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::cache::watch::{Projection, WatchSpec};
use windlass_core::cache::where_clause::WhereClause;
use windlass_core::object::Object;
use windlass_core::object::compact::Version;
use windlass_core::object::selector::ParsedSelector;

use crate::client::request::{self, ListError, Query, ReadList, WatchStream};
use crate::discovery::Resource;
use crate::informer::error::InformerError;
use crate::informer::parse::{ObjectParser, ParseError, SeenObject};

/// The maximum number of objects per page, as in client-go.
const PAGE_OBJECTS_MAX: usize = 500;
/// The desired maximum size of a page, in bytes. The server builds a page in memory, and has to send it within
/// [`LIST_PAGE_TIMEOUT`].
const PAGE_BYTES_WANTED: usize = 16 << 20;
/// The timeout for one page, and for the next event of a list that comes as a watch.
pub(super) const LIST_PAGE_TIMEOUT: Duration = Duration::from_mins(1);
/// The timeout for a list that is requested in one piece, or comes as a watch.
pub(super) const WHOLE_LIST_TIMEOUT: Duration = Duration::from_mins(5);

pub(crate) const JSON: &str = "application/json";
/// Servers that cannot return partial objects send whole ones, and the parser reduces them.
pub(crate) const PARTIAL_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=1,application/json";
pub(crate) const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=1,application/json";

/// The number of objects to request at once. It is lower if the objects have turned out to be large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSize(usize);

impl Default for PageSize {
    fn default() -> Self {
        Self(PAGE_OBJECTS_MAX)
    }
}

impl PageSize {
    /// The size of the next page after a page with `objects` objects and `bytes` bytes.
    fn after(objects: usize, bytes: usize) -> Self {
        let bytes_each = (bytes / objects.max(1)).max(1);
        Self((PAGE_BYTES_WANTED / bytes_each).clamp(1, PAGE_OBJECTS_MAX))
    }

    /// The value of the parameter `limit`.
    pub(crate) fn limit(self) -> String {
        self.0.to_string()
    }
}

/// The end of a page whose items were read.
pub(crate) struct PageEnd {
    /// The version of the list.
    pub(crate) version: Version,
    /// The token of the next page. `None` for the last page.
    pub(crate) token: Option<String>,
    /// The size of the next page.
    pub(crate) next_size: PageSize,
}

impl PageEnd {
    pub(crate) fn of(list: &ReadList) -> Result<Self, serde_json::Error> {
        let page: Page<'_> = serde_json::from_slice(&list.envelope)?;
        Ok(Self {
            version: Version::from(&*page.metadata.resource_version),
            token: page.metadata.r#continue.filter(|token| !token.is_empty()),
            next_size: PageSize::after(list.items, list.bytes),
        })
    }
}

/// A page as servers send it.
#[derive(Deserialize)]
pub(crate) struct Page<'a> {
    pub(crate) metadata: PageMetadata,
    #[serde(borrow)]
    pub(crate) items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PageMetadata {
    resource_version: String,
    /// The token of the next page. Empty or missing on the last page.
    pub(crate) r#continue: Option<String>,
}

/// The parameters that lists and watches of `spec` have in common.
pub(super) fn query(spec: &WatchSpec) -> Query {
    let mut query = Query::default();
    query.add_some("labelSelector", spec.label_selector.as_ref().map(ParsedSelector::text));
    query.add_some("fieldSelector", spec.field_selector.as_ref().map(ParsedSelector::text));
    query
}

/// Where a watch begins.
pub(crate) enum From<'a> {
    Version(&'a Version),
    /// From the current state: the watch begins with every object that exists now, as of a quorum read.
    Everything,
}

/// Starts a watch, which the server ends after `seconds`.
pub(crate) async fn watch(
    client: &Client,
    spec: &WatchSpec,
    resource: &Resource,
    from: From<'_>,
    seconds: u64,
    limit: Duration,
) -> Result<WatchStream, InformerError> {
    let mut query = query(spec);
    query.add("watch", "true");
    query.add("allowWatchBookmarks", "true");
    match from {
        From::Version(version) => query.add("resourceVersion", &version.to_string()),
        From::Everything => {
            query.add("sendInitialEvents", "true");
            query.add("resourceVersionMatch", "NotOlderThan");
        }
    }
    query.add("timeoutSeconds", &seconds.to_string());
    let accept = if needs_metadata_only(spec) { PARTIAL } else { JSON };
    let uri = query.onto(&resource.collection(spec.namespace.as_deref()));
    request::watch(client, &uri, accept, limit).await.map_err(InformerError::Watch)
}

/// The server's current version for `spec`, from a list of one object, whose version is that of a quorum read.
pub(crate) async fn newest(client: &Client, spec: &WatchSpec, resource: &Resource) -> Result<Version, InformerError> {
    let path = resource.collection(spec.namespace.as_deref());
    let one = async |mut query: Query| {
        query.add("limit", "1");
        page(client, &query.onto(&path), PARTIAL_LIST, LIST_PAGE_TIMEOUT, |_| Ok(())).await
    };
    let answer = match one(Query::default()).await {
        // A client may have the right to one name only, and then may not list other objects.
        Err(error) if error.code() == Some(403) => one(query(spec)).await,
        // The list had no selectors: any object will do, and with selectors the server might have to examine many.
        answer => answer,
    };
    let version = answer?.version;
    if version.is_empty() { Err(malformed(ParseError::NoVersion)) } else { Ok(version) }
}

/// Whether the metadata of objects are all that a watch of `spec` needs from the server.
fn needs_metadata_only(spec: &WatchSpec) -> bool {
    let clause = spec.where_clause.as_ref();
    spec.projection == Projection::Metadata && clause.is_none_or(WhereClause::reads_metadata_only)
}

/// The `Accept` header for a list of `spec`.
pub(super) fn list_form(spec: &WatchSpec) -> &'static str {
    if needs_metadata_only(spec) { PARTIAL_LIST } else { JSON }
}

/// Passes the metadata of every object of `spec` to `take`, as of one quorum read.
pub(crate) async fn metadata(
    client: &Client,
    spec: &WatchSpec,
    resource: &Resource,
    mut take: impl FnMut(&Object),
) -> Result<(), InformerError> {
    let spec = WatchSpec { projection: Projection::Metadata, ..spec.clone() };
    let mut parser = ObjectParser::new(&spec)?;
    let path = resource.collection(spec.namespace.as_deref());
    let (mut token, mut size) = (None::<String>, PageSize::default());
    loop {
        let uri = paged(&spec, size, token.as_deref()).onto(&path);
        let page = page(client, &uri, list_form(&spec), LIST_PAGE_TIMEOUT, |item| {
            if let SeenObject::Admitted(object) = parser.seen(item).map_err(malformed)? {
                take(&object);
            }
            Ok(())
        });
        PageEnd { token, next_size: size, .. } = page.await?;
        if token.is_none() {
            return Ok(());
        }
    }
}

/// The parameters of one page of the list for `spec`. The server answers the first page with its newest state, because
/// no version is requested.
pub(super) fn paged(spec: &WatchSpec, size: PageSize, token: Option<&str>) -> Query {
    let mut query = query(spec);
    query.add("limit", &size.limit());
    query.add_some("continue", token);
    query
}

/// Reads a page within `limit`, and passes each item to `take` as it arrives. An error of `take` stops the read.
pub(super) async fn page(
    client: &Client,
    uri: &str,
    accept: &str,
    limit: Duration,
    mut take: impl FnMut(&str) -> Result<(), InformerError>,
) -> Result<PageEnd, InformerError> {
    let list = request::get_list(client, uri, accept, limit, |item| take(item).map_err(PageError::Taken)).await;
    let list = list.map_err(|error| match error {
        PageError::Taken(error) => error,
        PageError::Read(ListError::Request(error)) => InformerError::List(error),
        PageError::Read(ListError::Json(error)) => malformed(error.into()),
    })?;
    PageEnd::of(&list).map_err(|error| malformed(error.into()))
}

/// The reason why a page was not read completely.
enum PageError {
    Read(ListError),
    Taken(InformerError),
}

impl std::convert::From<ListError> for PageError {
    fn from(error: ListError) -> Self {
        Self::Read(error)
    }
}

pub(super) fn malformed(source: ParseError) -> InformerError {
    InformerError::Malformed { what: "list", source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_large_objects_have_fewer() {
        let after = |objects, bytes| PageSize::after(objects, bytes).limit();
        assert_eq!(PageSize::default().limit(), "500");
        assert_eq!(after(500, 500 * 3_000), "500");
        assert_eq!(after(500, 500 << 20), "16");
        assert_eq!(after(16, 16 * 3_000), "500", "they were the exception");
        assert_eq!(after(2, 80 << 20), "1");
        assert_eq!(after(0, 100), "500");
    }
}
