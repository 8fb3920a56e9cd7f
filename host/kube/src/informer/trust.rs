//! Tracks whether a controller's caches can be trusted after the server was restored, or may have been (ADR 33).
//!
//! Each cache proves itself with a list of the restored server. Until all caches of a controller have done so, the
//! controller makes no calls. A cache whose kind is not served has nothing to prove: it is empty, and its controllers
//! end.

use futures::FutureExt as _;
use futures::future::{BoxFuture, select_all};
use tokio::sync::watch;
use windlass_core::object::progress::Stamp;

use crate::client::reachability::Reachability;
use crate::client::restores::Restores;
use crate::informer::status::InformerStatus;
use crate::informer::store::Store;

/// The caches of one controller. Clones share them.
#[derive(Clone, Debug)]
pub struct CacheTrust {
    reachability: Reachability,
    restores: Restores,
    caches: Vec<TrustedCache>,
}

#[derive(Clone, Debug)]
struct TrustedCache {
    /// The watch, in words for people.
    watch: String,
    store: Store,
    /// Changes with each list, and when the cache is emptied.
    status: watch::Receiver<InformerStatus>,
}

impl CacheTrust {
    /// The trust of a controller without caches, which is always given.
    #[must_use]
    pub fn always() -> Self {
        Self::new(Reachability::always(), Restores::default())
    }

    pub(super) fn new(reachability: Reachability, restores: Restores) -> Self {
        Self { reachability, restores, caches: Vec::new() }
    }

    pub(super) fn add(&mut self, watch: String, store: Store, status: watch::Receiver<InformerStatus>) {
        self.caches.push(TrustedCache { watch, store, status });
    }

    /// Whether all caches show the server's current history, as far as is known. After an outage, nothing is known
    /// until the server was checked.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.is_confirmed() && self.is_proven()
    }

    /// Whether the caches are trusted, and no restore was noticed since `began`, so that what a call has read since
    /// then is valid too. A call from before a restore may last until the caches have been listed again, but must not
    /// write based on its earlier reads.
    #[must_use]
    pub fn is_given_since(&self, began: Stamp) -> bool {
        self.is_given() && self.restores.state().restored <= Some(began)
    }

    /// Whether all caches have been listed since the last noticed restore.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        let restored = self.restores.state().restored;
        restored.is_none() || self.caches.iter().all(|cache| cache.store.follows(restored))
    }

    /// The watches whose caches have not been listed since the last restore.
    #[must_use]
    pub fn unproven(&self) -> Vec<&str> {
        let restored = self.restores.state().restored;
        let unproven = self.caches.iter().filter(|cache| !cache.store.follows(restored));
        unproven.map(|cache| &*cache.watch).collect()
    }

    /// Completes when all caches can be trusted. Cancel-safe.
    pub async fn given(&self) {
        // The common case: workers wait for this before each key.
        if self.is_given() {
            return;
        }
        let mut caches: Vec<_> = self.caches.iter().map(|cache| cache.status.clone()).collect();
        let (mut outages, mut restores) = (self.reachability.watch(), self.restores.watch());
        loop {
            // Changes are marked as seen before the state is read.
            outages.borrow_and_update();
            restores.borrow_and_update();
            let mut changes: Vec<BoxFuture<'_, ()>> = Vec::new();
            for status in &mut caches {
                status.borrow_and_update();
                changes.push(changed(status).boxed());
            }
            if self.is_given() {
                return;
            }
            changes.push(changed(&mut outages).boxed());
            changes.push(changed(&mut restores).boxed());
            select_all(changes).await;
        }
    }

    /// Completes when the caches cannot be trusted. Cancel-safe. Workers wait for this with each key, so it examines no
    /// cache unless there was a restore.
    pub async fn lost(&self) {
        let (mut outages, mut restores) = (self.reachability.watch(), self.restores.watch());
        loop {
            outages.borrow_and_update();
            restores.borrow_and_update();
            if !self.is_given() {
                return;
            }
            tokio::select! {
                biased;
                () = changed(&mut outages) => {}
                () = changed(&mut restores) => {}
            }
        }
    }

    fn is_confirmed(&self) -> bool {
        self.reachability.outage().number <= self.restores.state().confirmed
    }
}

/// Completes with the next change, or never if the sender is gone.
async fn changed<T>(changes: &mut watch::Receiver<T>) {
    if changes.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
