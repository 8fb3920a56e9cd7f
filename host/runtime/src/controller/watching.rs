//! The watches of a controller, and the losses that end a round.

use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all, select_all};
use tokio::sync::{Notify, oneshot, watch};
use windlass_core::cache::mapping::{Mapping, PrimaryKind};
use windlass_core::cache::watch::{WatchEvent, WatchSpec};
use windlass_core::object::ObjectKind;
use windlass_core::object::progress::Stamp;
use windlass_core::rights::grants::{Grants, LiveGrants};
use windlass_core::rights::principal::ServiceAccount;
use windlass_kube::{Budget, Excess, InformerStatus, Informers, Readable, SubscribeOptions, Subscription};
use windlass_manifest::Controller as Declared;

use super::Controller;
use super::muted::MutedChanges;
use crate::admission::kinds::Definitions;
use crate::admission::left_out::LeftOut;
use crate::admission::resolve::Resolved;
use crate::admission::{Needed, Revoked, Terms};
use crate::dispatch::route::{Route, Stores};
use crate::observe::status::{ControllerState, GateCaches};

/// A controller that has subscribed to all its watches.
pub(super) struct Watching {
    /// The controller with the kinds that it watches.
    pub(super) controller: Arc<Declared>,
    pub(super) primary: PrimaryKind,
    pub(super) primaries: Stores,
    pub(super) readable: Vec<Readable>,
    /// For each declared watch, in the manifest's order, the watches that it became.
    pub(super) declared: Vec<(Route, Vec<Readable>)>,
    pub(super) subscriptions: Vec<(Subscription, Route)>,
    /// A time before the controller's first subscription.
    pub(super) since: Stamp,
    /// The changes to remember of the discarded events. `None` if none were discarded.
    muted: Mutex<Option<MutedChanges>>,
    /// The kinds that a definition may bring, each with the definition's name.
    pub(super) defined: Vec<(ObjectKind, Arc<str>)>,
    /// The configured kinds that it does not watch for now.
    pub(super) left_out: LeftOut,
    /// The watches that it can work without.
    pub(super) optional: Vec<OptionalWatch>,
    pub(super) finalizer_grants: Grants,
    pub(super) live: LiveGrants,
    pub(super) impersonate: Option<ServiceAccount>,
    /// Notified when `live` has changed.
    pub(super) regranted: Arc<Notify>,
}

/// A watch that the controller can work without.
pub(super) struct OptionalWatch {
    pub(super) needed: Needed,
    pub(super) status: watch::Receiver<InformerStatus>,
}

/// Why a controller cannot go on although the host goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KindLoss {
    /// A kind is no longer served.
    NotServed(ObjectKind),
    /// The definition of a kind was removed or replaced.
    Redefined(ObjectKind),
    /// The plugin's caches became too large.
    OverBudget(Arc<Excess>),
    /// The operator's policies no longer allow the controller.
    Revoked(Revoked),
    /// The configuration names other kinds.
    OtherKinds,
    /// A configured kind that was left out can be watched now: it is served, and the impersonated account may watch it.
    Gained(ObjectKind),
    /// The host lost the right to watch a configured kind that the controller can work without.
    Forbidden(ObjectKind),
}

impl fmt::Display for KindLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed(kind) => write!(f, "the API server no longer serves {kind}"),
            Self::Redefined(kind) => write!(f, "the definition of {kind} was removed or replaced"),
            Self::OverBudget(excess) => excess.fmt(f),
            Self::Revoked(_) => f.write_str("what it watches is not granted any more"),
            Self::OtherKinds => f.write_str("its configuration names other kinds"),
            Self::Gained(kind) => write!(f, "it can watch {kind} now"),
            Self::Forbidden(kind) => write!(f, "the host may not list and watch {kind} any more"),
        }
    }
}

/// The caches of a gate, in the gate's order.
pub(super) struct WatchedCaches {
    pub(super) watches: Vec<WatchSpec>,
    pub(super) informers: Informers,
}

impl GateCaches for WatchedCaches {
    fn watch(&self, cache: usize) -> Option<String> {
        self.watches.get(cache).map(ToString::to_string)
    }

    fn silence(&self, cache: usize) -> Option<Duration> {
        self.informers.silence(self.watches.get(cache)?)
    }
}

impl Controller {
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.parts.budget
    }

    pub(super) fn subscribe(&self, resolved: Resolved, live: LiveGrants, terms: &Terms) -> Watching {
        let (mut primaries, mut indexes_of_primaries) = (Vec::new(), Vec::new());
        let mut readable = Vec::new();
        let mut declared = Vec::new();
        let mut subscriptions = Vec::new();
        let since = Stamp::take();
        let (mut defined, mut optional) = (Vec::new(), Vec::new());
        for watched in resolved.watches {
            let first = readable.len();
            for (name, spec) in watched.definition.iter().zip(&watched.specs) {
                defined.push((spec.kind.clone(), name.clone()));
            }
            for spec in watched.specs {
                let indexes = watched.indexes.iter().map(|index| index.source.clone()).collect();
                let options = SubscribeOptions { indexes, budget: Some(self.parts.budget.clone()) };
                let subscription = self.parts.host.informers.subscribe_with(spec.clone(), options);
                let subscription = subscription.expect("the pointers of a valid manifest are pointers");
                let store = subscription.store().clone();
                if watched.is_optional {
                    let needed = Needed::of(&watched.resource, &spec);
                    optional.push(OptionalWatch { needed, status: subscription.statuses() });
                }
                if watched.is_primary {
                    primaries.push(store.clone());
                }
                readable.push(Readable { spec, store, indexes: watched.indexes.clone() });
                subscriptions.push((subscription, watched.route.clone()));
            }
            if watched.is_primary {
                indexes_of_primaries = watched.indexes;
            }
            declared.push((watched.route, readable[first..].to_vec()));
        }
        let Resolved { declared: controller, primary, left_out, finalizer_grants, .. } = resolved;
        let primaries = Stores::new(primaries).found_by(indexes_of_primaries).or_timer(self.timer(&controller));
        let (impersonate, regranted) = (terms.impersonate.clone(), terms.regranted.clone());
        Watching {
            controller,
            primary,
            primaries,
            readable,
            declared,
            subscriptions,
            since,
            muted: Mutex::default(),
            defined,
            left_out,
            optional,
            finalizer_grants,
            live,
            impersonate,
            regranted,
        }
    }

    /// Returns two futures. One applies the policies to the calls and never completes, and the other completes when the
    /// `terms` are broken.
    pub(super) fn bound(
        &self,
        watching: &Watching,
        terms: Terms,
    ) -> (BoxFuture<'static, Infallible>, impl Future<Output = KindLoss> + Send + 'static) {
        let (host, plugin, live) = (self.parts.host.clone(), self.parts.plugin.name().clone(), watching.live.clone());
        let (broken, revoked) = oneshot::channel();
        let bound = async move { terms.keep(&host.policies, &host.reviews, &plugin, &live, broken).await }.boxed();
        let revoked = async move {
            match revoked.await {
                Ok(revoked) => KindLoss::Revoked(revoked),
                // The sender lives as long as this future is polled.
                Err(_) => std::future::pending().await,
            }
        };
        (bound, revoked)
    }

    /// Completes when a watched kind has gone or differs from its state in `definitions`, when the host loses
    /// the right to watch an optional kind, when the configuration names other kinds, when the plugin's
    /// caches have outgrown their limits more than `excesses` times, or when the terms are broken.
    pub(super) fn gone(
        &self,
        watching: &Watching,
        excesses: u64,
        definitions: &Definitions,
        revoked: impl Future<Output = KindLoss> + Send + 'static,
    ) -> BoxFuture<'static, KindLoss> {
        let budget = self.parts.budget.clone();
        let excess = async move { KindLoss::OverBudget(budget.exceeded(excesses).await) };
        // The policies come first: a revocation must not wait for anything.
        let others = self.watches_others(watching.controller.clone()).map(|()| KindLoss::OtherKinds);
        let mut losses: Vec<BoxFuture<'static, KindLoss>> = vec![revoked.boxed(), excess.boxed(), others.boxed()];
        for (Readable { spec, .. }, (subscription, _)) in watching.readable.iter().zip(&watching.subscriptions) {
            let kind = spec.kind.clone();
            losses.push(not_served(subscription).map(|()| KindLoss::NotServed(kind)).boxed());
        }
        for (kind, name) in &watching.defined {
            self.parts.host.kinds.want();
            let kind = kind.clone();
            losses.push(self.parts.host.kinds.replaced(name, definitions).map(|()| KindLoss::Redefined(kind)).boxed());
        }
        losses.extend(self.forbidden(watching));
        select_all(losses).map(|(loss, ..)| loss).boxed()
    }

    /// Logs that the controller stops, and why.
    pub(super) fn log_loss(&self, loss: &KindLoss) {
        let (plugin, controller) = (self.parts.plugin.name(), self.name());
        match loss {
            KindLoss::OverBudget(excess) => return self.suspend(excess),
            KindLoss::Revoked(_) => self.report_state(ControllerState::Waiting, Some("for its grants".to_owned())),
            KindLoss::NotServed(_)
            | KindLoss::Redefined(_)
            | KindLoss::OtherKinds
            | KindLoss::Gained(_)
            | KindLoss::Forbidden(_) => {
                self.report_state(ControllerState::Starting, None);
            }
        }
        match loss {
            KindLoss::NotServed(kind) => tracing::warn!(
                %plugin, controller, %kind, "controller stopped: the API server no longer serves one of its kinds"
            ),
            KindLoss::Redefined(kind) => tracing::warn!(
                %plugin, controller, %kind, "controller stopped: the definition of one of its kinds was removed or replaced"
            ),
            // The suspension was logged already.
            KindLoss::OverBudget(_) => {}
            KindLoss::OtherKinds => tracing::info!(
                %plugin, controller, "controller stopped: its configuration names other kinds to watch now"
            ),
            KindLoss::Gained(kind) => tracing::info!(
                %plugin, controller, %kind, "controller stopped: it starts again, and also watches this kind"
            ),
            KindLoss::Forbidden(kind) => tracing::warn!(
                %plugin, controller, %kind, "controller stopped: the host may not watch this kind any more; it starts again without it"
            ),
            KindLoss::Revoked(Revoked::All) => tracing::warn!(
                %plugin, controller, "controller stopped: no policy grants the plugin anything any more"
            ),
            KindLoss::Revoked(Revoked::Watch(denial)) => tracing::warn!(
                %plugin, controller, error = %denial, "controller stopped: one of its watches was revoked"
            ),
            KindLoss::Revoked(Revoked::Refused(refusal)) => tracing::warn!(
                %plugin, controller, error = %refusal, "controller stopped: the service account that it uses may not make one of its watches"
            ),
            KindLoss::Revoked(Revoked::Scope) => tracing::info!(
                %plugin, controller, "controller stopped: the policies grant other watches now, in other namespaces or of other kinds"
            ),
            KindLoss::Revoked(Revoked::Account) => tracing::info!(
                %plugin, controller, "controller stopped: its policy names another service account"
            ),
        }
    }
}

/// Completes when the informer finds that its kind is no longer served.
fn not_served(subscription: &Subscription) -> impl Future<Output = ()> + Send + 'static {
    // An informer that has outlived its kind does not know yet that the kind is back.
    let (served, gone) = (subscription.when(|status| !status.gone), subscription.when(|status| status.gone));
    served.then(|()| gone)
}

impl Watching {
    /// The watches in the order of their caches.
    pub(super) fn specs(&self) -> Vec<WatchSpec> {
        self.readable.iter().map(|readable| readable.spec.clone()).collect()
    }

    /// The watches of the primaries.
    pub(super) fn primary_specs(&self) -> impl Iterator<Item = &WatchSpec> {
        self.declared.iter().take(1).flat_map(|(_, readable)| readable).map(|readable| &readable.spec)
    }

    /// Whether the plugin's own code decides which primaries count.
    pub(super) fn filters_primaries(&self) -> bool {
        self.declared.first().is_some_and(|(primary, _)| primary.code_predicate.is_some())
    }

    /// Discards the events of the watches so that they do not pile up, as no worker can handle them yet. Records the
    /// changes that the caches will not show later. Cancel-safe.
    pub(super) fn muted(&mut self) -> impl Future<Output = Infallible> {
        let filters_primaries = self.filters_primaries();
        let (changes, primaries) = (&self.muted, &self.primaries);
        changes.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
        let muted = self.subscriptions.iter_mut().enumerate().map(|(at, (subscription, route))| async move {
            while let Some(event) = subscription.next().await {
                let is_deleted_primary = matches!(event, WatchEvent::Deleted(_)) && route.mapping == Mapping::Itself;
                if filters_primaries || is_deleted_primary {
                    let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
                    changes.get_or_insert_default().record(at, event, route, primaries);
                }
            }
        });
        let muted = join_all(muted);
        async move {
            muted.await;
            // All subscriptions have ended, which is reported elsewhere.
            pending().await
        }
    }

    /// The changes to remember of the discarded events. `None` if none were discarded.
    pub(super) fn take_muted(&mut self) -> Option<MutedChanges> {
        std::mem::take(&mut self.muted).into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when every first list is in its store: a plugin must not decide on half a cache.
    pub(super) fn synced(&self) -> impl Future<Output = ()> + Send + 'static {
        let synced = self.subscriptions.iter().map(|(subscription, _)| subscription.when(|status| status.synced));
        join_all(synced.collect::<Vec<_>>()).map(drop)
    }
}
