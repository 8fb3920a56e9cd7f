//! Calls the next version of a plugin after the current one, on the same keys and the same caches, and compares what
//! both would do (ADR 28). Nothing that the next version asks for is carried out.
//!
//! A middleware notes the asks of the current version and their answers (`noted`), and puts the call into a backlog.
//! One task per controller takes calls from there (`caller`), repeats them with the next version on ports that write
//! nothing (`ports`), and enters the differences into the ledger of that version (`ledger`). `plugins` sets the next
//! version of each plugin in [`Shadows`].

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
    /// Its own share of the permits, so that it takes nothing from the current version's share.
    pub(crate) share: CpuShare,
    /// Its own budget of reads of the API server.
    pub(crate) live: ReadingPort,
    pub(crate) ledger: Arc<ShadowLedger>,
    /// Dropping this ends the tasks that follow its configuration and wait for its promotion.
    _following: DropGuard,
}

impl NextVersion {
    /// A version that was not called yet. `following` ends the tasks that follow its configuration and its ledger.
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

/// The next version of one plugin, as its controllers follow it. `None` if there is none.
pub(crate) type NextOf = watch::Receiver<Option<Arc<NextVersion>>>;

/// The next versions of all plugins. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadows(Arc<Mutex<NextVersions>>);

/// The next version of each plugin.
type NextVersions = BTreeMap<Arc<str>, watch::Sender<Option<Arc<NextVersion>>>>;

impl Shadows {
    /// Follows the next version of `plugin`.
    pub(crate) fn of(&self, plugin: &Arc<str>) -> NextOf {
        self.lock().entry(plugin.clone()).or_default().subscribe()
    }

    /// Sets the next version of `plugin`.
    pub(crate) fn set(&self, plugin: &Arc<str>, next: Option<NextVersion>) {
        // Dropped without the lock, because dropping the replaced version ends tasks.
        let sender = self.lock().entry(plugin.clone()).or_default().clone();
        drop(sender.send_replace(next.map(Arc::new)));
    }

    fn lock(&self) -> MutexGuard<'_, NextVersions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
