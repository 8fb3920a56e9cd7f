//! One controller's wiring, from its manifest to its workers, and its end.
//!
//! A controller goes round: it waits until its kinds are served, runs until one of them goes, and waits again.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all, select_all};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::fair::Share;
use windlass_core::grants::{Grants, LiveGrants};
use windlass_core::mapping::{Primaries as _, PrimaryKind};
use windlass_core::object::{Object, ObjectKey, ObjectKind};
use windlass_core::ports::Ports;
use windlass_core::principal::{Principal, Role};
use windlass_core::queue::{ItemExponential, Queue};
use windlass_kube::{
    Budget, Claimer, DiscoveryError, Excess, Followed, LiveReader, Readable, Reader, SubscribeOptions, Subscription,
};
use windlass_wasm::manifest::Controller as Declared;
use windlass_wasm::{CallLimits, Entry, Plugin};

use crate::clock::SystemClock;
use crate::composite::{Composite, Owned, Related, Surroundings};
use crate::config::{self, Configured};
use crate::dispatch::{Dispatch, Reconcile};
use crate::feed::Feeder;
use crate::finalize::{self, Finalized};
use crate::install::Ready;
use crate::kinds::Definitions;
use crate::manager::Host;
use crate::metrics::counted;
use crate::outage::Setbacks;
use crate::pause::Pausable;
use crate::resolve::{self, ResolveError, Resolved};
use crate::resync::resync;
use crate::route::{Route, Stores};
use crate::running::{End, Running, kept_up, last_calls, tracker};
use crate::status::{ControllerState, ControllerStatus, PluginState};
use crate::supervise::jittered;

/// The first pause before a controller whose kinds are not all served is resolved again; it doubles.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The longest pause. Discovery asks the server at most every 10 s for one group anyway.
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// One controller of one plugin.
pub(crate) struct Controller {
    host: Arc<Host>,
    plugin: Arc<Plugin>,
    /// The plugin's share of the host's permits, for all its controllers together.
    share: Share,
    /// What the plugin's caches may hold, for all its controllers together.
    budget: Arc<Budget>,
    /// The plugin's reads of the API server itself, for all its controllers together.
    live: LiveReader,
    /// Which of the manifest's controllers.
    index: usize,
    status: Arc<ControllerStatus>,
    /// Whether the plugin's definitions are there.
    ready: Ready,
    /// The plugin's configuration.
    configured: Configured,
    /// Of all rounds: the last one's must have ended before another's may begin.
    workers: TaskTracker,
}

/// A controller that has subscribed to all that it watches.
struct Watching {
    primary: PrimaryKind,
    primaries: Stores,
    readable: Vec<Readable>,
    /// What each declared watch became, in the manifest's order.
    declared: Vec<(Route, Vec<Readable>)>,
    subscriptions: Vec<(Subscription, Route)>,
    /// Kinds that a definition may bring, and its name.
    defined: Vec<(ObjectKind, Arc<str>)>,
    grants: Grants,
    keeping: Grants,
}

/// Why a controller cannot go on although the host does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Loss {
    /// A kind is no longer served.
    NotServed(ObjectKind),
    /// The definition of a kind was removed, or is now another one.
    Redefined(ObjectKind),
    /// The caches of the plugin became too large.
    OverBudget(Arc<Excess>),
}

impl Controller {
    /// The `index`th controller of `plugin`, which does nothing yet.
    pub(crate) fn new(
        host: Arc<Host>,
        plugin: Arc<Plugin>,
        share: Share,
        budget: Arc<Budget>,
        live: LiveReader,
        index: usize,
    ) -> Self {
        let declared = &plugin.manifest().controllers[index];
        let metrics = host.metrics.controller(plugin.name(), &declared.name);
        let status = host.status.plugin(plugin.name()).controller(&declared.name, declared.options.workers, metrics);
        let (ready, configured) = (watch::channel(true).1, watch::channel(Some("{}".into())).1);
        Self { host, plugin, share, budget, live, index, status, ready, configured, workers: tracker() }
    }

    /// The same, which begins when its plugin's definitions are `ready` and its configuration is there.
    pub(crate) fn after(self, ready: Ready, configured: Configured) -> Self {
        Self { ready, configured, ..self }
    }

    /// Waits for what the plugin needs before it looks for its kinds. False: the host stops.
    async fn prepared(&self, stop: &CancellationToken) -> bool {
        let (mut ready, mut configured) = (self.ready.clone(), self.configured.clone());
        let both = async {
            ready.wait_for(|ready| *ready).await.is_ok() && configured.wait_for(Option::is_some).await.is_ok()
        };
        stop.run_until_cancelled(both).await == Some(true)
    }

    /// Runs until `stop`, and then to the end of the calls that run, whatever panics.
    pub(crate) async fn run(&self, stop: &CancellationToken) -> End {
        kept_up(&self.host.panics, stop, &self.workers, || self.rounds(stop)).await
    }

    async fn rounds(&self, stop: &CancellationToken) -> End {
        if !self.prepared(stop).await {
            return End::Clean;
        }
        loop {
            let definitions = self.host.kinds.snapshot();
            let resolved = match stop.run_until_cancelled(self.resolve()).await {
                Some(Some(resolved)) => resolved,
                Some(None) => {
                    self.status.set(ControllerState::Stopped, Some("see the log".to_owned()));
                    return End::Impossible;
                }
                None => return End::Clean,
            };
            let watching = self.subscribe(resolved);
            let gone = self.gone(&watching, &definitions);
            let kind = match self.round(watching, gone, stop).await {
                ControlFlow::Break(end) => return end,
                ControlFlow::Continue(Loss::NotServed(kind) | Loss::Redefined(kind)) => kind,
                ControlFlow::Continue(Loss::OverBudget(_)) => {
                    // It would need the same again.
                    stop.cancelled().await;
                    return End::Clean;
                }
            };
            // The server takes a moment to take a kind out of what it says that it serves.
            stop.run_until_cancelled(tokio::time::sleep(jittered(FIRST_RETRY))).await;
            self.host.discovery.invalidate(kind.group());
        }
    }

    /// Works until `stop` or until a kind is lost.
    async fn round(
        &self,
        watching: Watching,
        mut gone: BoxFuture<'static, Loss>,
        stop: &CancellationToken,
    ) -> ControlFlow<End, Loss> {
        let synced = watching.synced();
        // Keys may wait for the last of the first lists, events may not: they would heap up.
        let running = self.start(watching, stop);
        let early = tokio::select! {
            biased;
            () = stop.cancelled() => {
                running.abandon().await;
                return ControlFlow::Break(End::Clean);
            }
            loss = &mut gone => Some(loss),
            () = synced => None,
        };
        let loss = if let Some(loss) = early {
            loss
        } else {
            self.work(&running);
            tokio::select! {
                biased;
                () = stop.cancelled() => return ControlFlow::Break(running.end().await),
                loss = gone => loss,
            }
        };
        self.tell(&loss);
        match stop.run_until_cancelled(running.abandon()).await {
            Some(()) => ControlFlow::Continue(loss),
            None => ControlFlow::Break(last_calls(&self.workers).await),
        }
    }

    fn declared(&self) -> &Declared {
        &self.plugin.manifest().controllers[self.index]
    }

    fn tell(&self, loss: &Loss) {
        let (plugin, controller) = (self.plugin.name(), &self.declared().name);
        match loss {
            Loss::OverBudget(excess) => {
                self.host.status.plugin(plugin).set(PluginState::Suspended, Some(excess.to_string()));
                self.status.set(ControllerState::Stopped, Some("the plugin is suspended".to_owned()));
            }
            Loss::NotServed(_) | Loss::Redefined(_) => self.status.set(ControllerState::Starting, None),
        }
        match loss {
            Loss::NotServed(kind) => tracing::warn!(
                %plugin, controller, %kind, "controller stopped: the API server no longer serves one of its kinds"
            ),
            Loss::Redefined(kind) => tracing::warn!(
                %plugin, controller, %kind, "controller stopped: the definition of one of its kinds was removed or replaced"
            ),
            Loss::OverBudget(excess) => tracing::error!(
                %plugin, controller, error = %excess, "plugin suspended until it is replaced: it caches too much"
            ),
        }
    }

    /// Waits until all kinds are served. None: it will never be.
    async fn resolve(&self) -> Option<Resolved> {
        let (plugin, controller) = (self.plugin.name(), &self.declared().name);
        let mut pause = FIRST_RETRY;
        let mut told = String::new();
        loop {
            let mark = self.host.kinds.mark();
            let only = self.host.namespace.as_deref();
            let error =
                match resolve::resolve(&self.host.discovery, self.plugin.manifest(), self.declared(), only).await {
                    Ok(resolved) => return Some(resolved),
                    Err(error) => error,
                };
            let message = error.to_string();
            let (missing, until) = match error {
                ResolveError::NoNamespace { .. } => {
                    tracing::error!(%plugin, controller, error = message, "the controller cannot run");
                    return None;
                }
                ResolveError::Discovery(DiscoveryError::NotServed { kind }) => (Some(kind), "it is served"),
                ResolveError::Discovery(_) => (None, "the API server answers"),
            };
            // Once for each reason: the operator must see what is missing, not each time that it still is.
            if told != message {
                tracing::warn!(%plugin, controller, error = message, "waiting: the controller starts when {until}");
                self.status.set(ControllerState::Waiting, Some(message.clone()));
                told = message;
            }
            pause = self.wait(missing.as_ref(), pause, mark).await;
        }
    }

    /// Waits before the next attempt to resolve, for as long as `pause` or until a definition of the missing kind's group
    /// has changed since `mark`. Returns the pause after that.
    async fn wait(&self, missing: Option<&ObjectKind>, pause: Duration, mark: u64) -> Duration {
        let Host { kinds, discovery, .. } = &*self.host;
        let Some(group) = missing.map(ObjectKind::group) else {
            tokio::time::sleep(jittered(pause)).await;
            return (pause * 2).min(LONGEST_RETRY);
        };
        kinds.want();
        let mut next = (pause * 2).min(LONGEST_RETRY);
        tokio::select! {
            () = kinds.changed(group, mark) => next = FIRST_RETRY,
            () = tokio::time::sleep(jittered(pause)) => {}
        }
        // A kind is served some time after it is defined; until then what discovery has just heard is soon wrong.
        if pause < LONGEST_RETRY && kinds.defines(group) {
            discovery.invalidate(group);
        }
        next
    }

    fn subscribe(&self, resolved: Resolved) -> Watching {
        let mut primaries = Vec::new();
        let mut readable = Vec::new();
        let mut declared = Vec::new();
        let mut subscriptions = Vec::new();
        let mut defined = Vec::new();
        for watched in resolved.watches {
            let first = readable.len();
            for (name, spec) in watched.definition.iter().zip(&watched.specs) {
                defined.push((spec.kind.clone(), name.clone()));
            }
            for spec in watched.specs {
                let indexes = watched.indexes.iter().map(|(_, source)| source.clone()).collect();
                let options = SubscribeOptions { indexes, budget: Some(self.budget.clone()) };
                let subscription = self.host.informers.subscribe_with(spec.clone(), options);
                let subscription = subscription.expect("the pointers of a valid manifest are pointers");
                let store = subscription.store().clone();
                if watched.is_primary {
                    primaries.push(store.clone());
                }
                readable.push(Readable { spec, store, indexes: watched.indexes.clone() });
                subscriptions.push((subscription, watched.route.clone()));
            }
            declared.push((watched.route, readable[first..].to_vec()));
        }
        let primaries = Stores(primaries.into());
        let Resolved { primary, grants, keeping, .. } = resolved;
        Watching { primary, primaries, readable, declared, subscriptions, defined, grants, keeping }
    }

    /// What completes when one of the kinds that are watched has gone, or is no longer what it was when `definitions` were
    /// seen, or when the plugin's caches are too large.
    fn gone(&self, watching: &Watching, definitions: &Definitions) -> BoxFuture<'static, Loss> {
        let budget = self.budget.clone();
        let excess = async move { Loss::OverBudget(budget.exceeded().await) };
        let mut losses: Vec<BoxFuture<'static, Loss>> = vec![excess.boxed()];
        for (Readable { spec, .. }, (subscription, _)) in watching.readable.iter().zip(&watching.subscriptions) {
            let kind = spec.kind.clone();
            losses.push(not_served(subscription).map(|()| Loss::NotServed(kind)).boxed());
        }
        for (kind, name) in &watching.defined {
            self.host.kinds.want();
            let kind = kind.clone();
            losses.push(self.host.kinds.replaced(name, definitions).map(|()| Loss::Redefined(kind)).boxed());
        }
        select_all(losses).map(|(loss, ..)| loss).boxed()
    }

    /// Starts the tasks, but for the workers.
    fn start(&self, watching: Watching, stop: &CancellationToken) -> Running {
        let Watching { primary, primaries, readable, declared, subscriptions, grants, keeping, .. } = watching;
        let options = &self.declared().options;
        let stop = stop.child_token();
        let limiter = ItemExponential::new(options.backoff.base(), options.backoff.max());
        let queue = Queue::<ObjectKey>::new(Arc::new(SystemClock::new()), limiter);
        self.status.begins(queue.clone());
        let principal = Arc::new(Principal {
            role: Role::Plugin,
            plugin: self.plugin.name().clone(),
            digest: self.plugin.short_digest().into(),
            replica: self.host.replica.clone(),
            grants: LiveGrants::counting(grants, self.host.status.plugin(self.plugin.name()).denials.clone()),
            impersonate: None,
        });
        let mut plugin = self.callee(&primaries, declared);
        if let Some(primary) = readable.first().filter(|_| options.finalizer) {
            plugin = Finalized::new(plugin, &principal, keeping, primary.spec.clone());
        }
        let followed = followed(&readable, &subscriptions, &primaries);
        let dispatch = Arc::new(Dispatch {
            plugin: Box::new(Pausable::new(plugin)),
            share: self.share.clone(),
            controller: self.declared().name.as_str().into(),
            primary,
            primaries: primaries.clone(),
            principal,
            ports: self.ports(readable, followed),
            status: self.status.clone(),
            config: self.configured.clone(),
            queue: queue.clone(),
            limits: CallLimits { deadline: Some(options.deadline()) },
            max_retries: options.max_retries,
            permit_worth: self.host.permit_worth,
            outages: self.host.outages.clone(),
            setbacks: Mutex::new(Setbacks::default()),
            stop: stop.clone(),
            last_call: CancellationToken::new(),
            panics: self.host.panics.clone(),
        });
        let running = Running::new(dispatch.clone(), self.workers.clone());
        for (subscription, route) in subscriptions {
            let feeder = Feeder::new(subscription, route, queue.clone(), primaries.clone());
            let feeder = Arc::new(tokio::sync::Mutex::new(feeder));
            running.feed("feeder", move || {
                let feeder = feeder.clone();
                async move { feeder.lock().await.run().await }
            });
        }
        let (configured, all, keys) = (self.configured.clone(), primaries.clone(), queue.clone());
        running.feed("configuration", move || config::requeue_on_change(configured.clone(), all.clone(), keys.clone()));
        let period = options.resync();
        running.feed("resync", move || {
            let (primaries, queue) = (primaries.clone(), queue.clone());
            async move { resync(period, || primaries.all(), &queue).await }
        });
        running.feed("outages", move || {
            let dispatch = dispatch.clone();
            async move { dispatch.outages.follow(|began| dispatch.recover(began)).await }
        });
        running
    }

    /// What the plugin may ask of the world, and all of it counted.
    fn ports(&self, readable: Vec<Readable>, followed: Vec<Followed>) -> Ports {
        let (reader, live) = (Arc::new(Reader::new(readable)), Arc::new(self.live.clone()));
        let writes = Arc::new(self.host.writer.of_controller(followed));
        let ports = Ports {
            owners: Arc::new(Claimer::new(reader.clone(), live.clone(), writes.clone())),
            reads: reader,
            live,
            writes,
            events: self.host.recorder.clone(),
            metrics: Arc::new(self.host.metrics.plugins().clone()),
            http: Arc::new(self.host.egress.clone()),
        };
        counted(ports, &self.host.metrics, self.plugin.name())
    }

    /// What the workers call: the plugin itself, or what does as it composes.
    fn callee(&self, primaries: &Stores, declared: Vec<(Route, Vec<Readable>)>) -> Box<dyn Reconcile> {
        let plugin = self.plugin.clone();
        if plugin.entry() == Entry::Reconciler {
            return Box::new(plugin);
        }
        let owns = &self.declared().owns;
        let mut watches = declared.into_iter().skip(1); // The primary.
        let owned = owns.iter().zip(watches.by_ref()).map(|(watch, (_, watches))| Owned {
            kind: watch.object_kind(),
            strategy: watch.core_strategy(),
            watches,
        });
        let owned = owned.collect();
        let related = watches.map(|(route, watches)| Related { route, watches }).collect();
        Box::new(Composite { plugin, surroundings: Surroundings { primaries: primaries.clone(), owned, related } })
    }

    /// Starts the workers.
    fn work(&self, running: &Running) {
        let options = &self.declared().options;
        let workers = options.workers;
        if !options.finalizer {
            finalize::tell_left_behind(&running.dispatch.primaries, self.plugin.name());
        }
        for _ in 0..workers {
            running.work();
        }
        self.status.set(ControllerState::Running, None);
        tracing::info!(
            plugin = %self.plugin.name(), controller = %running.dispatch.controller,
            primary = %running.dispatch.primary.kind, workers, "controller started"
        );
    }
}

/// The watches whose every change runs the keys that it concerns; `readable` and `subscriptions` are of the same watches.
fn followed(readable: &[Readable], subscriptions: &[(Subscription, Route)], primaries: &Stores) -> Vec<Followed> {
    let routes = subscriptions.iter().map(|(_, route)| route);
    let whole = readable.iter().zip(routes).filter(|(_, route)| route.predicates.is_empty());
    let followed = whole.map(|(readable, route)| {
        let (route, primaries) = (route.clone(), primaries.clone());
        let runs = move |object: &Object, key: &ObjectKey| route.concerns(object, key, &primaries);
        Followed { readable: readable.clone(), runs: Arc::new(runs) }
    });
    followed.collect()
}

/// What completes when the informer finds that its kind is not served any more.
fn not_served(subscription: &Subscription) -> impl Future<Output = ()> + Send + 'static {
    // One that has been gone before, and lingers, does not know yet that the kind is back.
    let (served, gone) = (subscription.when(|status| !status.gone), subscription.when(|status| status.gone));
    served.then(|()| gone)
}

impl Watching {
    /// Completes when every first list is in its store: nothing is decided on half a cache.
    fn synced(&self) -> impl Future<Output = ()> + Send + 'static {
        let synced = self.subscriptions.iter().map(|(subscription, _)| subscription.when(|status| status.synced));
        join_all(synced.collect::<Vec<_>>()).map(drop)
    }
}
