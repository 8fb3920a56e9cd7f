//! Complete, consistent lists: a page at a time, or as the beginning of a watch.

use std::sync::Arc;

use kube::Client;
use tokio::time::timeout;
use windlass_core::cache::watch::{Projection, WatchSpec};
use windlass_core::object::compact::Version;
use windlass_core::object::progress::Stamp;
use windlass_core::object::text::Dictionary;
use windlass_core::object::{Object, ObjectKey};

use crate::client::request::WatchStream;
use crate::discovery::Resource;
use crate::informer::error::InformerError;
use crate::informer::feed::{CompleteList, Feed};
use crate::informer::listing::{
    JSON, LIST_PAGE_TIMEOUT, PARTIAL_LIST, PageEnd, PageSize, WHOLE_LIST_TIMEOUT, malformed, page, paged, query,
};
use crate::informer::notice::{NextNotice, Notice};
use crate::informer::packing;
use crate::informer::parse::{ObjectParser, ParseError};

/// How many objects are packed together.
const PACKED_TOGETHER_MAX: usize = 512;
/// Fewer objects are packed together if they have so many bytes.
const PACKED_TOGETHER_BYTES_MAX: usize = 16 << 20;
/// After so many objects the dictionary is made anew.
const DICTIONARY_OBJECTS_MAX: usize = 2_048;
/// A list is charged to its budgets each time that it has grown by so many bytes.
const CHARGED_TOGETHER_BYTES: usize = 256 << 10;

/// Takes in the objects of one list. What it holds is charged to those who pay for the cache while the list comes in:
/// the rest is not read once none of them can afford it.
pub(crate) struct Collector<'a> {
    feed: &'a Feed,
    parser: &'a mut ObjectParser,
    /// Whether texts are packed as they come.
    packing: bool,
    dictionary: Option<Arc<Dictionary>>,
    objects: Vec<Object>,
    /// The bytes of `objects`.
    bytes: usize,
    /// The bytes that were charged last.
    charged: usize,
    /// Those of `objects` that are new and have not been packed.
    fresh: Vec<Object>,
    /// The bytes of `fresh`.
    fresh_bytes: usize,
}

impl<'a> Collector<'a> {
    /// For a list that fills `feed`. With `packing`, texts are packed as they come: a large list is never whole in
    /// memory.
    pub(crate) fn new(feed: &'a Feed, parser: &'a mut ObjectParser, packing: bool) -> Self {
        let (objects, fresh) = (Vec::new(), Vec::new());
        Self { feed, parser, packing, dictionary: None, objects, bytes: 0, charged: 0, fresh, fresh_bytes: 0 }
    }

    /// An object of the list. What the store has already is not kept a second time.
    fn add(&mut self, object: Object) -> Result<(), InformerError> {
        let bytes = object.whole_footprint();
        let known = self.feed.known(&object);
        if known.is_none() {
            self.fresh.push(object.clone());
            self.fresh_bytes += bytes;
        }
        self.objects.push(known.unwrap_or(object));
        self.bytes += bytes;
        let is_batch = self.fresh.len() == PACKED_TOGETHER_MAX || self.fresh_bytes >= PACKED_TOGETHER_BYTES_MAX;
        if is_batch && self.fresh.len() >= packing::PACKED_OBJECTS_MIN {
            self.pack();
        }
        if self.bytes >= self.charged + CHARGED_TOGETHER_BYTES { self.charge() } else { Ok(()) }
    }

    /// Packs what has come since the last time. Neighbours in a list are alike, so every so often the dictionary is
    /// made anew, of some of them.
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

    /// An object of the list has gone meanwhile.
    fn remove(&mut self, key: &ObjectKey) {
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

    /// Charges what is there. An error if nobody can afford it, or nobody waits for it any more.
    fn charge(&mut self) -> Result<(), InformerError> {
        self.charged = self.bytes;
        self.feed.afford(self.bytes).map_err(InformerError::OverBudget)
    }

    /// A watch from no version in particular would not tell what has gone since the list.
    fn end(mut self, version: Version, resource: &Arc<Resource>, began: Stamp) -> Result<CompleteList, InformerError> {
        self.pack();
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
        let (mut token, mut size) = (None::<String>, PageSize::default());
        loop {
            let uri = paged(spec, size, token.as_deref()).onto(&path);
            let answer = match page(client, &uri, accept, LIST_PAGE_TIMEOUT, |item| self.item(item)).await {
                Err(error) if token.is_some() && error.code() == Some(410) => {
                    // The pages took longer than the server keeps a version: it must be asked for all at once.
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
        (self.bytes, self.charged, self.fresh_bytes) = (0, 0, 0);
    }

    /// Takes in an item. One that cannot be read fails the list: a store without it would be a silent gap.
    fn item(&mut self, text: &str) -> Result<(), InformerError> {
        let object = self.parser.object(text).map_err(malformed)?;
        self.add(object)
    }

    /// The objects with which a watch from [`From::Everything`](super::listing::From::Everything) begins, which was
    /// asked for right after `began`. A server that does not know of such lists never ends one: it goes on with what
    /// changes.
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
                // Changes may come in before the list's end (client-go: `Reflector.watchList`).
                Notice::Deleted(last) => self.remove(&last.header.key),
                Notice::Bookmark { version, initial_end: true } => return self.end(version, resource, began),
                Notice::Bookmark { .. } => {}
            }
        }
    }
}
