//! Watches over keys that wait long for their writes to show (ADR 10), with one sleeping task for each controller. A
//! cache that is late must prove how fresh it is; after five minutes this is reported.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep_until};
use windlass_core::cache::freshness::Proof;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::ObjectKey;
use windlass_core::object::progress::Stamp;
use windlass_core::write::expectations::{Due, HeldKey};
use windlass_core::write::gate::{Gate, ParkedAudit};
use windlass_kube::Informers;
use windlass_manifest::ExpectationTimeout;

/// The time between two audits that look for parked keys that nothing would wake.
const PARKED_AUDIT_INTERVAL: Duration = Duration::from_secs(15);

/// Makes caches prove that they are fresh.
pub(crate) trait Caches: Send + Sync {
    /// Completes when the cache of `watch` shows everything that was committed before this call. `false` if the cache
    /// is lost.
    fn prove(&self, watch: &WatchSpec) -> impl Future<Output = bool> + Send;

    /// Makes the cache list again.
    fn relist(&self, watch: &WatchSpec);
}

impl Caches for Informers {
    async fn prove(&self, watch: &WatchSpec) -> bool {
        matches!(Informers::prove(self, watch).await, Proof::Proven(_))
    }

    fn relist(&self, watch: &WatchSpec) {
        if !Informers::relist(self, watch) {
            tracing::debug!(%watch, "there is no cache that could list again");
        }
    }
}

/// Watches over the keys of one controller that wait long.
pub(crate) struct Overdue<C> {
    pub(crate) gate: Arc<Gate>,
    /// The watches, in the gate's order.
    pub(crate) watches: Vec<WatchSpec>,
    pub(crate) caches: C,
    /// The treatment of a key that has waited too long.
    pub(crate) timeout: ExpectationTimeout,
}

/// A proof in progress. If it is dropped before its end, as in a swap or after a panic, the gate is notified so that
/// the next watchdog starts another proof. Otherwise the gate would not ask for one before the next round of probes.
struct UnderWay<'a> {
    gate: &'a Gate,
    cache: usize,
    has_ended: bool,
}

impl UnderWay<'_> {
    fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.gate.proof_abandoned(self.cache);
        }
    }
}

/// A proof that has ended.
struct EndedProof {
    cache: usize,
    began: Stamp,
    proven: bool,
}

impl<C: Caches> Overdue<C> {
    /// Watches over the keys until it is dropped. Calls `warn` with a key that waits too long, its watch, and what
    /// follows; calls `lost` with parked keys that the gate did not know, which now run.
    pub(crate) async fn watch(
        &self,
        warn: impl Fn(&HeldKey, &WatchSpec, &str) + Send,
        lost: impl Fn(&[ObjectKey]) + Send,
    ) {
        let mut audit = ParkedAudit::default();
        let mut next_audit = Instant::now() + PARKED_AUDIT_INTERVAL;
        let mut proofs = FuturesUnordered::new();
        // `again` has the caches for which a proof was requested while an earlier proof was running. The earlier proof
        // began too early to count.
        let (mut proving, mut again) = (BTreeSet::new(), BTreeSet::new());
        loop {
            tokio::select! {
                biased;
                Due { probes, expired } = self.gate.due() => {
                    for cache in probes {
                        if proving.insert(cache) {
                            proofs.push(self.prove(cache).boxed());
                        } else {
                            again.insert(cache);
                        }
                    }
                    self.expired(expired, &warn);
                }
                () = sleep_until(next_audit) => {
                    next_audit = Instant::now() + PARKED_AUDIT_INTERVAL;
                    let found = self.gate.wake_lost(&mut audit);
                    if !found.is_empty() {
                        lost(&found);
                    }
                }
                Some(EndedProof { cache, began, proven }) = proofs.next(), if !proofs.is_empty() => {
                    proving.remove(&cache);
                    if proven {
                        self.gate.proven(cache, began);
                    }
                    if again.remove(&cache) {
                        proving.insert(cache);
                        proofs.push(self.prove(cache).boxed());
                    }
                }
            }
        }
    }

    fn prove(&self, cache: usize) -> impl Future<Output = EndedProof> + Send {
        // Created before the first poll, which may never come.
        let under_way = UnderWay { gate: &self.gate, cache, has_ended: false };
        async move {
            let began = Stamp::take();
            let proven = self.caches.prove(&self.watches[cache]).await;
            under_way.end();
            EndedProof { cache, began, proven }
        }
    }

    fn expired(&self, expired: Vec<HeldKey>, warn: &impl Fn(&HeldKey, &WatchSpec, &str)) {
        let follows = match self.timeout {
            ExpectationTimeout::Probe => "The cache lists again, and the key stays held.",
            ExpectationTimeout::Run => "The cache lists again, and the key runs, as the plugin's manifest asks for.",
        };
        for waiting in &expired {
            let watch = &self.watches[waiting.cache];
            warn(waiting, watch, follows);
            self.caches.relist(watch);
        }
        if self.timeout == ExpectationTimeout::Run {
            self.gate.give_up(expired.into_iter().map(|waiting| waiting.key).collect());
        }
    }
}

#[cfg(test)]
mod tests;
