//! Which plugins this process runs (§3.8): plugins go by leases, and run while theirs is held here.
//!
//! `core::lease` decides about one lease and `core::sharing` about who is to have it; [`elector`] carries that out for one lease,
//! [`replicas`] follows who else there is, [`serve`] runs a plugin from one tenure to the next. What may be written is asked of
//! the [`fence`] by the writer, last before sending. Nothing here knows what a controller does.

mod elector;
mod fence;
mod metrics;
mod replicas;
pub(crate) mod serve;
mod settings;
mod swap;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_core::clock::Clock;
use windlass_core::fence::Fenced;
use windlass_core::lease::{Election, Found};
use windlass_core::principal::{Principal, Role};
use windlass_core::sharing::{Members, Membership, Part};
use windlass_kube::client::Connection;
use windlass_kube::{Informers, LeaseError, LeaseKind, Leases};

use self::elector::{Elector, Figures};
use self::replicas::Replicas;
pub(crate) use self::settings::{LeaseMode, LeaseSettings};
use crate::clock::BootClock;
use crate::supervise::{Panics, supervise};

/// How long the first list of leases may take before elections go on without it: by asking.
const FIRST_LIST: Duration = Duration::from_secs(5);
/// How long releasing may take in the end. What is not released by then, expires.
const RELEASE: Duration = Duration::from_secs(3);

/// The right to run a plugin, for as long as its lease is held. Whoever has a clone keeps the lease from being let go of.
#[derive(Clone, Debug)]
pub(crate) struct Tenure {
    /// What every principal of the plugin carries.
    pub(crate) fence: Fenced,
    /// It is to end: what runs may end in order, as when the host stops.
    pub(crate) ends: CancellationToken,
    /// It has ended: nothing that is begun now may be finished.
    pub(crate) lost: CancellationToken,
    /// Others may have had it before.
    pub(crate) is_shared: bool,
}

impl Tenure {
    /// One that nobody else can have, until `stop`.
    pub(crate) fn unshared(stop: &CancellationToken) -> Self {
        Self { fence: Fenced::default(), ends: stop.child_token(), lost: CancellationToken::new(), is_shared: false }
    }
}

/// Where a lease stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    /// Held here, and whoever goes by it may begin.
    tenure: Option<Tenure>,
    /// Who holds it, as far as is known.
    pub(crate) holder: Option<Arc<str>>,
}

/// One plugin's place: it waits here for its tenures.
#[derive(Clone)]
pub(crate) struct Seat {
    /// Its lease. None: it goes by none.
    pub(crate) lease: Option<Arc<str>>,
    standing: watch::Receiver<Standing>,
    me: Arc<str>,
    stop: CancellationToken,
}

impl Seat {
    /// Waits for the next tenure.
    pub(crate) async fn tenure(&self) -> Tenure {
        if self.lease.is_none() {
            return Tenure::unshared(&self.stop);
        }
        let mut standing = self.standing.clone();
        let is_open = |standing: &Standing| standing.tenure.as_ref().is_some_and(|it| !it.ends.is_cancelled());
        let tenure = standing.wait_for(is_open).await.ok().and_then(|standing| standing.tenure.clone());
        match tenure {
            Some(tenure) => tenure,
            // No elector is left: the host stops.
            None => std::future::pending().await,
        }
    }

    /// Who runs the plugin, as far as is known.
    pub(crate) fn holder(&self) -> Option<Arc<str>> {
        if self.lease.is_none() { Some(self.me.clone()) } else { self.standing.borrow().holder.clone() }
    }

    /// Whether it is run here.
    pub(crate) fn is_held(&self) -> bool {
        self.holder().as_ref() == Some(&self.me)
    }
}

/// All leases of this process.
pub(crate) struct Leadership {
    settings: LeaseSettings,
    me: Arc<str>,
    clock: Arc<dyn Clock>,
    leases: Leases,
    /// One for each lease that a plugin of this process goes by.
    standings: BTreeMap<Arc<str>, watch::Sender<Standing>>,
    figures: BTreeMap<Arc<str>, Arc<Figures>>,
    membership: watch::Sender<Membership>,
    stop: CancellationToken,
    /// Electors let go first, then this ends what follows the leases.
    over: CancellationToken,
    electors: TaskTracker,
    started: Mutex<bool>,
}

impl Leadership {
    /// For these plugins; nothing is asked for yet. `replica` is this process, and never another.
    pub(crate) fn new<'a>(
        settings: LeaseSettings,
        connection: &Connection,
        replica: &Arc<str>,
        plugins: impl Iterator<Item = &'a str>,
        stop: &CancellationToken,
    ) -> Result<Self, LeaseError> {
        let role = Principal::of_host(Role::Lease, replica.clone());
        let namespace = settings.namespace.as_deref().unwrap_or(&connection.default_namespace);
        let leases = Leases::new(connection.client.clone(), role, namespace, &*settings.instance)?;
        let names: Vec<Arc<str>> = plugins.filter_map(|plugin| settings.lease_of(plugin)).map(Arc::from).collect();
        let standings: BTreeMap<Arc<str>, _> =
            names.into_iter().map(|lease| (lease, watch::Sender::new(Standing::default()))).collect();
        let clock: Arc<dyn Clock> = Arc::new(BootClock::new());
        let nobody_else = Members::new(replica.clone(), clock.now()).at(clock.now()).clone();
        Ok(Self {
            figures: standings.keys().map(|lease| (lease.clone(), Arc::default())).collect(),
            membership: watch::Sender::new(nobody_else),
            settings,
            me: replica.clone(),
            clock,
            leases,
            standings,
            stop: stop.child_token(),
            over: CancellationToken::new(),
            electors: TaskTracker::new(),
            started: Mutex::new(false),
        })
    }

    /// The place of `plugin`.
    pub(crate) fn seat(&self, plugin: &str) -> Seat {
        let lease: Option<Arc<str>> = self.settings.lease_of(plugin).map(Arc::from);
        let standing = lease.as_ref().and_then(|lease| self.standings.get(lease));
        let standing = standing.map_or_else(|| watch::channel(Standing::default()).1, watch::Sender::subscribe);
        Seat { lease, standing, me: self.me.clone(), stop: self.stop.clone() }
    }

    /// Whether caches of plugins are kept that others run.
    pub(crate) fn is_warm_standby(&self) -> bool {
        self.settings.warm_standby && self.settings.mode != LeaseMode::None
    }

    /// Stands for election from now on.
    pub(crate) fn start(&self, informers: &Informers, panics: &Panics) {
        if self.standings.is_empty() {
            return;
        }
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = true;
        tracing::info!(
            replica = %self.me, instance = self.settings.instance, leases = self.standings.len(),
            "standing for election: plugins run here while their leases are held"
        );
        let (member, member_sightings) =
            (format!("{}{}", self.settings.member_prefix(), self.me), watch::channel(None));
        let mut sightings: HashMap<Arc<str>, watch::Sender<Found>> = HashMap::new();
        let mut electors = Vec::new();
        // By its own requests alone.
        let nobody = watch::Sender::new(Standing::default());
        electors.push(self.elector(member.into(), LeaseKind::Member, nobody, member_sightings.1));
        for (lease, standing) in &self.standings {
            let (sender, receiver) = watch::channel(None);
            sightings.insert(lease.clone(), sender);
            electors.push(self.elector(lease.clone(), LeaseKind::Plugins, standing.clone(), receiver));
        }
        let replicas = Replicas {
            leases: self.leases.clone(),
            clock: self.clock.clone(),
            prefix: self.settings.member_prefix(),
            duration: self.settings.timing.duration(),
            members: Members::new(self.me.clone(), self.clock.now()),
            membership: self.membership.clone(),
            electors: sightings,
            versions: HashMap::new(),
        };
        self.follow(informers, panics, replicas, electors);
        self.electors.close();
    }

    fn elector(
        &self,
        lease: Arc<str>,
        kind: LeaseKind,
        standing: watch::Sender<Standing>,
        sightings: watch::Receiver<Found>,
    ) -> Elector {
        let LeaseSettings { mode, timing, stability, .. } = &self.settings;
        let is_shared = kind == LeaseKind::Plugins && *mode != LeaseMode::Single;
        let part = || Part::new(lease.clone(), self.me.clone(), *stability, timing.retry_period());
        Elector {
            part: is_shared.then(part),
            figures: self.figures.get(&lease).cloned().unwrap_or_default(),
            lease,
            kind,
            me: self.me.clone(),
            election: Election::new(self.me.clone(), *timing),
            leases: self.leases.clone(),
            clock: self.clock.clone(),
            sightings,
            members: self.membership.subscribe(),
            standing,
            stop: self.stop.clone(),
            current: None,
            letting_go: None,
            told: String::new(),
        }
    }

    /// Starts the tasks: first what follows the leases, and once the first list is there, the electors.
    fn follow(&self, informers: &Informers, panics: &Panics, replicas: Replicas, electors: Vec<Elector>) {
        let subscription = informers.subscribe(self.leases.watch());
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
        let (panics, tracker, over) = (panics.clone(), self.electors.clone(), self.over.clone());
        self.electors.spawn(async move {
            if tokio::time::timeout(FIRST_LIST, synced).await.is_err() {
                tokio::spawn(async move {
                    if over.run_until_cancelled(error).await.is_some() {
                        tracing::warn!("leases cannot be watched: replicas learn of each other late, if at all");
                    }
                });
            }
            for elector in electors {
                let (panics, elector) = (panics.clone(), AsyncMutex::new(elector));
                tracker.spawn(async move {
                    let stand = async || elector.lock().await.run().await;
                    supervise("lease", &panics, &CancellationToken::new(), stand).await;
                });
            }
        });
    }

    /// Whether there is anything to let go of.
    pub(crate) fn has_started(&self) -> bool {
        *self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of everything, after all that ran here has ended. False: not of everything, since something that was begun may
    /// not have ended, or the API server does not answer.
    pub(crate) async fn end(&self) -> bool {
        self.stop.cancel();
        let released = !self.has_started() || tokio::time::timeout(RELEASE, self.electors.wait()).await.is_ok();
        self.over.cancel();
        released
    }
}

#[cfg(test)]
mod tests;
