//! The keys of one controller that its gate holds, what they wait for, and parked keys that were found lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::clock::Moment;

use super::super::{locked, shortened};
use super::ControllerStatus;

/// The most held keys of one controller that are listed, longest wait first. Further ones are only counted.
const LISTED_HELD_KEYS_MAX: usize = 10;

/// The caches of a gate, by their index in it.
pub(crate) trait GateCaches: Send + Sync {
    /// The watch that fills the cache.
    fn watch(&self, cache: usize) -> Option<String>;

    /// How long ago the API server last sent anything on the watch of this cache. `None` while the watch lists.
    fn silence(&self, cache: usize) -> Option<Duration>;
}

impl ControllerStatus {
    /// The held keys with their reasons.
    pub(super) fn held(&self) -> Vec<Value> {
        let Some((gate, caches)) = locked(&self.doing).gate.clone() else { return vec![] };
        let Some(gate) = gate.upgrade() else { return vec![] };
        let (waiting, now) = gate.waiting(LISTED_HELD_KEYS_MAX);
        let held = waiting.into_iter().map(|it| {
            let seconds = |since: Moment| now.0.saturating_sub(since.0).as_secs();
            json!({
                "key": it.key.to_string(),
                "heldSeconds": it.held.map(seconds),
                "waitsSeconds": seconds(it.since),
                "watch": caches.watch(it.cache),
                "waitsFor": shortened(it.what),
                "cacheVersion": it.cache_version.map(|version| version.to_string()),
                "silentSeconds": caches.silence(it.cache).map(|silence| silence.as_secs()),
            })
        });
        held.collect()
    }

    /// Counts keys that were found parked although no gate would have woken them.
    pub(crate) fn lost_keys(&self, found: usize) {
        self.lost.fetch_add(found as u64, Ordering::Relaxed);
    }

    /// Number of keys so far that were found parked without a gate to wake them. More than zero is a bug in the host.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
