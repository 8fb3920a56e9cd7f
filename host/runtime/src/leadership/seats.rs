//! The places of plugins: each waits in its seat for the tenures of its lease, and a lease is stood for as long as a plugin of
//! this process goes by it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio_util::sync::CancellationToken;
use windlass_core::lease::Found;
use windlass_kube::LeaseKind;

use super::elector::Figures;
use super::{Leadership, Standing, Tenure};
use crate::observe::status::LeaseView;
use crate::supervise::{Panics, supervise};

/// One plugin's place: it waits here for its tenures.
#[derive(Clone)]
pub(crate) struct Seat {
    /// Its lease. None: it goes by none.
    pub(crate) lease: Option<Arc<str>>,
    pub(crate) standing: watch::Receiver<Standing>,
    me: Arc<str>,
    /// The plugin is to end, whoever holds the lease.
    stop: CancellationToken,
}

impl Seat {
    /// Waits for the next tenure. It is to end when the plugin is.
    pub(crate) async fn tenure(&self) -> Tenure {
        if self.lease.is_none() {
            return Tenure::unshared(&self.stop);
        }
        let mut standing = self.standing.clone();
        let is_open = |standing: &Standing| standing.tenure.as_ref().is_some_and(|it| !it.ends.is_cancelled());
        let tenure = standing.wait_for(is_open).await.ok().and_then(|standing| standing.tenure.clone());
        match tenure {
            Some(tenure) => tenure.within(self.stop.clone()),
            // No elector is left: the host stops.
            None => std::future::pending().await,
        }
    }
}

impl LeaseView for Seat {
    fn name(&self) -> Option<Arc<str>> {
        self.lease.clone()
    }

    fn holder(&self) -> Option<Arc<str>> {
        if self.lease.is_none() { Some(self.me.clone()) } else { self.standing.borrow().holder.clone() }
    }

    fn is_held(&self) -> bool {
        self.holder().as_ref() == Some(&self.me)
    }
}

impl Tenure {
    /// The same, which is to end when `stop` is cancelled, too.
    fn within(self, stop: CancellationToken) -> Self {
        let ends = self.ends.child_token();
        let ending = ends.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => ending.cancel(),
                () = ending.cancelled() => {}
            }
        });
        Self { ends, ..self }
    }
}

/// A lease that plugins of this process go by.
pub(super) struct Place {
    standing: watch::Sender<Standing>,
    /// What the watch shows of it.
    pub(super) sightings: watch::Sender<Found>,
    pub(super) figures: Arc<Figures>,
    plugins: BTreeSet<Arc<str>>,
    /// Nobody goes by it any more: it is let go of.
    stop: CancellationToken,
    /// It is let go of.
    gone: CancellationToken,
}

/// All of them, by lease.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<BTreeMap<Arc<str>, Place>>>);

impl Places {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leadership {
    /// A place for `plugin` until [`Leadership::leave`]. Its tenures end with `stop`.
    pub(crate) fn take(&self, plugin: &Arc<str>, stop: &CancellationToken, panics: &Panics) -> Seat {
        let seat = |lease, standing| Seat { lease, standing, me: self.me.clone(), stop: stop.clone() };
        let Some(lease) = self.settings.lease_of(plugin) else {
            return seat(None, watch::channel(Standing::default()).1);
        };
        let lease: Arc<str> = lease.into();
        let mut places = self.places.lock();
        let former = places.remove(&lease);
        let mut place = match former {
            Some(place) if !place.stop.is_cancelled() => place,
            former => self.stand(&lease, former, panics),
        };
        place.plugins.insert(plugin.clone());
        let standing = place.standing.subscribe();
        places.insert(lease.clone(), place);
        seat(Some(lease), standing)
    }

    /// `plugin`, which has ended, gives up its place. A lease that no plugin here goes by is let go of.
    pub(crate) fn leave(&self, plugin: &str) {
        let Some(lease) = self.settings.lease_of(plugin) else { return };
        let mut places = self.places.lock();
        let Some(place) = places.get_mut(&*lease) else { return };
        if place.plugins.remove(plugin) && place.plugins.is_empty() {
            place.stop.cancel();
        }
    }

    /// Stands for `lease` from now on; once it is let go of, if it was stood for before.
    fn stand(&self, lease: &Arc<str>, former: Option<Place>, panics: &Panics) -> Place {
        let (standing, sightings) = (watch::Sender::new(Standing::default()), watch::Sender::new(None));
        let place = Place {
            figures: former.as_ref().map(|former| former.figures.clone()).unwrap_or_default(),
            plugins: BTreeSet::new(),
            stop: self.stop.child_token(),
            gone: CancellationToken::new(),
            standing: standing.clone(),
            sightings: sightings.clone(),
        };
        let elector =
            self.elector(lease.clone(), LeaseKind::Plugins, &place, sightings.subscribe(), place.stop.clone());
        let (elector, panics, listed) = (AsyncMutex::new(elector), panics.clone(), self.listed.clone());
        let (places, gone, stop) = (self.places.clone(), place.gone.clone(), place.stop.clone());
        self.electors.spawn(async move {
            if let Some(former) = former {
                former.gone.cancelled().await;
            }
            stop.run_until_cancelled(listed.cancelled()).await;
            let stand = async || elector.lock().await.run().await;
            supervise("lease", &panics, &CancellationToken::new(), stand).await;
            gone.cancel();
            places.lock().retain(|_, place| !place.gone.is_cancelled());
        });
        place
    }

    /// A place that is stood for outside of the plugins': this replica's own lease.
    pub(super) fn outside(&self) -> Place {
        Place {
            standing: watch::Sender::new(Standing::default()),
            sightings: watch::Sender::new(None),
            figures: Arc::default(),
            plugins: BTreeSet::new(),
            stop: self.stop.clone(),
            gone: CancellationToken::new(),
        }
    }
}

impl Place {
    pub(super) fn standing(&self) -> watch::Sender<Standing> {
        self.standing.clone()
    }
}
