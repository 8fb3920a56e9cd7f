//! Complete, consistent lists: a page at a time, or as the beginning of a watch.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;
use windlass_core::compact::Version;
use windlass_core::object::{Object, ObjectKey};
use windlass_core::progress::Stamp;
use windlass_core::text::Dictionary;
use windlass_core::watch::{Projection, WatchSpec};

use crate::client::request::{self, Line, Lines, Query};
use crate::discovery::Resource;
use crate::informer::error::InformerError;
use crate::informer::feed::{CompleteList, Feed};
use crate::informer::notice::Notice;
use crate::informer::packing;
use crate::informer::parse::{ObjectParser, ParseError};

const PAGE: &str = "500";
/// For one page, and for the next line of a list that comes as a watch.
const PAGE_LIMIT: Duration = Duration::from_mins(1);
/// For a list that is asked for in one piece, or comes as a watch.
const WHOLE_LIMIT: Duration = Duration::from_mins(5);

/// How many objects are packed together.
const BATCH: usize = 512;
/// After so many objects the dictionary is made anew.
const LEARN_EVERY: usize = 2_048;

pub(crate) const JSON: &str = "application/json";
/// Servers that cannot cut an object down send all of it, and the parser does it.
pub(crate) const PARTIAL_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=1,application/json";
pub(crate) const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=1,application/json";

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
    /// The token of the next page. Empty as good as none: this is the last one.
    pub(crate) r#continue: Option<String>,
}

/// The parameters that lists and watches of `spec` share.
fn query(spec: &WatchSpec) -> Query {
    let mut query = Query::default();
    query.add_some("labelSelector", spec.label_selector.as_deref());
    query.add_some("fieldSelector", spec.field_selector.as_deref());
    query
}

/// Where a watch begins.
pub(crate) enum From<'a> {
    /// After this version.
    Version(&'a Version),
    /// With every object that there is now, as of a quorum read.
    Everything,
}

/// Begins a watch, which the server ends after `seconds`.
pub(crate) async fn watch(
    client: &Client,
    spec: &WatchSpec,
    resource: &Resource,
    from: From<'_>,
    seconds: u64,
    limit: Duration,
) -> Result<Lines, InformerError> {
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
    let accept = if spec.projection == Projection::Metadata { PARTIAL } else { JSON };
    let uri = query.onto(&resource.collection(spec.namespace.as_deref()));
    request::watch(client, &uri, accept, limit).await.map_err(InformerError::Watch)
}

/// How far the server has come in what `spec` watches, by a list of one object, whose version is that of a quorum read.
pub(crate) async fn newest(client: &Client, spec: &WatchSpec, resource: &Resource) -> Result<Version, InformerError> {
    let path = resource.collection(spec.namespace.as_deref());
    let one = async |mut query: Query| {
        query.add("limit", "1");
        let mut page = Vec::new();
        request::get_into(client, &query.onto(&path), PARTIAL_LIST, PAGE_LIMIT, &mut page).await.map(|()| page)
    };
    let answer = match one(Query::default()).await {
        // Who may watch one name may not list the others.
        Err(error) if error.code() == Some(403) => one(query(spec)).await,
        // Any object will do: with selectors the server might have to look at many.
        answer => answer,
    };
    let page = answer.map_err(InformerError::List)?;
    let page: Page<'_> = serde_json::from_slice(&page).map_err(|error| malformed(error.into()))?;
    let version = Version::from(&*page.metadata.resource_version);
    if version.is_empty() { Err(malformed(ParseError::NoVersion)) } else { Ok(version) }
}

/// Gives `take` every object that `spec` watches, without more than its metadata, as of one quorum read.
pub(crate) async fn metadata(
    client: &Client,
    spec: &WatchSpec,
    resource: &Resource,
    mut take: impl FnMut(&Object),
) -> Result<(), InformerError> {
    let spec = WatchSpec { projection: Projection::Metadata, ..spec.clone() };
    let mut parser = ObjectParser::new(&spec)?;
    let path = resource.collection(spec.namespace.as_deref());
    let mut token: Option<String> = None;
    let mut page = Vec::new();
    loop {
        let mut query = query(&spec);
        query.add("limit", PAGE);
        query.add_some("continue", token.as_deref());
        let answer = request::get_into(client, &query.onto(&path), PARTIAL_LIST, PAGE_LIMIT, &mut page).await;
        answer.map_err(InformerError::List)?;
        let page: Page<'_> = serde_json::from_slice(&page).map_err(|error| malformed(error.into()))?;
        for item in page.items.unwrap_or_default() {
            take(&parser.object(item.get()).map_err(malformed)?);
        }
        token = page.metadata.r#continue.filter(|token| !token.is_empty());
        if token.is_none() {
            return Ok(());
        }
    }
}

fn malformed(source: ParseError) -> InformerError {
    InformerError::Malformed { what: "list", source }
}

/// Takes in the objects of one list.
pub(crate) struct Collector<'a> {
    feed: &'a Feed,
    parser: &'a mut ObjectParser,
    /// Whether texts are packed as they come.
    packing: bool,
    dictionary: Option<Arc<Dictionary>>,
    objects: Vec<Object>,
    /// The new ones among them that have not been packed.
    fresh: Vec<Object>,
    bytes: usize,
}

impl<'a> Collector<'a> {
    /// For a list that fills `feed`. With `packing`, texts are packed as they come: a large list is never whole in memory.
    pub(crate) fn new(feed: &'a Feed, parser: &'a mut ObjectParser, packing: bool) -> Self {
        Self { feed, parser, packing, dictionary: None, objects: Vec::new(), fresh: Vec::new(), bytes: 0 }
    }

    /// An object of the list. What the store has already is not kept a second time.
    fn add(&mut self, object: Object) {
        let known = self.feed.known(&object);
        if known.is_none() {
            self.fresh.push(object.clone());
        }
        self.objects.push(known.unwrap_or(object));
        if self.fresh.len() == BATCH {
            self.settle();
        }
    }

    /// Packs what has come since the last time. Neighbours in a list are alike, so every so often the dictionary is made
    /// anew, of some of them.
    fn settle(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        if self.packing && fresh.len() >= packing::FEW {
            if self.objects.len() % LEARN_EVERY < fresh.len() {
                self.dictionary = None;
            }
            let dictionary = self.dictionary.get_or_insert_with(|| packing::learn(fresh.len(), fresh.iter()));
            for object in &fresh {
                object.cool(dictionary);
            }
        }
        self.bytes += fresh.iter().map(Object::whole_footprint).sum::<usize>();
    }

    /// An object of the list has gone meanwhile.
    fn remove(&mut self, key: &ObjectKey) {
        self.settle();
        let Self { objects, bytes, .. } = self;
        objects.retain(|object| {
            let stays = object.header.key != *key;
            if !stays {
                *bytes = bytes.saturating_sub(object.whole_footprint());
            }
            stays
        });
    }

    /// Whether anybody can still afford what is there.
    fn afford(&self) -> Result<(), InformerError> {
        self.feed.afford(self.bytes).map_err(InformerError::OverBudget)
    }

    /// A watch from no version in particular would not tell what has gone since the list.
    fn end(mut self, version: Version, resource: &Arc<Resource>, began: Stamp) -> Result<CompleteList, InformerError> {
        self.settle();
        if version.is_empty() {
            return Err(malformed(ParseError::NoVersion));
        }
        Ok(CompleteList { objects: self.objects, version, resource: Arc::clone(resource), began, era: None })
    }

    /// The latest state of what `spec` watches. No version is asked for, so that the server answers with the newest.
    pub(crate) async fn pages(
        mut self,
        client: &Client,
        spec: &WatchSpec,
        resource: &Arc<Resource>,
    ) -> Result<CompleteList, InformerError> {
        let path = resource.collection(spec.namespace.as_deref());
        let accept = if spec.projection == Projection::Metadata { PARTIAL_LIST } else { JSON };
        let mut began = Stamp::take();
        let mut token: Option<String> = None;
        let mut page = Vec::new();
        loop {
            let mut query = query(spec);
            query.add("limit", PAGE);
            query.add_some("continue", token.as_deref());
            let answer = match request::get_into(client, &query.onto(&path), accept, PAGE_LIMIT, &mut page).await {
                Err(error) if token.is_some() && error.code() == Some(410) => {
                    // The pages took longer than the server keeps a version: it must be asked for all at once.
                    self.objects.clear();
                    self.fresh.clear();
                    self.bytes = 0;
                    began = Stamp::take();
                    let uri = self::query(spec).onto(&path);
                    request::get_into(client, &uri, accept, WHOLE_LIMIT, &mut page).await
                }
                answer => answer,
            };
            answer.map_err(InformerError::List)?;
            let metadata = self.page(&page)?;
            token = metadata.r#continue.filter(|token| !token.is_empty());
            if token.is_none() {
                return self.end(metadata.resource_version.as_str().into(), resource, began);
            }
        }
    }

    /// Takes in a page. An object that cannot be read fails the list: a store without it would be a silent gap.
    fn page(&mut self, text: &[u8]) -> Result<PageMetadata, InformerError> {
        let page: Page<'_> = serde_json::from_slice(text).map_err(|error| malformed(error.into()))?;
        for item in page.items.unwrap_or_default() {
            let object = self.parser.object(item.get()).map_err(malformed)?;
            self.add(object);
        }
        self.settle();
        self.afford()?;
        Ok(page.metadata)
    }

    /// The objects with which a watch from [`From::Everything`] begins, which was asked for right after `began`. A server that does not know of such lists never
    /// ends one: it goes on with what changes.
    pub(crate) async fn stream(
        self,
        lines: &mut Lines,
        resource: &Arc<Resource>,
        began: Stamp,
    ) -> Result<CompleteList, InformerError> {
        timeout(WHOLE_LIMIT, self.beginning(lines, resource, began)).await.unwrap_or(Err(InformerError::Interrupted))
    }

    async fn beginning(
        mut self,
        lines: &mut Lines,
        resource: &Arc<Resource>,
        began: Stamp,
    ) -> Result<CompleteList, InformerError> {
        loop {
            let line = match timeout(PAGE_LIMIT, lines.next()).await {
                Ok(Line::Whole(line)) => line,
                Ok(Line::Torn | Line::End) | Err(_) => return Err(InformerError::Interrupted),
            };
            match Notice::read(&line, self.parser)? {
                Notice::Applied(object) => self.add(object),
                // Changes may come in before the list's end (client-go: `Reflector.watchList`).
                Notice::Deleted(last) => self.remove(&last.header.key),
                Notice::Bookmark { version, initial_end: true } => return self.end(version, resource, began),
                Notice::Bookmark { .. } => {}
            }
            if self.fresh.is_empty() {
                self.afford()?;
            }
        }
    }
}
