//! The middleware around a plugin, one decorator of [`Reconcile`] a file. It has the host's actions around each call.

pub(crate) mod breaker;
pub(crate) mod finalize;
pub(crate) mod pause;
pub(crate) mod reuse;
pub(crate) mod saved;
pub(crate) mod shadow;
pub(crate) mod slow_lane;

use std::sync::Arc;

use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::Events;
use windlass_core::rights::grants::Grants;
use windlass_core::rights::principal::Principal;

use self::breaker::BreakerRecord;
use self::finalize::Finalized;
use self::pause::Pausable;
use self::reuse::Reusable;
use self::saved::{CallSaver, Saved, SavedInside, SavingGuards};
use self::shadow::Shadowed;
use self::slow_lane::{SlowLaneKeys, Slowed};
use super::call_record::CallRecord;
use super::circuit::Circuit;
use super::reconcile::Reconcile;
use super::shadow::{Backlog, NextOf};
use crate::observe::status::ControllerStatus;
use crate::policies::InstancesOf;

/// The finalizer that the host keeps on a controller's primaries.
pub(crate) struct KeptFinalizer<'a> {
    pub(crate) plugin: &'a Principal,
    /// The host's grants for keeping it.
    pub(crate) grants: Grants,
    /// How the primaries are watched.
    pub(crate) spec: WatchSpec,
}

/// The parts of one controller's middleware.
pub(crate) struct Middleware<'a> {
    pub(crate) instances: InstancesOf,
    pub(crate) circuit: Circuit,
    pub(crate) status: Arc<ControllerStatus>,
    /// The host's Events, because the plugin may have used up its own.
    pub(crate) events: Arc<dyn Events>,
    /// `None` if the plugin declares no finalizer.
    pub(crate) finalizer: Option<KeptFinalizer<'a>>,
    pub(crate) lane: Arc<SlowLaneKeys>,
    /// The next version, which is called after this one, and the calls that it has yet to make.
    pub(crate) shadow: (NextOf, Arc<Backlog>),
    /// `None` if every call is made.
    pub(crate) saving: Option<Saving>,
}

/// How calls are saved.
pub(crate) enum Saving {
    /// By what they read.
    Calls(CallSaver),
    /// By the composite around a composer, with the record of the plugin's generation.
    Compositions(Arc<CallRecord>),
}

impl Middleware<'_> {
    /// Puts the middleware around `plugin`. A call passes it from the last line to the first: the pause is outermost,
    /// the instance innermost.
    pub(crate) fn around(self, plugin: Box<dyn Reconcile>) -> Box<dyn Reconcile> {
        let mut inner: Box<dyn Reconcile> = Box::new(Reusable::new(plugin, self.instances.clone()));
        let (next, backlog) = self.shadow;
        inner = Box::new(Shadowed::new(inner, next.clone(), backlog));
        inner = Box::new(BreakerRecord::new(inner, self.circuit.clone(), self.status.clone(), self.events));
        let (instances, circuit, status) = (self.instances, self.circuit, self.status);
        let guards = SavingGuards { instances, next, circuit, status };
        inner = match self.saving {
            Some(Saving::Calls(saver)) => Box::new(Saved::new(inner, saver, guards)),
            Some(Saving::Compositions(record)) => Box::new(SavedInside { inner, record, guards }),
            None => inner,
        };
        if let Some(KeptFinalizer { plugin, grants, spec }) = self.finalizer {
            inner = Finalized::new(inner, plugin, grants, spec);
        }
        inner = Box::new(Slowed::new(inner, self.lane));
        Box::new(Pausable::new(inner))
    }
}
