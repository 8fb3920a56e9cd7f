//! Keys with unmet expectations that one gate passes on to the next. The next gate has other caches, so the
//! expectations themselves are not passed on.

use super::pending::{PendingExpectation, Sight};
use super::state::{Expectations, KeyExpectations};
use crate::clock::Moment;
use crate::object::ObjectKey;
use crate::object::progress::Stamp;

/// A key with writes that the caches of the previous gate have not shown. Both gates have the same clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoubtfulKey {
    pub key: ObjectKey,
    /// When the key's first unmet expectation was raised. `None` if it becomes doubtful only now.
    pub since: Option<Moment>,
    /// When a worker first found the key held. `None` if no worker has asked for it.
    pub held: Option<Moment>,
}

impl DoubtfulKey {
    /// A key that becomes doubtful now.
    #[must_use]
    pub fn new(key: ObjectKey) -> Self {
        Self { key, since: None, held: None }
    }
}

impl Expectations {
    /// Requires every cache to prove that it shows everything that `keys` have written so far. The keys' waiting time
    /// includes the time under the previous gate; otherwise frequent swaps would keep expectations from ever expiring.
    pub(crate) fn doubt(&mut self, keys: impl IntoIterator<Item = DoubtfulKey>, since: Stamp, now: Moment) {
        for DoubtfulKey { key, since: waits_since, held } in keys {
            for cache in 0..self.caches.len() {
                let epoch = self.caches[cache].cache.progress.epoch();
                let (sight, raised, due, blocks) = (Sight::Fresh, waits_since.unwrap_or(now), now, true);
                self.raise(
                    &key,
                    PendingExpectation {
                        cache,
                        sight,
                        since,
                        epoch,
                        raised,
                        due,
                        blocks,
                        probed: false,
                        expired: false,
                    },
                );
            }
            if let Some(entry) = self.keys.get_mut(&key) {
                entry.held = entry.held.or(held);
            }
        }
    }

    /// The keys with unmet expectations, for the gate that follows.
    pub(crate) fn unseen(&self) -> Vec<DoubtfulKey> {
        let unseen = |(key, entry): (&ObjectKey, &KeyExpectations)| DoubtfulKey {
            key: key.clone(),
            since: entry.raised(),
            held: entry.held,
        };
        self.keys.iter().map(unseen).collect()
    }
}
