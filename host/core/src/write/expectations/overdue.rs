//! Expectations that take long: when to look, at which caches, and which keys wait.

use std::time::Duration;

use super::pending::{ExpectationVerdict, PendingExpectation, Sight};
use super::state::{Expectations, KeyExpectations, WatchedCache, sooner};
use super::{Due, EXPIRE_AFTER, HeldKey, PROBE_AFTER};
use crate::clock::Moment;
use crate::object::ObjectKey;

impl Expectations {
    /// When to look at overdue expectations next. `None` if there are no expectations.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.keys.values().flat_map(|entry| &entry.pending).map(|pending| pending.due).min()
    }

    /// Returns the work that is due for overdue expectations. Forgets old states that cannot turn up any more.
    pub(crate) fn due(&mut self, now: Moment) -> Due {
        let mut due = Due::default();
        let mut forgotten = Vec::new();
        for (key, entry) in &mut self.keys {
            let mut expired = None;
            for pending in entry.pending.iter_mut().filter(|pending| pending.due <= now) {
                if !pending.blocks {
                    forgotten.push(key.clone());
                    continue;
                }
                due.probes.insert(pending.cache);
                pending.due = now + PROBE_AFTER;
                // A key that the previous gate held for long may lack only a proof by this gate's caches. So it expires
                // only after such a proof was requested.
                let was_probed = std::mem::replace(&mut pending.probed, true);
                if was_probed && pending.raised + EXPIRE_AFTER <= now && !pending.expired {
                    pending.expired = true;
                    self.counts.expired += 1;
                    expired = Some(waiting(key, entry.held, pending, &self.caches));
                }
            }
            due.expired.extend(expired);
        }
        let _ = self.judge_each(forgotten, now, |pending, _| {
            let is_over = !pending.blocks && pending.due <= now;
            is_over.then_some(ExpectationVerdict::Over)
        });
        due
    }

    /// At most `most` waiting keys. The keys that have waited longest come first.
    pub(crate) fn waiting(&self, most: usize) -> Vec<HeldKey> {
        let mut all: Vec<_> = self.keys.keys().filter_map(|key| self.waits_for(key)).collect();
        all.sort_by_key(|waiting| (waiting.since, waiting.key.clone()));
        all.truncate(most);
        all
    }

    /// The expectation of `key` that has been pending longest. `None` if there is none.
    pub(crate) fn waits_for(&self, key: &ObjectKey) -> Option<HeldKey> {
        let entry = self.keys.get(key)?;
        let blocking = entry.pending.iter().filter(|pending| pending.blocks);
        Some(waiting(key, entry.held, blocking.min_by_key(|pending| pending.raised)?, &self.caches))
    }

    /// The waiting time of the key that has waited longest.
    pub(crate) fn longest_wait(&self, now: Moment) -> Duration {
        let oldest = self.keys.values().filter_map(KeyExpectations::raised).min();
        oldest.map(|raised| now.0.saturating_sub(raised.0)).unwrap_or_default()
    }

    /// Requests a new proof from a cache now, for all keys that wait for it, even if a proof was requested before.
    pub(crate) fn prove_again(&mut self, token: usize, now: Moment) {
        let pending = self.keys.values_mut().flat_map(|entry| &mut entry.pending);
        for pending in pending.filter(|pending| pending.cache == token && pending.blocks && pending.due > now) {
            pending.due = now;
            sooner(&mut self.alarm, now);
        }
    }
}

impl KeyExpectations {
    /// When the key's first blocking expectation was raised.
    pub(super) fn raised(&self) -> Option<Moment> {
        self.pending.iter().filter(|pending| pending.blocks).map(|pending| pending.raised).min()
    }
}

fn waiting(key: &ObjectKey, held: Option<Moment>, pending: &PendingExpectation, caches: &[WatchedCache]) -> HeldKey {
    let what = match &pending.sight {
        Sight::Reaches { version } => format!("version {version} or later"),
        Sight::State { object, uid, version } => format!("{object} ({uid}) at version {version}"),
        Sight::Gone { object, uid, for_good: true, .. } => format!("{object} ({uid}) gone"),
        Sight::Gone { object, uid, .. } => format!("{object} ({uid}) gone or terminating"),
        Sight::Hidden { object, uid, version } => format!("{object} ({uid}) hidden, as of version {version}"),
        Sight::Fresh => "proof that it shows all that was written".to_owned(),
    };
    let cache_version = caches[pending.cache].cache.progress.version();
    HeldKey { key: key.clone(), held, since: pending.raised, cache: pending.cache, what, cache_version }
}
