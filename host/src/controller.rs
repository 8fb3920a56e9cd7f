//! One controller's wiring, from its manifest to its workers, and its end.
//!
//! A controller goes round: it waits until its kinds are served, runs until one of them goes, and waits again.

mod admit;
mod former;
mod start;
mod warm;

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all, select_all};
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::fair::Share;
use windlass_core::grants::{Grants, LiveGrants};
use windlass_core::mapping::PrimaryKind;
use windlass_core::object::ObjectKind;
use windlass_core::principal::ServiceAccount;
use windlass_core::progress::Turn;
use windlass_kube::{Budget, DiscoveryError, Excess, LiveReader, Readable, SubscribeOptions, Subscription};
use windlass_wasm::Plugin;
use windlass_wasm::manifest::Controller as Declared;

use self::former::Former;
use crate::admission::{Admitted, Revoked, Terms};
use crate::config::Configured;
use crate::install::Ready;
use crate::kinds::Definitions;
use crate::leadership::Tenure;
use crate::manager::Host;
use crate::phases::Phases;
use crate::resolve::{self, ResolveError, Resolved};
use crate::route::{Route, Stores};
use crate::running::{End, kept_up, tracker};
use crate::status::{ControllerState, ControllerStatus, PluginState};
use crate::supervise::jittered;

/// How long a controller may wait for what its plugin needs before that is shown as waiting.
const SOON: Duration = Duration::from_secs(5);
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
    /// The right to run.
    tenure: Tenure,
    former: Arc<Former>,
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
    /// Before it subscribed to any of it.
    since: Turn,
    /// Kinds that a definition may bring, and its name.
    defined: Vec<(ObjectKind, Arc<str>)>,
    keeping: Grants,
    live: LiveGrants,
    impersonate: Option<ServiceAccount>,
    /// Is told when `live` has changed.
    regranted: Arc<Notify>,
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
    /// The operator's policies do not allow it any more.
    Revoked(Revoked),
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
        let tenure = Tenure::unshared(&CancellationToken::new());
        let (former, workers) = (Arc::default(), tracker());
        Self { host, plugin, share, budget, live, index, status, ready, configured, tenure, former, workers }
    }

    /// The same for one tenure. None of its workers begins before those of the tenure before have ended.
    pub(crate) fn under(&self, tenure: &Tenure) -> Self {
        let Self { host, plugin, share, budget, live, index, status, ready, configured, former, workers, .. } = self;
        let (host, plugin, share, budget) = (host.clone(), plugin.clone(), share.clone(), budget.clone());
        let (live, index, status) = (live.clone(), *index, status.clone());
        let (former, workers) = (former.clone(), workers.clone());
        let (ready, configured, tenure) = (ready.clone(), configured.clone(), tenure.clone());
        status.set(ControllerState::Starting, None);
        Self { host, plugin, share, budget, live, index, status, ready, configured, tenure, former, workers }
    }

    /// Shows that another replica runs it.
    pub(crate) fn stands_by(&self, holder: Option<&str>) {
        match holder {
            Some(holder) => self.status.set(ControllerState::StandingBy, Some(format!("{holder} runs it"))),
            // Whose turn it is will be known soon, and then the host is ready or not.
            None => self.status.set(ControllerState::Starting, Some("nobody is known to run it".to_owned())),
        }
    }

    /// The same, which begins when its plugin's definitions are `ready` and its configuration is there.
    pub(crate) fn after(self, ready: Ready, configured: Configured) -> Self {
        Self { ready, configured, ..self }
    }

    /// Waits for what the plugin needs before it looks for its kinds. False: the host stops.
    async fn prepared(&self, stop: &CancellationToken) -> bool {
        let (mut ready, mut configured) = (self.ready.clone(), self.configured.clone());
        let both = async {
            let definitions = "for its definitions to be granted and installed: the log says what is in the way";
            let configuration = "for a configuration that is right: the log says what is wrong";
            self.shown(definitions, ready.wait_for(|ready| *ready)).await.is_ok()
                && self.shown(configuration, configured.wait_for(Option::is_some)).await.is_ok()
        };
        stop.run_until_cancelled(both).await == Some(true)
    }

    /// Waits for `needed`, and shows that it does if that takes long: then somebody has to do something.
    async fn shown<T>(&self, why: &str, needed: impl Future<Output = T>) -> T {
        let mut needed = std::pin::pin!(needed);
        if let Ok(done) = tokio::time::timeout(SOON, needed.as_mut()).await {
            return done;
        }
        self.status.set(ControllerState::Waiting, Some(why.to_owned()));
        let done = needed.await;
        self.status.set(ControllerState::Starting, None);
        done
    }

    /// Runs until the host stops, and then to the end of the calls that run, whatever panics.
    pub(crate) async fn run(&self, phases: &Phases) -> End {
        kept_up(&self.host.panics, phases, &self.workers, || self.rounds(phases)).await
    }

    async fn rounds(&self, phases: &Phases) -> End {
        let stop = &phases.stop;
        if !self.prepared(stop).await {
            return End::Clean;
        }
        loop {
            let definitions = self.host.kinds.snapshot();
            let Admitted { resolved, live, terms } = match stop.run_until_cancelled(self.admitted()).await {
                Some(Some(admitted)) => admitted,
                Some(None) => {
                    self.status.set(ControllerState::Stopped, Some("see the log".to_owned()));
                    return End::Impossible;
                }
                None => return End::Clean,
            };
            let watching = self.subscribe(resolved, live, &terms);
            let (bound, revoked) = self.bound(&watching, terms);
            let gone = self.gone(&watching, &definitions, revoked);
            // To the end of the last call of the round, and first at each turn: what is revoked must not wait for anything.
            let round = tokio::select! {
                biased;
                never = bound => match never {},
                round = self.round(watching, gone, phases) => round,
            };
            self.former.rest();
            let kind = match round {
                ControlFlow::Break(end) => return end,
                ControlFlow::Continue(Loss::NotServed(kind) | Loss::Redefined(kind)) => kind,
                ControlFlow::Continue(Loss::OverBudget(_)) => {
                    // It would need the same again.
                    stop.cancelled().await;
                    return End::Clean;
                }
                ControlFlow::Continue(Loss::Revoked(_)) => continue,
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
        phases: &Phases,
    ) -> ControlFlow<End, Loss> {
        let stop = &phases.stop;
        let ready = self.fresh(&watching);
        // Keys may wait for the last of the first lists, events may not: they would heap up.
        let running = self.start(watching, phases);
        let early = tokio::select! {
            biased;
            () = stop.cancelled() => {
                running.abandon().await;
                return ControlFlow::Break(End::Clean);
            }
            loss = &mut gone => Some(loss),
            () = ready => None,
        };
        let loss = if let Some(loss) = early {
            loss
        } else {
            self.work(&running);
            tokio::select! {
                biased;
                () = stop.cancelled() => return ControlFlow::Break(running.end(phases).await),
                loss = gone => loss,
            }
        };
        self.tell(&loss);
        match stop.run_until_cancelled(running.abandon()).await {
            Some(()) => ControlFlow::Continue(loss),
            None => ControlFlow::Break(phases.last_calls(&self.workers).await),
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
            Loss::Revoked(_) => self.status.set(ControllerState::Waiting, Some("for its grants".to_owned())),
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
            Loss::Revoked(Revoked::All) => tracing::warn!(
                %plugin, controller, "controller stopped: no policy grants the plugin anything any more"
            ),
            Loss::Revoked(Revoked::Watch(denial)) => tracing::warn!(
                %plugin, controller, error = %denial, "controller stopped: one of its watches was revoked"
            ),
            Loss::Revoked(Revoked::Refused(refusal)) => tracing::warn!(
                %plugin, controller, error = %refusal, "controller stopped: its account may not watch what it watches"
            ),
            Loss::Revoked(Revoked::Scope) => tracing::info!(
                %plugin, controller, "controller stopped: its watches are granted in other namespaces now"
            ),
            Loss::Revoked(Revoked::Account) => tracing::info!(
                %plugin, controller, "controller stopped: its policy names another service account"
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

    fn subscribe(&self, resolved: Resolved, live: LiveGrants, terms: &Terms) -> Watching {
        let mut primaries = Vec::new();
        let mut readable = Vec::new();
        let mut declared = Vec::new();
        let mut subscriptions = Vec::new();
        let since = Turn::take();
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
        let Resolved { primary, keeping, .. } = resolved;
        let (impersonate, regranted) = (terms.impersonate.clone(), terms.regranted.clone());
        Watching {
            primary,
            primaries,
            readable,
            declared,
            subscriptions,
            since,
            defined,
            keeping,
            live,
            impersonate,
            regranted,
        }
    }

    /// What binds the calls to the policies, for ever, and what completes when the `terms` are broken.
    fn bound(
        &self,
        watching: &Watching,
        terms: Terms,
    ) -> (BoxFuture<'static, Infallible>, impl Future<Output = Loss> + Send + 'static) {
        let (host, plugin, live) = (self.host.clone(), self.plugin.name().clone(), watching.live.clone());
        let (broken, revoked) = oneshot::channel();
        let bound = async move { terms.keep(&host.policies, &host.reviews, &plugin, &live, broken).await }.boxed();
        let revoked = async move {
            match revoked.await {
                Ok(revoked) => Loss::Revoked(revoked),
                // What would tell is polled as long as this is.
                Err(_) => std::future::pending().await,
            }
        };
        (bound, revoked)
    }

    /// What completes when one of the kinds that are watched has gone, or is no longer what it was when `definitions` were
    /// seen, or when the plugin's caches are too large, or when the terms are broken.
    fn gone(
        &self,
        watching: &Watching,
        definitions: &Definitions,
        revoked: impl Future<Output = Loss> + Send + 'static,
    ) -> BoxFuture<'static, Loss> {
        let budget = self.budget.clone();
        let excess = async move { Loss::OverBudget(budget.exceeded().await) };
        // First the policies: what they revoke must not wait for anything.
        let mut losses: Vec<BoxFuture<'static, Loss>> = vec![revoked.boxed(), excess.boxed()];
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
