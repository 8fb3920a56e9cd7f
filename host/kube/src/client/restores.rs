//! The restores of the server's etcd that any part of the host has noticed (ADR 33).
//!
//! Leases report the answers to their writes, and informers the contents of their lists; `core::server_history`
//! decides. After a restore, the informers list again, and no plugin is called before the caches that it reads have
//! done so (`informer/trust.rs`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;
use windlass_core::cache::server_history::{ConsistentRead, ReadVerdict, RestoreSign, ServerHistory};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::clock::Moment;
use windlass_core::object::compact::Version;
use windlass_core::object::progress::Stamp;

/// The restores of one server. Clones share them.
#[derive(Clone, Debug)]
pub struct Restores {
    shared: Arc<RestoresInner>,
}

/// The restores of a server so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreState {
    /// When the last restore was noticed. A list that began later shows the restored server.
    pub restored: Option<Stamp>,
    /// The number of restores that were noticed.
    pub count: u64,
    /// The last [outage](crate::Outage) after which a check has shown whether the server was restored.
    pub confirmed: u64,
}

#[derive(Debug)]
struct RestoresInner {
    history: Mutex<ServerHistory>,
    /// Whether versions of Leases can be compared.
    compares_leases: AtomicBool,
    began: Instant,
    state: watch::Sender<RestoreState>,
}

impl Default for Restores {
    fn default() -> Self {
        let shared = RestoresInner {
            history: Mutex::default(),
            compares_leases: AtomicBool::new(false),
            began: Instant::now(),
            state: watch::Sender::default(),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Restores {
    /// Sets whether versions of Leases can be compared as numbers. Before this call, Leases show no restore.
    pub fn compare_leases(&self, compare: bool) {
        self.shared.compares_leases.store(compare, Ordering::Relaxed);
    }

    #[must_use]
    pub fn state(&self) -> RestoreState {
        *self.shared.state.borrow()
    }

    /// The state and its changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<RestoreState> {
        self.shared.state.subscribe()
    }

    /// Records that a write of the Lease `name`, which began at `began`, has resulted in this version.
    pub(crate) fn wrote_lease(&self, name: &str, began: Stamp, version: &Version) {
        if !self.shared.compares_leases.load(Ordering::Relaxed) {
            return;
        }
        let mut history = self.history();
        if let Some(sign) = history.wrote_lease(began, version, Moment(self.shared.began.elapsed())) {
            self.noticed(&history);
            drop(history);
            log_restore(sign, format_args!("a write of the Lease {name} resulted in version {version}"));
        }
    }

    /// Compares the answer to a consistent read of the objects of `watch` with the known history.
    pub(crate) fn read(&self, watch: &WatchSpec, read: ConsistentRead<'_>) -> ReadVerdict {
        let mut history = self.history();
        let verdict = history.read(read);
        if let ReadVerdict::Restored(sign) = verdict {
            self.noticed(&history);
            drop(history);
            let ConsistentRead { known, answered, .. } = read;
            log_restore(sign, format_args!("a read of {watch} is at version {answered}, and its cache had {known}"));
        }
        verdict
    }

    /// Records that the check after this outage is over: the server still has its history, was found to be restored, or
    /// could not be asked.
    pub(crate) fn confirm(&self, outage: u64) {
        self.shared.state.send_if_modified(|state| {
            let is_news = state.confirmed < outage;
            state.confirmed = state.confirmed.max(outage);
            is_news
        });
    }

    fn noticed(&self, history: &ServerHistory) {
        self.shared.state.send_modify(|state| {
            state.restored = history.restored();
            state.count += 1;
        });
    }

    fn history(&self) -> MutexGuard<'_, ServerHistory> {
        self.shared.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log_restore(sign: RestoreSign, seen: std::fmt::Arguments<'_>) {
    let what = match sign {
        RestoreSign::WentBack => "gone back to an earlier state",
        RestoreSign::LeaptAhead => "leapt ahead by more revisions than it can have written",
    };
    tracing::warn!(
        "the API server has {what}, as when its etcd is restored from a backup: {seen}. All caches are listed again, and a \
         controller makes no calls until the caches that it reads have been listed"
    );
}
