//! The pending work of the controllers. It is part of the state. So if a snapshot is taken during a garbage collection,
//! the collection continues after the snapshot is restored.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::change_log::Change;

/// The longest delay. An object may have any number of seconds, and a very large one could overflow when added to a
/// time.
const WAIT_TIME_MAX: Duration = Duration::from_hours(24 * 365 * 100);

/// A step that a controller takes some time after the change that caused it.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    /// The object has lost an owner.
    ReviewOwners(ObjectKey),
    /// The status of the workload is outdated and must be written.
    MakeReady(ObjectKey),
    /// The pod makes its next step: for example it starts, ends or fails.
    MovePod(ObjectKey),
    /// A deadline of the object may have passed.
    LookAgain(ObjectKey),
}

/// Changes in the order of revisions, and delayed steps (errands) in the order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    changes: VecDeque<(GroupResource, Change)>,
    /// The second part of the key keeps errands with the same time in the order in which they were added.
    errands: BTreeMap<(Instant, u64), Errand>,
    next: u64,
}

impl Agenda {
    pub(crate) fn see(&mut self, resource: GroupResource, change: Change) {
        self.changes.push_back((resource, change));
    }

    /// The oldest change that the controllers have not handled yet.
    pub(crate) fn next_change(&mut self) -> Option<(GroupResource, Change)> {
        self.changes.pop_front()
    }

    pub(crate) fn put_off(&mut self, errand: Errand, pause: Duration) {
        self.errands.insert((Instant::now() + pause.min(WAIT_TIME_MAX), self.next), errand);
        self.next += 1;
    }

    /// Takes an errand that is due.
    pub(crate) fn next_errand(&mut self) -> Option<Errand> {
        let first = self.errands.first_entry()?;
        (first.key().0 <= Instant::now()).then(|| first.remove())
    }

    /// The time of the next errand.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.errands.first_key_value().map(|((due, _), _)| *due)
    }

    /// The agenda for a state that continues now: each errand keeps its remaining time. `then` is the time at which the
    /// snapshot was taken.
    pub(crate) fn begun_anew(&self, then: Instant) -> Agenda {
        let now = Instant::now();
        let moved = |((due, order), errand): (&(Instant, u64), &Errand)| {
            ((now + due.saturating_duration_since(then), *order), errand.clone())
        };
        Agenda { errands: self.errands.iter().map(moved).collect(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_huge_delay_means_never() {
        let mut agenda = Agenda::default();
        let key = ObjectKey { resource: GroupResource::new("batch", "jobs"), namespace: "d".into(), name: "a".into() };
        agenda.put_off(Errand::LookAgain(key), Duration::MAX);
        assert!(agenda.next_errand().is_none());
    }
}
