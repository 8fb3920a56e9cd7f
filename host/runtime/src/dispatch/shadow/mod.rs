//! Calls the next version of a plugin after the current one, on the same keys and the same caches, and compares what
//! both would do (ADR 28). Nothing that the next version asks for is carried out.
//!
//! A middleware notes what the current version asks for and is told (`noted`), and puts the call into a backlog. One
//! task a controller takes calls from there (`caller`), makes them again with the next version on ports without a
//! writer behind them (`ports`), and enters what differs into the ledger of that version (`ledger`). Which version that
//! is, `plugins` says, in [`Shadows`].

mod backlog;
mod caller;
pub(crate) mod ledger;
mod noted;
mod ports;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::DropGuard;
use windlass_core::budget::fair::CpuShare;
use windlass_core::call::ports::ReadingPort;
use windlass_wasm::Plugin;

pub(crate) use self::backlog::Backlog;
pub(crate) use self::caller::{NextCallee, ShadowCaller};
use self::ledger::ShadowLedger;
pub(crate) use self::noted::{NotedCall, OpenNotes};
use crate::dispatch::configured::Configured;

/// The next version of a plugin, which is called as a shadow of the current one.
pub(crate) struct NextVersion {
    pub(crate) plugin: Arc<Plugin>,
    /// The plugin's configuration, as this version describes it.
    pub(crate) configured: Configured,
    /// Its own share of the permits: it takes nothing of the current version's.
    pub(crate) share: CpuShare,
    /// Its own budget of reads of the API server.
    pub(crate) live: ReadingPort,
    pub(crate) ledger: Arc<ShadowLedger>,
    /// Its configuration is followed, and its promotion waited for, until this is dropped.
    _following: DropGuard,
}

impl NextVersion {
    /// Nothing of `plugin` has been called yet. `following` ends what follows its configuration and its ledger.
    pub(crate) fn new(
        plugin: Arc<Plugin>,
        configured: Configured,
        share: CpuShare,
        live: ReadingPort,
        ledger: Arc<ShadowLedger>,
        following: DropGuard,
    ) -> Self {
        Self { plugin, configured, share, live, ledger, _following: following }
    }
}

impl fmt::Debug for NextVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NextVersion").field(self.plugin.digest()).finish()
    }
}

/// The next version of one plugin, as its controllers follow it. None: there is none.
pub(crate) type NextOf = watch::Receiver<Option<Arc<NextVersion>>>;

/// The next versions of all plugins. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadows(Arc<Mutex<NextVersions>>);

/// By plugin.
type NextVersions = BTreeMap<Arc<str>, watch::Sender<Option<Arc<NextVersion>>>>;

impl Shadows {
    /// The next version of `plugin`, from now on.
    pub(crate) fn of(&self, plugin: &Arc<str>) -> NextOf {
        self.lock().entry(plugin.clone()).or_default().subscribe()
    }

    /// This is the next version of `plugin` now.
    pub(crate) fn set(&self, plugin: &Arc<str>, next: Option<NextVersion>) {
        // Not under the lock: what is replaced ends tasks.
        let sender = self.lock().entry(plugin.clone()).or_default().clone();
        drop(sender.send_replace(next.map(Arc::new)));
    }

    fn lock(&self) -> MutexGuard<'_, NextVersions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
