//! The keys that one gate passes on to the next, whose caches are others: not what each of them waits for.

use super::pending::{PendingExpectation, Sight};
use super::state::{Expectations, KeyExpectations};
use crate::clock::Moment;
use crate::object::ObjectKey;
use crate::object::progress::Stamp;

/// A key whose writes one gate has not seen shown, and the next gate knows nothing about. Both gates have the same clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoubtfulKey {
    pub key: ObjectKey,
    /// Since when it has had something to see. `None` if only from now on.
    pub since: Option<Moment>,
    /// Since when a worker has found it held. `None` if no worker has asked for it.
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
    /// Has every cache prove that it shows all that `keys` have written so far. They have waited since they began to wait
    /// under the gate before: otherwise frequent swaps would keep every expectation from expiring.
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

    /// The keys that have something to see, for the gate that follows.
    pub(crate) fn unseen(&self) -> Vec<DoubtfulKey> {
        let unseen = |(key, entry): (&ObjectKey, &KeyExpectations)| DoubtfulKey {
            key: key.clone(),
            since: entry.raised(),
            held: entry.held,
        };
        self.keys.iter().map(unseen).collect()
    }
}
