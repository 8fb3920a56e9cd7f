//! One list+watch per watch specification, shared by all who subscribe to it (invariant 5).
//!
//! An informer lists once and then watches. It resumes from the last version that it has seen, and lists again only when
//! that is no longer possible or the server sent something that cannot be trusted; then the list is compared with the
//! store, so that subscribers hear of what they missed. There is never a silent gap.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_core::object::Object;
use windlass_core::watch::WatchSpec;

use crate::backoff::Backoff;
use crate::discovery::{Discovery, DiscoveryError, Resource};
use crate::feed::{Feed, Subscription};
use crate::listing;
use crate::parse::{self, ParseError};
use crate::request::{self, Line, RequestError};

/// How long an informer outlives its last subscriber.
const LINGER: Duration = Duration::from_mins(1);
/// For the beginning of a watch's answer.
const WATCH_START: Duration = Duration::from_secs(30);
/// How much longer than asked for a watch may last, in case its connection is dead.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// A watch that the server ends sooner counts as a failure, or it would be begun again without pause.
const SHORT: Duration = Duration::from_secs(1);
/// The longest wait that a server's Retry-After is believed.
const MOST_RETRY_AFTER: Duration = Duration::from_mins(10);

/// What keeps an informer from listing or watching.
#[derive(Debug, thiserror::Error)]
pub enum InformerError {
    /// There is no resource to watch.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The server cannot list or watch the resource.
    #[error("the API server cannot list and watch {}: it is not a stored resource", resource.plural)]
    NotWatchable {
        /// The resource.
        resource: Arc<Resource>,
    },
    /// The list failed.
    #[error("the list failed: {0}")]
    List(#[source] RequestError),
    /// The watch could not be begun.
    #[error("the watch failed: {0}")]
    Watch(#[source] RequestError),
    /// The server ended the watch with an error event; 410 when its history no longer reaches back far enough.
    #[error("the watch ended with an error: {code} {reason}: {message}")]
    Ended {
        /// The HTTP status.
        code: u16,
        /// The server's word for it.
        reason: String,
        /// What it says.
        message: String,
    },
    /// The server ended the watch as soon as it had begun.
    #[error("the API server ended the watch within {SHORT:?}")]
    TooShort,
    /// The server sent what cannot be read.
    #[error("a {what} of the API server cannot be read: {source}")]
    Malformed {
        /// A list or an event.
        what: &'static str,
        /// What is wrong.
        source: ParseError,
    },
}

/// How an informer is doing.
#[derive(Clone, Debug, Default)]
pub struct InformerStatus {
    /// The first complete list is in the store.
    pub synced: bool,
    /// The informers were stopped; no more events come.
    pub stopped: bool,
    /// What fails right now. None: all is well, or nothing has failed yet.
    pub error: Option<Arc<InformerError>>,
    /// How many complete lists were taken over.
    pub lists: u64,
    /// How many lists, events and half lines could not be read.
    pub malformed: u64,
}

/// All informers of the process. Clones share them; when the last clone is dropped, they stop.
#[derive(Clone)]
pub struct Informers {
    shared: Arc<Shared>,
    _stop: Arc<DropGuard>,
}

struct Shared {
    client: Client,
    discovery: Discovery,
    runtime: Handle,
    stop: CancellationToken,
    running: Mutex<HashMap<WatchSpec, Arc<Feed>>>,
}

impl Informers {
    /// No informer runs yet. They will run on the tokio runtime that this is called on.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(client: Client, discovery: Discovery) -> Self {
        let stop = CancellationToken::new();
        let guard = Arc::new(stop.clone().drop_guard());
        let shared = Shared { client, discovery, runtime: Handle::current(), stop, running: Mutex::default() };
        Self { shared: Arc::new(shared), _stop: guard }
    }

    /// Subscribes to what `spec` watches. The first subscriber starts the informer; it stops a minute after the last has
    /// gone.
    #[must_use]
    pub fn subscribe(&self, spec: WatchSpec) -> Subscription {
        let mut running = self.shared.running();
        let feed = running.entry(spec).or_insert_with_key(|spec| {
            let feed = Arc::new(Feed::new());
            let task = run(Arc::clone(&self.shared), spec.clone(), Arc::clone(&feed));
            self.shared.runtime.spawn(task);
            feed
        });
        feed.subscribe()
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, HashMap<WatchSpec, Arc<Feed>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when `feed` has had no subscriber for a while; then nobody can find it any more.
    async fn unused(&self, spec: &WatchSpec, feed: &Feed) {
        let mut count = feed.subscriber_count();
        loop {
            // The sender is in `feed`: neither wait can fail.
            let _ = count.wait_for(|count| *count == 0).await;
            tokio::select! {
                () = sleep(LINGER) => {}
                _ = count.wait_for(|count| *count > 0) => continue,
            }
            // New subscribers come under the same lock, so none can slip in between the look and the removal.
            let mut running = self.running();
            if *count.borrow() == 0 {
                running.remove(spec);
                return;
            }
        }
    }
}

async fn run(shared: Arc<Shared>, spec: WatchSpec, feed: Arc<Feed>) {
    let informer = Informer {
        client: shared.client.clone(),
        discovery: shared.discovery.clone(),
        feed: Arc::clone(&feed),
        logged: None,
        spec,
    };
    let spec = informer.spec.clone();
    tokio::select! {
        () = informer.run() => {}
        () = shared.unused(&spec, &feed) => tracing::debug!(watch = %spec, "nobody subscribes any more; the watch stops"),
        () = shared.stop.cancelled() => {}
    }
    feed.close();
}

/// The task of one informer.
struct Informer {
    client: Client,
    discovery: Discovery,
    spec: WatchSpec,
    feed: Arc<Feed>,
    /// The trouble that the log knows of, so that it is not told at each attempt.
    logged: Option<String>,
}

/// Where to go on: watch from this version, or list if there is none.
type Resume = Option<Arc<str>>;

/// How a list or a watch ended.
struct Step {
    resume: Resume,
    /// None: as it should.
    failure: Option<InformerError>,
}

impl Informer {
    async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut resume = None;
        loop {
            let step = match resume {
                None => self.list().await,
                Some(version) => self.watch(version).await,
            };
            resume = step.resume;
            if let Some(error) = step.failure {
                let asked = retry_after(&error).min(MOST_RETRY_AFTER);
                self.report(error);
                sleep(backoff.next(Instant::now()).max(asked)).await;
            }
        }
    }

    async fn list(&mut self) -> Step {
        match self.try_list().await {
            Ok(version) => {
                self.recovered();
                Step { resume: Some(version), failure: None }
            }
            Err(error) => Step { resume: None, failure: Some(error) },
        }
    }

    async fn try_list(&self) -> Result<Arc<str>, InformerError> {
        let resource = self.discovery.resolve(&self.spec.kind).await?;
        let can = |verb: &str| resource.verbs.iter().any(|listed| listed == verb);
        if !can("list") || !can("watch") {
            return Err(InformerError::NotWatchable { resource });
        }
        let listing = listing::list(&self.client, &self.spec, &resource).await;
        if matches!(&listing, Err(InformerError::List(error)) if error.code() == Some(404)) {
            // What discovery knows may be gone, or be served by another name.
            self.discovery.doubt(&self.spec.kind);
        }
        let listing = listing?;
        tracing::debug!(watch = %self.spec, objects = listing.objects.len(), version = %listing.version, "listed");
        self.feed.replace(listing.objects, resource);
        Ok(listing.version)
    }

    async fn watch(&mut self, mut version: Arc<str>) -> Step {
        let seconds = rand::random_range(300..600);
        let mut lines = match self.begin_watch(&version, seconds).await {
            Ok(lines) => lines,
            Err(error) => {
                let resume = can_resume(&error).then_some(version);
                return Step { resume, failure: Some(error) };
            }
        };
        self.recovered();
        let began = Instant::now();
        let deadline = began + Duration::from_secs(seconds) + WATCH_GRACE;
        loop {
            match timeout_at(deadline, lines.next()).await {
                Ok(Line::Whole(line)) => match self.take(&line) {
                    Ok(Some(seen)) => version = seen,
                    Ok(None) => {}
                    Err(error) => return Step { resume: None, failure: Some(error) },
                },
                Ok(Line::Torn) => {
                    // What the half line told comes again, as it is later than `version`.
                    tracing::warn!(watch = %self.spec, "the watch broke within a line; it is resumed");
                    self.feed.update_status(|status| status.malformed += 1);
                    break;
                }
                Ok(Line::End) | Err(_) => break,
            }
        }
        let failure = (began.elapsed() < SHORT).then_some(InformerError::TooShort);
        Step { resume: Some(version), failure }
    }

    async fn begin_watch(&self, version: &str, seconds: u64) -> Result<request::Lines, InformerError> {
        let resource = self.discovery.resolve(&self.spec.kind).await?;
        let mut query = listing::query(&self.spec);
        query.add("watch", "true");
        query.add("allowWatchBookmarks", "true");
        query.add("resourceVersion", version);
        query.add("timeoutSeconds", &seconds.to_string());
        let uri = query.onto(&resource.collection(self.spec.namespace.as_deref()));
        request::watch(&self.client, &uri, WATCH_START).await.map_err(InformerError::Watch)
    }

    /// Takes over one line of a watch; returns the version that it brought the store to.
    fn take(&self, line: &[u8]) -> Result<Option<Arc<str>>, InformerError> {
        let notice = Notice::read(line, &self.spec)?;
        let version = match notice {
            Notice::Applied(object) => {
                let version = Arc::clone(&object.header.version);
                self.feed.apply(object);
                version
            }
            Notice::Deleted(object) => {
                let version = Arc::clone(&object.header.version);
                self.feed.delete(object);
                version
            }
            Notice::Bookmark(version) => version,
        };
        Ok((!version.is_empty()).then_some(version))
    }

    /// Tells of a failure: loudly when it is a new one.
    fn report(&mut self, error: InformerError) {
        let text = error.to_string();
        if self.logged.as_ref() == Some(&text) || is_expired(&error) {
            tracing::debug!(watch = %self.spec, %error, "still failing");
        } else {
            tracing::warn!(watch = %self.spec, %error, "cannot watch; it will be tried again until it works");
            self.logged = Some(text);
        }
        let malformed = u64::from(matches!(error, InformerError::Malformed { .. }));
        self.feed.update_status(|status| {
            status.malformed += malformed;
            status.error = Some(Arc::new(error));
        });
    }

    fn recovered(&mut self) {
        if self.logged.take().is_some() {
            tracing::info!(watch = %self.spec, "watching again");
        }
        self.feed.update_status(|status| status.error = None);
    }
}

/// Whether the server's history no longer reaches back to where the watch would resume.
fn is_expired(error: &InformerError) -> bool {
    match error {
        InformerError::Watch(error) => error.code() == Some(410),
        InformerError::Ended { code, .. } => *code == 410,
        _ => false,
    }
}

/// Whether a watch that could not be begun may be asked for again as it was. Any other refusal needs a new list, and
/// perhaps a new look at what the server serves.
fn can_resume(error: &InformerError) -> bool {
    match error {
        InformerError::Watch(error) => error.code().is_none_or(|code| code == 429 || code >= 500),
        _ => false,
    }
}

fn retry_after(error: &InformerError) -> Duration {
    match error {
        InformerError::List(error) | InformerError::Watch(error) => error.retry_after().unwrap_or_default(),
        _ => Duration::ZERO,
    }
}

/// What a line of a watch says.
enum Notice {
    Applied(Object),
    Deleted(Object),
    /// Everything up to this version has been told.
    Bookmark(Arc<str>),
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Marked {
    metadata: MarkedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkedMetadata {
    resource_version: Arc<str>,
}

impl Notice {
    fn read(line: &[u8], spec: &WatchSpec) -> Result<Self, InformerError> {
        let malformed = |source: ParseError| InformerError::Malformed { what: "watch event", source };
        let event: Event<'_> = serde_json::from_slice(line).map_err(|error| malformed(error.into()))?;
        match event.r#type {
            "ADDED" | "MODIFIED" => parse::object(event.object.get(), &spec.kind).map(Self::Applied).map_err(malformed),
            "DELETED" => parse::object(event.object.get(), &spec.kind).map(Self::Deleted).map_err(malformed),
            "BOOKMARK" => {
                let marked: Marked =
                    serde_json::from_str(event.object.get()).map_err(|error| malformed(error.into()))?;
                Ok(Self::Bookmark(marked.metadata.resource_version))
            }
            _ => {
                let status: kube::core::Status = serde_json::from_str(event.object.get()).unwrap_or_default();
                Err(InformerError::Ended { code: status.code, reason: status.reason, message: status.message })
            }
        }
    }
}
