//! The limited history of one resource. `storage` records changes, and watches read them.

use std::collections::{VecDeque, vec_deque};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// One committed write.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) kind: ChangeKind,
    /// The new state. For a deletion, the last state, with the resource version of the deletion.
    pub(crate) object: Arc<Value>,
    /// The previous state, which shows whether a selector matched the object before.
    pub(crate) previous: Option<Arc<Value>>,
    /// `object` as JSON, after the first watch has written it. All watches send the same bytes.
    json: Arc<OnceLock<Bytes>>,
}

impl Change {
    pub(crate) fn new(revision: u64, kind: ChangeKind, object: Arc<Value>, previous: Option<Arc<Value>>) -> Change {
        Change { revision, kind, object, previous, json: Arc::default() }
    }

    /// `shown` as JSON. If `shown` is the object of the change, it is written only once and shared.
    pub(crate) fn json_of(&self, shown: &Arc<Value>) -> Bytes {
        let written = || Bytes::from(shown.to_string());
        if Arc::ptr_eq(shown, &self.object) { self.json.get_or_init(written).clone() } else { written() }
    }

    /// Replaces the stored states by converted ones.
    pub(crate) fn show_instead(&mut self, object: Arc<Value>, previous: Option<Arc<Value>>) {
        *self = Change::new(self.revision, self.kind, object, previous);
    }
}

/// The error if some of the requested changes were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forgotten {
    /// Changes up to this revision may be missing.
    pub(crate) up_to: u64,
}

/// The latest changes of one resource, ordered by revision. A clone shares the changes until one of the two is written
/// to, and does not signal the watches of the original.
pub(crate) struct ChangeLog {
    changes: Arc<VecDeque<Change>>,
    capacity: usize,
    /// Changes up to this revision may be missing. All later changes are present.
    forgotten: u64,
    /// The revision at which the resource's definition was last created, changed or deleted. Watches that began before
    /// it do not get changes after it.
    redefined: u64,
    signal: watch::Sender<()>,
}

impl ChangeLog {
    /// A log without changes. The history up to the revision `forgotten` is unknown; 0 means that there was no history.
    pub(crate) fn new(capacity: usize, forgotten: u64) -> ChangeLog {
        ChangeLog { changes: Arc::default(), capacity, forgotten, redefined: 0, signal: watch::Sender::new(()) }
    }

    pub(crate) fn record(&mut self, change: Change) {
        let changes = Arc::make_mut(&mut self.changes);
        changes.push_back(change);
        if changes.len() > self.capacity
            && let Some(dropped) = changes.pop_front()
        {
            self.forgotten = dropped.revision;
        }
        self.signal.send_replace(());
    }

    pub(crate) fn compact(&mut self, revision: u64) {
        self.changes = Arc::default();
        self.forgotten = revision;
        self.signal.send_replace(());
    }

    /// Makes all watches end after they have sent all changes.
    pub(crate) fn redefine(&mut self, revision: u64) {
        self.redefined = revision;
        self.signal.send_replace(());
    }

    pub(crate) fn redefined(&self) -> u64 {
        self.redefined
    }

    /// The changes after `revision`, oldest first.
    pub(crate) fn since(&self, revision: u64) -> Result<vec_deque::Iter<'_, Change>, Forgotten> {
        if revision < self.forgotten {
            return Err(Forgotten { up_to: self.forgotten });
        }
        let first = self.changes.partition_point(|change| change.revision <= revision);
        Ok(self.changes.range(first..))
    }

    /// The revision before the last `count` changes, or before the oldest known change if there are fewer.
    pub(crate) fn revision_before(&self, count: u64) -> Option<u64> {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.changes.len());
        let first = self.changes.get(self.changes.len() - count)?;
        Some(first.revision - 1)
    }

    /// A receiver that is signalled at every later change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.signal.subscribe()
    }
}

impl Clone for ChangeLog {
    fn clone(&self) -> ChangeLog {
        ChangeLog {
            changes: Arc::clone(&self.changes),
            capacity: self.capacity,
            forgotten: self.forgotten,
            redefined: self.redefined,
            signal: watch::Sender::new(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_with(revisions: &[u64], capacity: usize) -> ChangeLog {
        let mut log = ChangeLog::new(capacity, 0);
        for &revision in revisions {
            let object = Arc::new(Value::Null);
            log.record(Change::new(revision, ChangeKind::Added, object, None));
        }
        log
    }

    #[test]
    fn only_later_changes_are_returned() {
        let log = log_with(&[2, 5, 9], 10);
        let revisions: Vec<u64> = log.since(5).expect("nothing is forgotten").map(|change| change.revision).collect();
        assert_eq!(revisions, [9]);
    }

    #[test]
    fn changes_before_the_history_are_reported_as_forgotten() {
        let log = log_with(&[2, 5, 9], 2);
        assert_eq!(log.since(1).err(), Some(Forgotten { up_to: 2 }));
        assert_eq!(log.since(2).expect("5 and 9 are here").len(), 2);
    }

    #[test]
    fn an_event_for_many_watchers_is_encoded_once() {
        let change = Change::new(2, ChangeKind::Added, Arc::new(Value::from("a")), None);
        let first = change.json_of(&change.object);
        assert_eq!((&first[..], first.as_ptr()), (&br#""a""#[..], change.clone().json_of(&change.object).as_ptr()));
        assert_eq!(&change.json_of(&Arc::new(Value::from("b")))[..], br#""b""#);
        let mut converted = change.clone();
        converted.show_instead(Arc::new(Value::from("c")), None);
        assert_eq!(&converted.json_of(&converted.object)[..], br#""c""#);
    }

    #[test]
    fn after_compaction_nothing_older_can_be_resumed() {
        let mut log = log_with(&[2, 5], 10);
        log.compact(6);
        assert!(log.since(5).is_err());
        assert!(log.since(6).is_ok());
    }
}
