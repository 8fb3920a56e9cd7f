//! Collects complete, consistent lists: page by page, or as the beginning of a watch.

use std::collections::HashSet;
use std::sync::Arc;

use kube::Client;
use tokio::time::timeout;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::compact::Version;
use windlass_core::object::progress::Stamp;
use windlass_core::object::text::Dictionary;
use windlass_core::object::{Object, ObjectKey};

use crate::client::request::WatchStream;
use crate::discovery::Resource;
use crate::informer::error::InformerError;
use crate::informer::feed::{CompleteList, Feed};
use crate::informer::listing::{
    LIST_PAGE_TIMEOUT, PageEnd, PageSize, WHOLE_LIST_TIMEOUT, list_form, malformed, page, paged, query,
};
use crate::informer::notice::{NextNotice, Notice};
use crate::informer::packing;
use crate::informer::parse::{ObjectParser, ParseError, SeenObject};

/// The maximum number of objects that are packed together.
const PACKED_TOGETHER_MAX: usize = 512;
/// The maximum size of objects that are packed together, in bytes.
const PACKED_TOGETHER_BYTES_MAX: usize = 16 << 20;
/// After this number of objects, a new dictionary is made.
const DICTIONARY_OBJECTS_MAX: usize = 2_048;
/// A list is charged to its budgets each time that it has grown by this many bytes.
const CHARGED_TOGETHER_BYTES: usize = 256 << 10;

/// Collects the objects of one list. Its memory is charged to the cache's budgets while the list arrives. Once no
/// budget has room, the rest of the list is not read.
pub(crate) struct Collector<'a> {
    feed: &'a Feed,
    parser: &'a mut ObjectParser,
    /// Whether texts are packed as they arrive.
    packing: bool,
    dictionary: Option<Arc<Dictionary>>,
    objects: Vec<Object>,
    /// The keys of `objects`, if the watch has a `where`. Without this set, searching a long list for each excluded
    /// object would take too long.
    keys: Option<HashSet<ObjectKey>>,
    /// The size of `objects`, in bytes.
    bytes: usize,
    /// The number of bytes that were last charged.
    charged: usize,
    /// The objects in `objects` that are new and not packed yet.
    fresh: Vec<Object>,
    /// The size of `fresh`, in bytes.
    fresh_bytes: usize,
}

impl<'a> Collector<'a> {
    /// A collector for a list that fills `feed`. With `packing`, texts are packed as they arrive, so that a large list
    /// is never in memory as a whole.
    pub(crate) fn new(feed: &'a Feed, parser: &'a mut ObjectParser, packing: bool) -> Self {
        Self {
            feed,
            parser,
            packing,
            dictionary: None,
            objects: Vec::new(),
            keys: feed.spec().where_clause.is_some().then(HashSet::new),
            bytes: 0,
            charged: 0,
            fresh: Vec::new(),
            fresh_bytes: 0,
        }
    }

    /// Adds an object of the list. If the store already has the same state, the list shares the store's copy.
    fn add(&mut self, object: Object) -> Result<(), InformerError> {
        let bytes = object.whole_footprint();
        let known = self.feed.known(&object);
        if known.is_none() {
            self.fresh.push(object.clone());
            self.fresh_bytes += bytes;
        }
        if let Some(keys) = &mut self.keys {
            keys.insert(object.header.key.clone());
        }
        self.objects.push(known.unwrap_or(object));
        self.bytes += bytes;
        let is_batch = self.fresh.len() == PACKED_TOGETHER_MAX || self.fresh_bytes >= PACKED_TOGETHER_BYTES_MAX;
        if is_batch && self.fresh.len() >= packing::PACKED_OBJECTS_MIN {
            self.pack();
        }
        if self.bytes >= self.charged + CHARGED_TOGETHER_BYTES { self.charge() } else { Ok(()) }
    }

    /// Packs the objects that have arrived since the last time. Neighbours in a list are similar, so a new dictionary
    /// is made of some of them every so often.
    fn pack(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        self.fresh_bytes = 0;
        if !self.packing || fresh.len() < packing::PACKED_OBJECTS_MIN {
            return;
        }
        if self.objects.len() % DICTIONARY_OBJECTS_MAX < fresh.len() {
            self.dictionary = None;
        }
        let dictionary = self.dictionary.get_or_insert_with(|| packing::learn(fresh.len(), fresh.iter()));
        for object in &fresh {
            object.cool(dictionary);
        }
    }

    /// Removes an object of the list that has been deleted in the meantime, or that the watch's `where` excludes now.
    fn remove(&mut self, key: &ObjectKey) {
        if self.keys.as_mut().is_some_and(|keys| !keys.remove(key)) {
            return;
        }
        self.pack();
        let Self { objects, bytes, .. } = self;
        objects.retain(|object| {
            let stays = object.header.key != *key;
            if !stays {
                *bytes = bytes.saturating_sub(object.whole_footprint());
            }
            stays
        });
    }

    /// Charges the current size. An error means that no budget has room, or that there are no subscribers any more.
    fn charge(&mut self) -> Result<(), InformerError> {
        self.charged = self.bytes;
        self.feed.afford(self.bytes).map_err(InformerError::OverBudget)
    }

    /// Completes the list. The list must have a version, because a watch without one would not show deletions since the
    /// list.
    fn end(mut self, version: Version, resource: &Arc<Resource>, began: Stamp) -> Result<CompleteList, InformerError> {
        self.pack();
        if version.is_empty() {
            return Err(malformed(ParseError::NoVersion));
        }
        Ok(CompleteList { objects: self.objects, version, resource: Arc::clone(resource), began, era: None })
    }

    /// Lists the latest state of the objects of `spec`. No version is requested, so the server answers with the newest.
    pub(crate) async fn pages(
        mut self,
        client: &Client,
        spec: &WatchSpec,
        resource: &Arc<Resource>,
    ) -> Result<CompleteList, InformerError> {
        let path = resource.collection(spec.namespace.as_deref());
        let accept = list_form(spec);
        let mut began = Stamp::take();
        let (mut token, mut size) = (None::<String>, PageSize::default());
        loop {
            let uri = paged(spec, size, token.as_deref()).onto(&path);
            let answer = match page(client, &uri, accept, LIST_PAGE_TIMEOUT, |item| self.item(item)).await {
                Err(error) if token.is_some() && error.code() == Some(410) => {
                    // The pages took longer than the server keeps a version, so the whole list must be requested at
                    // once.
                    self.begin_anew();
                    began = Stamp::take();
                    page(client, &query(spec).onto(&path), accept, WHOLE_LIST_TIMEOUT, |item| self.item(item)).await
                }
                answer => answer,
            };
            let version;
            PageEnd { version, token, next_size: size } = answer?;
            self.charge()?;
            if token.is_none() {
                return self.end(version, resource, began);
            }
        }
    }

    fn begin_anew(&mut self) {
        self.objects.clear();
        self.fresh.clear();
        self.keys.iter_mut().for_each(HashSet::clear);
        (self.bytes, self.charged, self.fresh_bytes) = (0, 0, 0);
    }

    /// Adds an item. An item that cannot be parsed fails the list, because a store without it would have an undetected
    /// gap.
    fn item(&mut self, text: &str) -> Result<(), InformerError> {
        match self.parser.seen(text).map_err(malformed)? {
            SeenObject::Admitted(object) => self.add(object),
            SeenObject::Excluded(_) => Ok(()),
        }
    }

    /// Reads the initial objects of a watch [`From::Everything`](super::listing::From::Everything), which was requested
    /// right after `began`. A server without support for this never ends the list, but continues with changes.
    pub(crate) async fn stream(
        self,
        stream: &mut WatchStream,
        resource: &Arc<Resource>,
        began: Stamp,
    ) -> Result<CompleteList, InformerError> {
        timeout(WHOLE_LIST_TIMEOUT, self.beginning(stream, resource, began))
            .await
            .unwrap_or(Err(InformerError::Interrupted))
    }

    async fn beginning(
        mut self,
        stream: &mut WatchStream,
        resource: &Arc<Resource>,
        began: Stamp,
    ) -> Result<CompleteList, InformerError> {
        loop {
            let notice = match timeout(LIST_PAGE_TIMEOUT, Notice::next(stream, self.parser)).await {
                Ok(Ok(NextNotice::Notice(notice))) => notice,
                Ok(Err(error)) => return Err(error),
                Ok(Ok(NextNotice::Torn | NextNotice::End)) | Err(_) => return Err(InformerError::Interrupted),
            };
            match notice {
                Notice::Applied(object) => self.add(object)?,
                // Changes may arrive before the list's end (client-go: `Reflector.watchList`).
                Notice::Deleted(object) | Notice::Excluded(object) => self.remove(&object.header.key),
                Notice::Bookmark { version, initial_end: true } => return self.end(version, resource, began),
                Notice::Bookmark { .. } => {}
            }
        }
    }
}
