//! The leases that this process competes for, one slot each. A plugin waits in its slot for the terms of its lease; the
//! process competes for a lease while one of its plugins depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio_util::sync::CancellationToken;
use windlass_core::life::lease::FoundLease;
use windlass_core::life::plugin_state::LeaseStatus;
use windlass_core::rights::fence::Fenced;
use windlass_kube::LeaseKind;

use super::elector::LeaseFigures;
use super::{Leadership, LeaseMode, LeaseStanding, PluginReplicas, PluginTerm};
use crate::observe::status::{LeaseView, ReplicasView as _};
use crate::supervise::{Panics, supervise};

/// A plugin's side of its lease slot, where it waits for its terms.
#[derive(Clone)]
pub(crate) struct PluginLease {
    /// The plugin's lease. `None` without leases.
    pub(crate) lease: Option<Arc<str>>,
    pub(crate) standing: watch::Receiver<LeaseStanding>,
    me: Arc<str>,
    name: Arc<str>,
    replicas: PluginReplicas,
    /// Cancelled when the plugin is to end, no matter which replica holds the lease.
    stop: CancellationToken,
}

impl PluginLease {
    /// Waits for the next term, which ends with the plugin at the latest.
    pub(crate) async fn term(&self) -> PluginTerm {
        if self.lease.is_none() {
            return PluginTerm::unshared(&self.stop);
        }
        let mut standing = self.standing.clone();
        let is_open = |standing: &LeaseStanding| standing.term.as_ref().is_some_and(|it| !it.ends.is_cancelled());
        let term = standing.wait_for(is_open).await.ok().and_then(|standing| standing.term.clone());
        match term {
            Some(term) => term.within(self.stop.clone()),
            // The elector has ended because the host stops.
            None => std::future::pending().await,
        }
    }
}

impl PluginLease {
    /// Whether this replica may run the plugin now.
    pub(crate) fn is_held(&self) -> bool {
        self.status() == LeaseStatus::Held
    }

    /// The fence of the current term. `None` if this replica does not hold the lease.
    pub(crate) fn fence(&self) -> Option<Fenced> {
        if self.lease.is_none() {
            return Some(Fenced::default());
        }
        let standing = self.standing.borrow();
        standing.term.as_ref().filter(|term| !term.ends.is_cancelled()).map(|term| term.fence.clone())
    }

    /// Why no replica runs the plugin. `None` if one does, or may.
    pub(crate) fn unserved(&self) -> Option<String> {
        self.replicas.unserved(&self.name)
    }

    /// Completes when the lease has another holder, or replicas can serve other plugins than before. Fails once this
    /// process no longer competes for the lease. Cancel-safe.
    pub(crate) async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        tokio::select! {
            biased;
            changed = self.standing.changed() => changed,
            changed = self.replicas.members.changed() => changed,
        }
    }
}

impl LeaseView for PluginLease {
    fn name(&self) -> Option<Arc<str>> {
        self.lease.clone()
    }

    fn holder(&self) -> Option<Arc<str>> {
        if self.lease.is_none() { Some(self.me.clone()) } else { self.standing.borrow().holder.clone() }
    }

    fn status(&self) -> LeaseStatus {
        if self.lease.is_none() { LeaseStatus::Held } else { self.standing.borrow().status }
    }
}

impl PluginTerm {
    /// This term, but it also ends when `stop` is cancelled.
    fn within(self, stop: CancellationToken) -> Self {
        let ends = self.ends.child_token();
        let ending = ends.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => ending.cancel(),
                () = ending.cancelled() => {}
            }
        });
        Self { ends, ..self }
    }
}

/// In place of a plugin's name, decides the lease of the objects that share one. No plugin has a name with a dot.
const SHARED_BY_OBJECTS: &str = "ungranted.objects";

/// The name under which the object of `plugin` takes a slot. No plugin has a name with a blank.
fn of_object(plugin: &str) -> Arc<str> {
    format!("object {plugin}").into()
}

/// A lease that plugins of this process depend on.
pub(super) struct LeaseSlot {
    standing: watch::Sender<LeaseStanding>,
    /// The lease as the watch shows it.
    pub(super) sightings: watch::Sender<FoundLease>,
    pub(super) figures: Arc<LeaseFigures>,
    /// The plugins that depend on the lease, and the objects of plugins.
    takers: BTreeSet<Arc<str>>,
    /// Cancelled once no plugin here depends on the lease: it is to be released.
    stop: CancellationToken,
    /// Cancelled once the lease was released.
    gone: CancellationToken,
}

/// All slots, by lease.
#[derive(Clone, Default)]
pub(super) struct LeaseSlots(Arc<Mutex<BTreeMap<Arc<str>, LeaseSlot>>>);

impl LeaseSlots {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, LeaseSlot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leadership {
    /// Takes a slot for `plugin` until [`Leadership::leave`]. Its terms end with `stop`.
    pub(crate) fn take(&self, plugin: &Arc<str>, stop: &CancellationToken, panics: &Panics) -> PluginLease {
        self.take_as(plugin, plugin, stop, panics)
    }

    /// Takes a slot under the name `taker`, of the lease of `plugin`.
    fn take_as(&self, taker: &Arc<str>, plugin: &Arc<str>, stop: &CancellationToken, panics: &Panics) -> PluginLease {
        let plugin_lease = |lease, standing| PluginLease {
            lease,
            standing,
            me: self.me.clone(),
            name: plugin.clone(),
            replicas: self.view(),
            stop: stop.clone(),
        };
        let Some(lease) = self.settings.lease_of(plugin) else {
            return plugin_lease(None, watch::channel(LeaseStanding::default()).1);
        };
        let lease: Arc<str> = lease.into();
        let mut slots = self.slots.lock();
        let former = slots.remove(&lease);
        let mut slot = match former {
            Some(slot) if !slot.stop.is_cancelled() => slot,
            former => self.stand(&lease, former, panics),
        };
        slot.takers.insert(taker.clone());
        let standing = slot.standing.subscribe();
        slots.insert(lease.clone(), slot);
        plugin_lease(Some(lease), standing)
    }

    /// Whether each plugin has a lease of its own.
    pub(crate) fn has_lease_per_plugin(&self) -> bool {
        self.settings.mode == LeaseMode::PerPlugin
    }

    /// Takes a slot for the object of `plugin` until [`Leadership::leave_object`], whether or not the plugin is started
    /// here. So there is one replica that reports about it. If `shares`, the slot is of a lease that all such objects
    /// share, so that no one can cause a lease by creating an object.
    pub(crate) fn take_for_object(
        &self,
        plugin: &Arc<str>,
        shares: bool,
        stop: &CancellationToken,
        panics: &Panics,
    ) -> PluginLease {
        let lease_of = if shares { SHARED_BY_OBJECTS.into() } else { plugin.clone() };
        self.take_as(&of_object(plugin), &lease_of, stop, panics)
    }

    /// Gives up the slot of the object of `plugin`.
    pub(crate) fn leave_object(&self, plugin: &str, shares: bool) {
        self.leave_as(&of_object(plugin), if shares { SHARED_BY_OBJECTS } else { plugin });
    }

    /// Gives up the slot of `plugin`, which has ended. A lease on which no plugin here depends is released.
    pub(crate) fn leave(&self, plugin: &str) {
        self.started_plugins.send_if_modified(|started| started.remove(plugin).is_some());
        self.leave_as(plugin, plugin);
    }

    fn leave_as(&self, taker: &str, plugin: &str) {
        let Some(lease) = self.settings.lease_of(plugin) else { return };
        let mut slots = self.slots.lock();
        let Some(slot) = slots.get_mut(&*lease) else { return };
        if slot.takers.remove(taker) && slot.takers.is_empty() {
            slot.stop.cancel();
        }
    }

    /// Competes for `lease` from now on. If an earlier slot of the lease is still being released, the election begins
    /// after that.
    fn stand(&self, lease: &Arc<str>, former: Option<LeaseSlot>, panics: &Panics) -> LeaseSlot {
        let (standing, sightings) = (watch::Sender::new(LeaseStanding::default()), watch::Sender::new(None));
        let slot = LeaseSlot {
            figures: former.as_ref().map(|former| former.figures.clone()).unwrap_or_default(),
            takers: BTreeSet::new(),
            stop: self.stop.child_token(),
            gone: CancellationToken::new(),
            standing: standing.clone(),
            sightings: sightings.clone(),
        };
        let elector = self.elector(lease.clone(), LeaseKind::Plugins, &slot, sightings.subscribe(), slot.stop.clone());
        let (elector, panics, listed) = (AsyncMutex::new(elector), panics.clone(), self.listed.clone());
        let (slots, gone, stop) = (self.slots.clone(), slot.gone.clone(), slot.stop.clone());
        let elects = async move {
            if let Some(former) = former {
                former.gone.cancelled().await;
            }
            stop.run_until_cancelled(listed.cancelled()).await;
            let stand = async || elector.lock().await.run().await;
            supervise("lease", &panics, &CancellationToken::new(), stand).await;
            gone.cancel();
            slots.lock().retain(|_, slot| !slot.gone.is_cancelled());
        };
        self.elect(elects);
        slot
    }

    /// A slot for a lease without plugins: this replica's member lease.
    pub(super) fn outside(&self) -> LeaseSlot {
        LeaseSlot {
            standing: watch::Sender::new(LeaseStanding::default()),
            sightings: watch::Sender::new(None),
            figures: Arc::default(),
            takers: BTreeSet::new(),
            stop: self.stop.clone(),
            gone: CancellationToken::new(),
        }
    }
}

impl LeaseSlot {
    pub(super) fn standing(&self) -> watch::Sender<LeaseStanding> {
        self.standing.clone()
    }

    /// The holder, if known.
    pub(super) fn holder(&self) -> Option<Arc<str>> {
        self.standing.borrow().holder.clone()
    }
}
