//! One list+watch per watch specification, shared by all its subscribers (invariant 5).
//!
//! An informer lists once and then watches. It resumes from its last version. It lists again only if it cannot resume,
//! or if the server sent data that cannot be trusted; the list is then compared with the store, so that subscribers
//! receive the events that they missed. There is never an undetected gap.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::pointer_tree::PointerError;
use windlass_core::panics::cause;

use crate::backoff::Backoff;
use crate::client::restores::Restores;
use crate::discovery::Discovery;
use crate::informer::error::OverBudget;
use crate::informer::feed::{Feed, SubscribeOptions, Subscription};
use crate::informer::follow::Follower;
use crate::informer::freshness::Proofs;
use crate::informer::outages;
use crate::informer::status::{InformerFigures, InformerOptions};
use crate::informer::trust::CacheTrust;

/// The time that an informer keeps running after its last subscriber has gone.
const LINGER: Duration = Duration::from_mins(1);

/// All informers of the process. Clones share them. They stop when the last clone is dropped.
#[derive(Clone)]
pub struct Informers {
    shared: Arc<InformersInner>,
    _stop: Arc<DropGuard>,
}

pub(crate) struct InformersInner {
    client: Client,
    discovery: Discovery,
    options: InformerOptions,
    runtime: Handle,
    stop: CancellationToken,
    /// Everything that `stop` ends.
    tasks: TaskTracker,
    running: Mutex<HashMap<WatchSpec, Arc<Feed>>>,
    proofs: Proofs,
}

impl Informers {
    /// Creates an empty set of informers. They run on the current tokio runtime.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[must_use]
    pub fn new(client: Client, discovery: Discovery) -> Self {
        Self::with_options(client, discovery, InformerOptions::default())
    }

    /// As [`Informers::new`], with `options`.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[must_use]
    pub fn with_options(client: Client, discovery: Discovery, options: InformerOptions) -> Self {
        let stop = CancellationToken::new();
        let guard = Arc::new(stop.clone().drop_guard());
        let runtime = Handle::current();
        let (running, proofs, tasks) = (Mutex::default(), Proofs::default(), TaskTracker::new());
        let shared = Arc::new(InformersInner { client, discovery, options, runtime, stop, tasks, running, proofs });
        if let Some(every) = shared.options.cold_after {
            let cool = cool(Arc::downgrade(&shared), shared.stop.clone(), every);
            shared.tasks.spawn_on(cool, &shared.runtime);
        }
        let weak = Arc::downgrade(&shared);
        let feeds = move || Some(weak.upgrade()?.feeds());
        let (client, options, stop) = (shared.client.clone(), shared.options.clone(), shared.stop.clone());
        let confirms = outages::confirm_each(client, feeds, options, stop);
        shared.tasks.spawn_on(confirms, &shared.runtime);
        Self { shared, _stop: guard }
    }

    /// Subscribes to the objects of `spec`. The first subscriber starts the informer. The informer stops a minute after
    /// its last subscriber has gone.
    #[must_use]
    pub fn subscribe(&self, spec: WatchSpec) -> Subscription {
        self.with_feed(spec, Feed::subscribe)
    }

    /// Subscribes to the objects of `spec`, with indexes and a budget. The error names an index that is not a JSON
    /// pointer.
    pub fn subscribe_with(&self, spec: WatchSpec, options: SubscribeOptions) -> Result<Subscription, PointerError> {
        self.with_feed(spec, |feed| feed.subscribe_with(options))
    }

    /// Ends all watches, even those with subscribers, because the process ends. Completes when they have ended; nothing
    /// is logged about them afterwards.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// The figures of each cache, in no particular order.
    #[must_use]
    pub fn figures(&self) -> Vec<InformerFigures> {
        let restored = self.restores().state().restored;
        self.shared.feeds().iter().map(|feed| feed.figures(restored)).collect()
    }

    /// The number of restores of the server that were noticed.
    #[must_use]
    pub fn restore_count(&self) -> u64 {
        self.restores().state().count
    }

    /// Tracks whether the caches of `subscriptions` can be trusted.
    #[must_use]
    pub fn trust<'a>(&self, subscriptions: impl IntoIterator<Item = &'a Subscription>) -> CacheTrust {
        let InformerOptions { reachability, restores, .. } = &self.shared.options;
        let mut trust = CacheTrust::new(reachability.clone(), restores.clone());
        for subscription in subscriptions {
            trust.add(subscription.feed().spec().to_string(), subscription.store().clone(), subscription.statuses());
        }
        trust
    }

    /// How long the API server has sent nothing to the cache of `spec`. `None` if there is no such cache, or its watch
    /// has not begun.
    #[must_use]
    pub fn silence(&self, spec: &WatchSpec) -> Option<Duration> {
        self.feed(spec)?.silence()
    }

    pub(crate) fn feed(&self, spec: &WatchSpec) -> Option<Arc<Feed>> {
        self.shared.running().get(spec).cloned()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.shared.client
    }

    pub(crate) fn restores(&self) -> &Restores {
        &self.shared.options.restores
    }

    pub(crate) fn proofs(&self) -> &Proofs {
        &self.shared.proofs
    }

    /// Calls `subscribe` with the feed, which cannot end in the meantime.
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

impl InformersInner {
    fn running(&self) -> MutexGuard<'_, HashMap<WatchSpec, Arc<Feed>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The feeds of the running informers.
    pub(crate) fn feeds(&self) -> Vec<Arc<Feed>> {
        self.running().values().cloned().collect()
    }

    /// Completes when `feed` has had no subscriber for a while. Then it cannot be found any more.
    async fn unused(&self, spec: &WatchSpec, feed: &Feed) {
        let mut count = feed.subscriber_count();
        loop {
            // The sender is in `feed`, so neither wait can fail.
            let _ = count.wait_for(|count| *count == 0).await;
            tokio::select! {
                biased;
                () = sleep(LINGER) => {}
                _ = count.wait_for(|count| *count > 0) => continue,
            }
            // New subscribers need the same lock, so none can join between this check and the removal.
            let mut running = self.running();
            if *count.borrow() == 0 {
                running.remove(spec);
                return;
            }
        }
    }
}

async fn run(shared: Arc<InformersInner>, spec: WatchSpec, feed: Arc<Feed>) {
    tokio::select! {
        // Checked first: while a process ends, its connections fail, and these failures would be logged after the
        // host's last line.
        biased;
        () = shared.stop.cancelled() => {}
        () = follow(&shared, &spec, &feed) => {}
        () = shared.unused(&spec, &feed) => tracing::debug!(watch = %spec, "there are no subscribers any more; the watch stops"),
    }
    feed.close();
}

/// Follows the server until no subscriber has budget for the cache, even if the task panics.
async fn follow(shared: &InformersInner, spec: &WatchSpec, feed: &Arc<Feed>) {
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
                tracing::debug!(watch = %spec, "no subscriber has budget for the cache; the watch stops");
                // New subscribers need the same lock, so none can join between this check and the removal.
                let mut running = shared.running();
                if *feed.subscriber_count().borrow() == 0 {
                    running.remove(spec);
                    return;
                }
            }
            Err(panic) => {
                tracing::error!(watch = %spec, cause = cause(&*panic), "an informer panicked; it lists again");
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| feed.recover())) {
                    tracing::error!(
                        watch = %spec, cause = cause(&*panic),
                        "an informer panicked and left its cache unusable; the next list fills the cache again"
                    );
                }
                sleep(backoff.next(Instant::now())).await;
            }
        }
    }
}

/// Periodically packs the texts that were not read since the last time, and unpacks the texts that were.
async fn cool(informers: Weak<InformersInner>, stop: CancellationToken, every: Duration) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(every) => {}
        }
        let Some(feeds) = informers.upgrade().map(|informers| informers.feeds()) else { return };
        for feed in feeds {
            // This takes milliseconds per hundred objects, so it must not run on a thread that serves other tasks.
            let done = windlass_world::spawn_blocking(move || feed.cool()).await;
            if let Err(error) = done {
                tracing::error!(%error, "packing a cache failed; the cache stays unchanged");
            }
        }
    }
}
