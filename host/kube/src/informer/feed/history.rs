//! Compares a cache's versions with the server's answers, to notice that the server was restored (ADR 33).

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::cache::server_history::{ConsistentRead, ReadVerdict, may_have_own_etcd};
use windlass_core::object::compact::Version;
use windlass_core::object::progress::Stamp;

use super::{CompleteList, Feed};
use crate::client::restores::Restores;

/// The state of a cache before a consistent read.
pub(crate) struct KnownState {
    era: Option<Stamp>,
    version: Version,
    /// When the cache reached `version`.
    since: Option<Instant>,
}

impl Feed {
    /// The time since the server last sent anything. `None` if it has not sent anything yet.
    pub(crate) fn silence(&self) -> Option<Duration> {
        self.heard().map(|heard| heard.elapsed())
    }

    /// The cache's current state, if the server's answers can be compared with it.
    pub(crate) fn known_state(&self) -> Option<KnownState> {
        let is_compared = self.store.is_comparable() && !may_have_own_etcd(&self.spec.kind);
        // The time is read before the version. A version that arrives in between then only seems older than it is,
        // and a greater age explains a greater leap of versions.
        let (era, since) = (self.store.era(), self.store.version_since());
        self.store.version().filter(|_| is_compared).map(|version| KnownState { era, version, since })
    }

    /// Compares the version of a consistent read, which began when the cache was in the state `known`.
    pub(crate) fn compare_history(&self, restores: &Restores, known: &KnownState, answered: &Version) -> ReadVerdict {
        let apart = known.since.map_or(Duration::MAX, |since| since.elapsed());
        restores.read(&self.spec, ConsistentRead { era: known.era, known: &known.version, apart, answered })
    }

    /// The restore of the server that a list follows: the last one, if the list began later or itself reveals the
    /// restore. Call this before the list is applied.
    pub(crate) fn era_of(&self, restores: &Restores, listed: &CompleteList) -> Option<Stamp> {
        let known = self.known_state().filter(|_| listed.resource.comparable);
        let verdict = known.map(|known| self.compare_history(restores, &known, &listed.version));
        let is_sign = verdict.is_some_and(|verdict| verdict != ReadVerdict::Continues);
        let last = restores.state().restored;
        if is_sign || last < Some(listed.began) { last } else { self.store.era() }
    }
}
