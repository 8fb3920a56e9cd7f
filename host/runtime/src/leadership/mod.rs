//! Decides which plugins this process runs: each plugin depends on a lease, and runs while this process holds it (ADR
//! 12).
//!
//! `core::lease` decides about one lease, and `core::sharing` which replica should have it; [`elector`] carries that
//! out for one lease. [`replicas`] follows the other replicas, [`offers`] publishes what each can serve, [`slots`]
//! knows which plugins depend on which lease, and `plugins/serve.rs` runs a plugin from one term to the next. The
//! writer asks the [`fence`] right before it sends a write. Nothing here knows what a controller does.

mod elector;
mod fence;
mod metrics;
mod offers;
mod pulse;
mod rejected;
mod replicas;
mod settings;
mod slots;
mod timers;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::clock::Clock;
use windlass_core::life::lease::{Election, FoundLease};
use windlass_core::life::plugin_state::{ControllerState, LeaseStatus};
use windlass_core::life::sharing::{Members, Membership, Offer, Part};
use windlass_core::repeats::Repeats;
use windlass_core::rights::fence::Fenced;
use windlass_core::rights::principal::{Principal, Role};
use windlass_kube::client::Connection;
use windlass_kube::{Informers, LeaseError, LeaseKind, Leases};

use self::elector::Elector;
use self::offers::ReadOffers;
pub(crate) use self::offers::{PluginReplicas, StartedPlugins};
use self::pulse::Pulse;
pub(crate) use self::rejected::RejectedPlugins;
use self::replicas::Replicas;
pub use self::settings::{LeaseMode, LeaseSettings};
pub(crate) use self::slots::PluginLease;
use self::slots::{LeaseSlot, LeaseSlots};
use crate::clock;
use crate::supervise::{Panics, supervise};

/// How long to wait for the first list of leases. After that, elections read their leases themselves.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long releasing the leases may take at the end. Leases that are not released by then expire.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// The right to run a plugin while its lease is held. The lease is not released while a clone exists.
#[derive(Clone, Debug)]
pub(crate) struct PluginTerm {
    /// The fence that every principal of the plugin carries.
    pub(crate) fence: Fenced,
    /// Cancelled when the term should end: work may finish in order, as when the host stops.
    pub(crate) ends: CancellationToken,
    /// Cancelled when the term has ended: new work could not be finished.
    pub(crate) lost: CancellationToken,
    /// Whether another replica may have had the lease before.
    pub(crate) is_shared: bool,
}

impl PluginTerm {
    /// A term without a lease, until `stop`: no other replica competes for it.
    pub(crate) fn unshared(stop: &CancellationToken) -> Self {
        Self { fence: Fenced::default(), ends: stop.child_token(), lost: CancellationToken::new(), is_shared: false }
    }
}

/// The state of a lease as this replica sees it.
#[derive(Clone, Debug)]
pub(crate) struct LeaseStanding {
    /// Set if the lease is held here and its plugins may start.
    term: Option<PluginTerm>,
    /// Whether this replica holds the lease now.
    pub(crate) status: LeaseStatus,
    /// The holder, if known.
    pub(crate) holder: Option<Arc<str>>,
}

impl Default for LeaseStanding {
    fn default() -> Self {
        Self { term: None, status: LeaseStatus::NotHeld, holder: None }
    }
}

impl LeaseStanding {
    /// The state of a controller that this replica may not run, and the reason. `unserved` says why no replica runs it.
    pub(crate) fn standing_by(&self, unserved: Option<&str>) -> (ControllerState, String) {
        match (&self.holder, unserved) {
            (_, Some(why)) => (ControllerState::Unserved, why.to_owned()),
            _ if self.status == LeaseStatus::Lost => {
                let why = "this replica has lost its lease, and no other is known to have taken it";
                (ControllerState::StandingBy, why.to_owned())
            }
            (Some(holder), None) => (ControllerState::StandingBy, format!("{holder} runs it")),
            // The holder will be known soon. The host is not ready until then.
            (None, None) => (ControllerState::Starting, "it is not known yet which replica runs it".to_owned()),
        }
    }
}

/// All leases that this process competes for.
pub(crate) struct Leadership {
    settings: LeaseSettings,
    me: Arc<str>,
    clock: Arc<dyn Clock>,
    leases: Leases,
    /// The leases over separate connections, which only electors use.
    electing: Leases,
    /// The runtime on which electors run.
    threads: Handle,
    /// The pulse of the threads where everything except elections runs.
    pulse: Arc<Pulse>,
    slots: LeaseSlots,
    rejected: watch::Sender<RejectedPlugins>,
    /// Held while the progress of a timer is written: timers that are due together would conflict with each other.
    timer_write: AsyncMutex<()>,
    /// Cancelled once the first list of leases is there, or is known to fail.
    listed: CancellationToken,
    /// Cancelled once this replica has loaded all its plugins, so that other replicas may hand plugins over to it.
    joined: CancellationToken,
    membership: watch::Sender<Membership>,
    started_plugins: watch::Sender<StartedPlugins>,
    /// The plugins that this replica can serve. `None` if it does not publish them.
    offer: watch::Sender<Option<Arc<Offer>>>,
    stop: CancellationToken,
    /// Cancelled after the electors have released their leases. Ends the tasks that follow the leases, and electors
    /// that have not released their lease.
    over: CancellationToken,
    electors: TaskTracker,
    started: Mutex<bool>,
}

impl Leadership {
    /// Knows no plugin yet and sends nothing. `replica` is a name that no other process ever has.
    pub(crate) fn new(
        settings: LeaseSettings,
        connection: &Connection,
        replica: &Arc<str>,
        stop: &CancellationToken,
    ) -> Result<Self, LeaseError> {
        let role = || Principal::of_host(Role::Lease, replica.clone());
        let namespace = settings.namespace.as_deref().unwrap_or(&connection.default_namespace);
        let leases = Leases::new(connection.client.clone(), role(), namespace, &*settings.instance)?;
        let leases = leases.reporting_to(&connection.restores);
        let threads = settings.threads.clone().unwrap_or_else(Handle::current);
        let electing = if settings.mode == LeaseMode::None {
            leases.clone()
        } else {
            let client = {
                let _entered = threads.enter();
                connection.another_client().map_err(|error| LeaseError::Unnameable(error.to_string()))?
            };
            Leases::new(client, role(), namespace, &*settings.instance)?.reporting_to(&connection.restores)
        };
        let clock = clock::of_leases();
        let pulse = Arc::new(Pulse::new(clock.now()));
        let only_this = Members::new(replica.clone(), clock.now()).at(clock.now()).clone();
        Ok(Self {
            membership: watch::Sender::new(only_this),
            settings,
            me: replica.clone(),
            clock,
            leases,
            electing,
            threads,
            pulse,
            slots: LeaseSlots::default(),
            rejected: watch::Sender::default(),
            timer_write: AsyncMutex::default(),
            started_plugins: watch::Sender::default(),
            offer: watch::Sender::default(),
            listed: CancellationToken::new(),
            joined: CancellationToken::new(),
            stop: stop.child_token(),
            over: CancellationToken::new(),
            electors: TaskTracker::new(),
            started: Mutex::new(false),
        })
    }

    /// The namespace of the leases.
    pub(crate) fn namespace(&self) -> &Arc<str> {
        self.leases.namespace()
    }

    /// The name of the lease that `plugin` depends on, whether or not it is started here. `None` if this host uses no
    /// leases.
    pub(crate) fn lease_of(&self, plugin: &str) -> Option<String> {
        self.settings.lease_of(plugin)
    }

    /// Whether this replica keeps the caches of plugins that other replicas run.
    pub(crate) fn is_warm_standby(&self) -> bool {
        self.settings.warm_standby && self.settings.mode != LeaseMode::None
    }

    /// Call this once all plugins have been loaded. From then on this replica publishes that it lives, so that other
    /// replicas hand plugins over to it. Before, it could not run these plugins yet.
    pub(crate) fn join(&self) {
        self.joined.cancel();
    }

    /// Starts to follow which replicas live. A plugin with a slot runs once its lease is won.
    pub(crate) fn start(&self, informers: &Informers, panics: &Panics) {
        if self.settings.mode == LeaseMode::None {
            return;
        }
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = true;
        tracing::info!(
            replica = %self.me, instance = self.settings.instance,
            "standing for election: plugins run here while their leases are held"
        );
        let member = format!("{}{}", self.settings.member_prefix(), self.me);
        // The elector of the member lease relies on its own requests only.
        let (outside, unseen) = (self.outside(), watch::channel(None).1);
        let elector = self.elector(member.into(), LeaseKind::Member, &outside, unseen, self.stop.clone());
        let replicas = Replicas {
            leases: self.leases.clone(),
            informers: informers.clone(),
            clock: self.clock.clone(),
            settings: self.settings.clone(),
            rejected: self.rejected.clone(),
            offer: self.offer.subscribe(),
            offers: ReadOffers::default(),
            members: Members::new(self.me.clone(), self.clock.now()),
            membership: self.membership.clone(),
            slots: self.slots.clone(),
            versions: HashMap::new(),
        };
        self.follow(informers, panics, replicas);
        let (elector, panics) = (AsyncMutex::new(elector), panics.clone());
        let (stop, listed, joined) = (self.stop.clone(), self.listed.clone(), self.joined.clone());
        let elects = async move {
            let first = async { tokio::join!(listed.cancelled(), joined.cancelled()) };
            stop.run_until_cancelled(first).await;
            let stand = async || elector.lock().await.run().await;
            supervise("lease", &panics, &CancellationToken::new(), stand).await;
        };
        self.elect(elects);
        let (pulse, clock, over) = (self.pulse.clone(), self.clock.clone(), self.over.clone());
        tokio::spawn(async move { over.run_until_cancelled(pulse.beat(&*clock)).await });
        self.electors.close();
    }

    fn elector(
        &self,
        lease: Arc<str>,
        kind: LeaseKind,
        slot: &LeaseSlot,
        sightings: watch::Receiver<FoundLease>,
        stop: CancellationToken,
    ) -> Elector {
        let LeaseSettings { mode, timing, stability, .. } = &self.settings;
        let part = || {
            let part = Part::new(lease.clone(), self.me.clone(), *stability, timing.retry_period());
            if *mode == LeaseMode::Single { part.sticky() } else { part }
        };
        Elector {
            part: (kind == LeaseKind::Plugins).then(part),
            offer: self.offer.subscribe(),
            figures: slot.figures.clone(),
            lease,
            kind,
            me: self.me.clone(),
            election: Election::new(self.me.clone(), *timing),
            leases: self.electing.clone(),
            clock: self.clock.clone(),
            pulse: self.pulse.clone(),
            sightings,
            members: self.membership.subscribe(),
            standing: slot.standing(),
            stop,
            current: None,
            letting_go: None,
            logged: String::new(),
            lines: Repeats::a_minute(elector::FAILURES_A_MINUTE),
        }
    }

    /// Starts the tasks that follow the leases, and marks when the first list of leases is there.
    fn follow(&self, informers: &Informers, panics: &Panics, replicas: Replicas) {
        let watch = self.leases.watch();
        let subscription = informers.subscribe(watch.clone());
        let synced = subscription.when(|status| status.synced);
        let error = subscription.when(|status| status.error.is_some());
        let (over, follow_panics) = (self.over.clone(), panics.clone());
        let followed = AsyncMutex::new((replicas, subscription));
        tokio::spawn(async move {
            let follow = async || {
                let (replicas, subscription) = &mut *followed.lock().await;
                replicas.follow(subscription).await;
            };
            over.run_until_cancelled(supervise("replicas", &follow_panics, &over, follow)).await;
        });
        let (over, listed) = (self.over.clone(), self.listed.clone());
        tokio::spawn(async move {
            let in_time = tokio::time::timeout(FIRST_LIST_TIMEOUT, synced).await.is_ok();
            listed.cancel();
            if !in_time && over.run_until_cancelled(error).await.is_some() {
                tracing::warn!(%watch, "leases cannot be watched: replicas learn of each other late, if at all");
            }
        });
    }

    /// Runs an election on the election threads until it has released its lease, or the host stops waiting for it.
    fn elect(&self, elects: impl Future<Output = ()> + Send + 'static) {
        let over = self.over.clone();
        let elects = async move {
            over.run_until_cancelled(elects).await;
        };
        self.electors.spawn_on(elects, &self.threads);
    }

    /// Whether any lease may need to be released.
    pub(crate) fn has_started(&self) -> bool {
        *self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases all leases, after everything that ran here has ended. `false` if some were not released: work may not
    /// have ended, or the API server does not answer.
    pub(crate) async fn end(&self) -> bool {
        self.stop.cancel();
        let released = !self.has_started() || tokio::time::timeout(RELEASE_TIMEOUT, self.electors.wait()).await.is_ok();
        self.over.cancel();
        released
    }
}

#[cfg(test)]
mod tests;
