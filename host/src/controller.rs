//! One controller's wiring, from its manifest to its workers, and its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::fair::Share;
use windlass_core::object::ObjectKey;
use windlass_core::ports::Ports;
use windlass_core::principal::Principal;
use windlass_core::queue::{ItemExponential, Queue};
use windlass_kube::DiscoveryError;
use windlass_kube::Reader;
use windlass_wasm::manifest::Controller as Declared;
use windlass_wasm::{CallLimits, Plugin};

use crate::clock::SystemClock;
use crate::dispatch::Dispatch;
use crate::feed::feed;
use crate::manager::Host;
use crate::resolve::{self, ResolveError, Resolved};
use crate::supervise::{jittered, supervise};

/// The first pause before a controller whose kinds are not all served is resolved again; it doubles.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The longest pause. Discovery asks the server at most every 10 s for one group anyway.
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// How long a queue may take to drain when the host stops (§3.9).
const DRAIN: Duration = Duration::from_secs(5);
/// How long calls that run, and their writes, may take to end after that.
const LAST_CALLS: Duration = Duration::from_secs(20);

/// How a controller ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// No call was cut.
    Clean,
    /// Calls ran longer than the host waits.
    Cut,
    /// The controller cannot run under this host's settings, which the log has explained.
    Impossible,
}

/// One controller of one plugin.
pub(crate) struct Controller {
    pub(crate) host: Arc<Host>,
    pub(crate) plugin: Arc<Plugin>,
    /// The plugin's share of the host's permits, for all its controllers together.
    pub(crate) share: Share,
    /// Which of the manifest's controllers.
    pub(crate) index: usize,
}

/// A controller at work.
struct Running {
    dispatch: Arc<Dispatch>,
    feeders: TaskTracker,
    workers: TaskTracker,
}

impl Controller {
    /// Runs until `stop`, and then to the end of the calls that run.
    pub(crate) async fn run(&self, stop: &CancellationToken) -> End {
        let resolved = tokio::select! {
            biased;
            () = stop.cancelled() => return End::Clean,
            resolved = self.resolve() => resolved,
        };
        let Some(resolved) = resolved else { return End::Impossible };
        let running = tokio::select! {
            biased;
            () = stop.cancelled() => return End::Clean,
            running = self.start(resolved, stop) => running,
        };
        stop.cancelled().await;
        running.end().await
    }

    fn declared(&self) -> &Declared {
        &self.plugin.manifest().controllers[self.index]
    }

    /// Waits until all kinds are served. None: it will never be.
    async fn resolve(&self) -> Option<Resolved> {
        let (plugin, controller) = (self.plugin.name(), &self.declared().name);
        let mut pause = FIRST_RETRY;
        let mut told = String::new();
        loop {
            let only = self.host.namespace.as_deref();
            let error =
                match resolve::resolve(&self.host.discovery, self.plugin.manifest(), self.declared(), only).await {
                    Ok(resolved) => return Some(resolved),
                    Err(error) => error,
                };
            let message = error.to_string();
            let until = match error {
                ResolveError::NoNamespace { .. } => {
                    tracing::error!(%plugin, controller, error = message, "the controller cannot run");
                    return None;
                }
                ResolveError::Discovery(DiscoveryError::NotServed { .. }) => "it is served",
                ResolveError::Discovery(_) => "the API server answers",
            };
            // Once for each reason: the operator must see what is missing, not each time that it still is.
            if told != message {
                tracing::warn!(%plugin, controller, error = message, "waiting: the controller starts when {until}");
                told = message;
            }
            tokio::time::sleep(jittered(pause)).await;
            pause = (pause * 2).min(LONGEST_RETRY);
        }
    }

    /// Subscribes, waits for the first lists, and starts the workers.
    async fn start(&self, resolved: Resolved, stop: &CancellationToken) -> Running {
        let options = &self.declared().options;
        let limiter = ItemExponential::new(options.backoff.base(), options.backoff.max());
        let queue = Queue::<ObjectKey>::new(Arc::new(SystemClock::new()), limiter);
        let mut primaries = Vec::new();
        let mut stores = Vec::new();
        let mut subscriptions = Vec::new();
        for watched in resolved.watches {
            for spec in watched.specs {
                let subscription = self.host.informers.subscribe(spec.clone());
                let store = subscription.store().clone();
                if watched.is_primary {
                    primaries.push(store.clone());
                }
                stores.push((spec, store));
                subscriptions.push((subscription, watched.route.clone()));
            }
        }
        // Nothing is decided on half a cache: workers start when every first list is in its store.
        for (subscription, _) in &subscriptions {
            subscription.synced().await;
        }
        let feeders = TaskTracker::new();
        for (subscription, route) in subscriptions {
            feeders.spawn(feed(subscription, route, queue.clone(), stop.clone()));
        }
        feeders.close();
        let dispatch = Arc::new(Dispatch {
            plugin: Box::new(self.plugin.clone()),
            share: self.share.clone(),
            controller: self.declared().name.as_str().into(),
            primary: resolved.primary,
            primaries,
            principal: Arc::new(Principal {
                plugin: self.plugin.name().clone(),
                digest: self.plugin.short_digest().into(),
                replica: self.host.replica.clone(),
                grants: resolved.grants,
            }),
            ports: Ports {
                reads: Arc::new(Reader::new(stores)),
                writes: self.host.writer.clone(),
                events: self.host.recorder.clone(),
            },
            queue,
            limits: CallLimits { deadline: Some(options.deadline()) },
            max_retries: options.max_retries,
        });
        let workers = TaskTracker::new();
        for _ in 0..options.workers {
            let dispatch = dispatch.clone();
            let stop = stop.clone();
            workers.spawn(async move { supervise("worker", &stop, || dispatch.work()).await });
        }
        workers.close();
        tracing::info!(
            plugin = %self.plugin.name(), controller = %dispatch.controller, primary = %dispatch.primary.kind,
            workers = options.workers, "controller started"
        );
        Running { dispatch, feeders, workers }
    }
}

impl Running {
    async fn end(self) -> End {
        let queue = &self.dispatch.queue;
        self.feeders.wait().await;
        if timeout(DRAIN, queue.shut_down_with_drain()).await.is_err() {
            let dropped = queue.drop_ready();
            tracing::info!(
                controller = %self.dispatch.controller, dropped,
                "not drained within {DRAIN:?}; calls that run may end, and the next start queues every key again"
            );
        }
        if timeout(LAST_CALLS, self.workers.wait()).await.is_ok() {
            return End::Clean;
        }
        tracing::error!(controller = %self.dispatch.controller, "calls still run after {LAST_CALLS:?} and are cut");
        End::Cut
    }
}
