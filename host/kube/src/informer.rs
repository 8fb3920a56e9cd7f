//! One list+watch per watch specification, shared by all who subscribe to it (invariant 5).
//!
//! An informer lists once and then watches. It resumes from the last version that it has seen, and lists again only when
//! that is no longer possible or the server sent something that cannot be trusted; then the list is compared with the
//! store, so that subscribers hear of what they missed. There is never a silent gap.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use windlass_core::compact::Version;
use windlass_core::object::ObjectKey;
use windlass_core::panics::cause;
use windlass_core::watch::WatchSpec;

use crate::backoff::Backoff;
use crate::cold;
use crate::discovery::{Discovery, DiscoveryError, Resource};
use crate::feed::{Feed, OverBudget, SubscribeOptions, Subscription};
use crate::follow::Follower;
use crate::freshness::Proofs;
use crate::parse::ParseError;
use crate::pointer::PointerError;
use crate::reachability::Reachability;
use crate::request::RequestError;

/// How long an informer outlives its last subscriber.
const LINGER: Duration = Duration::from_mins(1);

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
    /// The projection is none.
    #[error(transparent)]
    Pointer(#[from] PointerError),
    /// The list failed.
    #[error("the list failed: {0}")]
    List(#[source] RequestError),
    /// The server ended a list before it was complete.
    #[error("the list was interrupted before it was complete")]
    Interrupted,
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
    #[error("the API server ended the watch within {within:?} and told nothing")]
    TooShort {
        /// What counts as soon.
        within: Duration,
    },
    /// The server sent what cannot be read.
    #[error("a {what} of the API server cannot be read: {source}")]
    Malformed {
        /// A list or an event.
        what: &'static str,
        /// What is wrong.
        source: ParseError,
    },
    /// The watch went back in time, so what it tells cannot be trusted.
    #[error("the watch told of {key} at version {version} after later versions")]
    Disordered {
        /// The object.
        key: ObjectKey,
        /// Its version.
        version: Version,
    },
    /// The server has gone back to before what the cache has seen, as after a restored backup.
    #[error(
        "the API server is at version {server}, before the cache's {cache}: it went back, as after a restored backup"
    )]
    WentBack {
        /// Where the server is.
        server: Version,
        /// Where the cache is.
        cache: Version,
    },
    /// Nobody who subscribes can afford the cache: see [`Budget::exceeded`](crate::Budget::exceeded).
    #[error("the cache is larger than any of its subscribers may have")]
    OverBudget(OverBudget),
}

impl InformerError {
    /// The HTTP status that the server answered or ended a watch with.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::List(error) | Self::Watch(error) => error.code(),
            Self::Ended { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the server refused a version that it has not come to: it lags, or went back.
    pub(crate) fn is_ahead(&self) -> bool {
        let message = match self {
            Self::Watch(RequestError::Refused { status, .. }) => &status.message,
            Self::Ended { message, .. } => message,
            _ => return false,
        };
        message.contains("Too large resource version")
    }
}

/// How an informer is doing.
#[derive(Clone, Debug, Default)]
pub struct InformerStatus {
    /// The first complete list is in the store.
    pub synced: bool,
    /// The informer has stopped: no more events come.
    pub stopped: bool,
    /// The kind is not served any more, or not yet.
    pub gone: bool,
    /// What fails right now. None: all is well, or nothing has failed yet.
    pub error: Option<Arc<InformerError>>,
    /// How many complete lists were taken over.
    pub lists: u64,
    /// How many lists, events and half lines could not be read, or came out of order.
    pub malformed: u64,
    /// How often the server has gone back to an older state, as after a restored backup, or has ceased to serve the kind:
    /// versions of one epoch say nothing about another.
    pub epoch: u64,
    /// How often the informer's own task has panicked.
    pub panics: u64,
}

/// One cache at one moment.
#[derive(Clone, Debug)]
pub struct InformerFigures {
    /// What is watched.
    pub watch: WatchSpec,
    /// How many objects it holds.
    pub objects: usize,
    /// Roughly what they occupy in memory.
    pub bytes: usize,
    /// How the informer is doing.
    pub status: InformerStatus,
}

/// How informers work.
#[derive(Clone, Debug)]
pub struct InformerOptions {
    /// Whether lists come as the beginning of a watch where the server can do that (KEP-3157).
    pub streaming_lists: bool,
    /// Whether texts that nobody reads are packed: those of a long list at once, others after this time. None: never.
    pub cold_after: Option<Duration>,
    /// The most that one cache may hold, in bytes.
    pub most_bytes: usize,
    /// After how long without a line a watch is doubted, where versions compare. A server tells how far it has come every
    /// minute or two; one that has gone back to before the watch's version, as after a restored backup, passes over in
    /// silence what changes until it is there again.
    pub silence: Duration,
    /// Who tells that the server answers again, so that nobody waits longer for it than it takes.
    pub reachability: Reachability,
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            streaming_lists: false,
            cold_after: Some(Duration::from_mins(5)),
            most_bytes: 2 << 30,
            silence: Duration::from_mins(3),
            reachability: Reachability::always(),
        }
    }
}

/// All informers of the process. Clones share them; when the last clone is dropped, they stop.
#[derive(Clone)]
pub struct Informers {
    shared: Arc<Shared>,
    _stop: Arc<DropGuard>,
}

/// The informers that run.
pub(crate) struct Shared {
    client: Client,
    discovery: Discovery,
    options: InformerOptions,
    runtime: Handle,
    stop: CancellationToken,
    /// All that `stop` ends.
    tasks: TaskTracker,
    running: Mutex<HashMap<WatchSpec, Arc<Feed>>>,
    proofs: Proofs,
}

impl Informers {
    /// No informer runs yet. They will run on the tokio runtime that this is called on.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(client: Client, discovery: Discovery) -> Self {
        Self::with_options(client, discovery, InformerOptions::default())
    }

    /// As [`Informers::new`], and they work as `options` say.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn with_options(client: Client, discovery: Discovery, options: InformerOptions) -> Self {
        let stop = CancellationToken::new();
        let guard = Arc::new(stop.clone().drop_guard());
        let runtime = Handle::current();
        let (running, proofs, tasks) = (Mutex::default(), Proofs::default(), TaskTracker::new());
        let shared = Arc::new(Shared { client, discovery, options, runtime, stop, tasks, running, proofs });
        if let Some(every) = shared.options.cold_after {
            let cool = cold::cool(Arc::downgrade(&shared), shared.stop.clone(), every);
            shared.tasks.spawn_on(cool, &shared.runtime);
        }
        Self { shared, _stop: guard }
    }

    /// Subscribes to what `spec` watches. The first subscriber starts the informer; it stops a minute after the last has
    /// gone.
    #[must_use]
    pub fn subscribe(&self, spec: WatchSpec) -> Subscription {
        self.with_feed(spec, Feed::subscribe)
    }

    /// Subscribes to what `spec` watches, with indexes and a budget. An error says which index is no JSON pointer.
    pub fn subscribe_with(&self, spec: WatchSpec, options: SubscribeOptions) -> Result<Subscription, PointerError> {
        self.with_feed(spec, |feed| feed.subscribe_with(options))
    }

    /// Ends all watches, whoever still subscribes: the process ends. Completes when they have ended, and nothing more is told of them.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// How each cache is doing, in no order.
    #[must_use]
    pub fn figures(&self) -> Vec<InformerFigures> {
        self.shared.feeds().iter().map(|feed| feed.figures()).collect()
    }

    /// The feed of the informer of `spec`, if it runs.
    pub(crate) fn feed(&self, spec: &WatchSpec) -> Option<Arc<Feed>> {
        self.shared.running().get(spec).cloned()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.shared.client
    }

    pub(crate) fn proofs(&self) -> &Proofs {
        &self.shared.proofs
    }

    /// Lets `subscribe` join the feed, which cannot end meanwhile.
    fn with_feed<T>(&self, spec: WatchSpec, subscribe: impl FnOnce(&Arc<Feed>) -> T) -> T {
        let mut running = self.shared.running();
        let feed = running.entry(spec).or_insert_with_key(|spec| {
            let feed = Arc::new(Feed::new(spec.clone(), self.shared.options.most_bytes));
            let run = run(Arc::clone(&self.shared), spec.clone(), Arc::clone(&feed));
            self.shared.tasks.spawn_on(run, &self.shared.runtime);
            feed
        });
        subscribe(feed)
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, HashMap<WatchSpec, Arc<Feed>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The feeds of the informers that run.
    pub(crate) fn feeds(&self) -> Vec<Arc<Feed>> {
        self.running().values().cloned().collect()
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
    tokio::select! {
        // First: while a process ends its connections fail, and that would be told after its last line.
        biased;
        () = shared.stop.cancelled() => {}
        () = follow(&shared, &spec, &feed) => {}
        () = shared.unused(&spec, &feed) => tracing::debug!(watch = %spec, "nobody subscribes any more; the watch stops"),
    }
    feed.close();
}

/// Follows the server until nobody can afford the cache, over all panics on the way.
async fn follow(shared: &Shared, spec: &WatchSpec, feed: &Arc<Feed>) {
    let mut backoff = Backoff::default();
    loop {
        let follower = Follower::new(
            shared.client.clone(),
            shared.discovery.clone(),
            shared.options.clone(),
            spec.clone(),
            Arc::clone(feed),
        );
        match AssertUnwindSafe(follower.run()).catch_unwind().await {
            Ok(OverBudget) => {
                tracing::debug!(watch = %spec, "nobody can afford the cache; the watch stops");
                // New subscribers come under the same lock, so none can slip in between the look and the removal.
                let mut running = shared.running();
                if *feed.subscriber_count().borrow() == 0 {
                    running.remove(spec);
                    return;
                }
            }
            Err(panic) => {
                tracing::error!(watch = %spec, cause = cause(&*panic), "an informer panicked; it lists again");
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| feed.recover())) {
                    tracing::error!(watch = %spec, cause = cause(&*panic), "and could not mend its store");
                }
                sleep(backoff.next(Instant::now())).await;
            }
        }
    }
}
