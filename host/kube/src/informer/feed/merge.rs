//! Applies an event or a list to the contents, and determines the resulting events.

use std::cmp::Ordering;
use std::collections::HashSet;

use windlass_core::cache::watch::{Tombstone, WatchEvent};
use windlass_core::defect::Defect;
use windlass_core::object::compact::Version;
use windlass_core::object::progress::Advance;
use windlass_core::object::{Header, Object, ObjectKey};

use super::CompleteList;
use super::same::is_same;
use crate::informer::store::Contents;

/// How far an event has advanced the contents, for observers. The event's changes are in the outbox.
#[derive(Default)]
pub(super) struct Moved {
    /// Set only if the event changed nothing. Contains the stored object, or else the object's last state. The flag
    /// says whether the object is gone.
    known: Option<(Object, bool)>,
    version: Option<Version>,
}

impl Moved {
    /// Records that `contents` include everything up to `version`, unless that is known already.
    pub(super) fn to(contents: &mut Contents, version: Version) -> Self {
        let before = contents.version();
        let is_older = before.and_then(|before| contents.compare(&version, before)) == Some(Ordering::Less);
        let moves = !version.is_empty() && !is_older && before != Some(&version);
        let version = moves.then_some(version);
        if let Some(version) = &version {
            contents.set_version(version.clone());
        }
        Self { known: None, version }
    }

    /// Reports the effect of the event to `notify`: first the `changes` of objects, then the version.
    pub(super) fn report(&self, changes: &[WatchEvent], mut notify: impl FnMut(Advance<'_>)) {
        for change in changes {
            notify(match change {
                WatchEvent::Applied { new, .. } => Advance::Object { object: new, gone: false },
                WatchEvent::Deleted(Tombstone { last, .. }) => Advance::Object { object: last, gone: true },
            });
        }
        if let Some((object, gone)) = &self.known {
            notify(Advance::Object { object, gone: *gone });
        }
        if let Some(version) = &self.version {
            notify(Advance::Version(version));
        }
    }
}

/// Applies a complete list; returns the epoch.
pub(super) fn list(contents: &mut Contents, listed: CompleteList, outbox: &mut Vec<WatchEvent>) -> u64 {
    let initial = !contents.is_synced();
    let keys: HashSet<_> = listed.objects.iter().map(|object| &object.header.key).collect();
    let gone = contents.iter().filter(|object| !keys.contains(&object.header.key));
    let gone: Vec<_> = gone.map(|object| object.header.key.clone()).collect();
    for key in gone.into_iter().filter(|_| !Defect::UnseenDeletionIsKept.is_seeded()) {
        remove(contents, &key, outbox);
    }
    for object in listed.objects {
        insert(contents, &object, initial, outbox);
    }
    contents.set_listed(listed.resource, listed.version, listed.began, listed.era);
    contents.epoch()
}

pub(super) fn nothing(contents: &mut Contents, outbox: &mut Vec<WatchEvent>) {
    let keys: Vec<_> = contents.iter().map(|object| object.header.key.clone()).collect();
    for key in keys {
        remove(contents, &key, outbox);
    }
}

/// Applies an object from the watch, unless this state or a later one is stored already.
pub(super) fn applied(contents: &mut Contents, object: &Object, outbox: &mut Vec<WatchEvent>) -> Moved {
    let key = &object.header.key;
    if contents.get(key).is_none_or(|stored| is_newer(contents, object, stored)) {
        insert(contents, object, false, outbox);
    }
    let known = if outbox.is_empty() { contents.get(key).map(|stored| (stored.clone(), false)) } else { None };
    Moved { known, ..Moved::to(contents, object.header.version.clone()) }
}

/// Applies a deletion from the watch. `last` is the object's last state.
pub(super) fn deleted(contents: &mut Contents, last: Object, outbox: &mut Vec<WatchEvent>) -> Moved {
    let moved = Moved::to(contents, last.header.version.clone());
    let known = match contents.get(&last.header.key) {
        Some(stored) if stored.header.uid == last.header.uid => {
            if contents.compare(&last.header.version, &stored.header.version) == Some(Ordering::Less) {
                // With a selector, the same object may have left the watch and come back since.
                Some((stored.clone(), false))
            } else {
                let key = last.header.key.clone();
                outbox.push(WatchEvent::Deleted(Tombstone { last, final_state_unknown: false }));
                contents.remove(&key);
                None
            }
        }
        Some(stored) => {
            if is_newer(contents, &last, stored) {
                // The stored object was replaced by another object of this name, which the watch skipped, and which has
                // now been deleted.
                remove(contents, &last.header.key, outbox);
            }
            Some((last, true))
        }
        None => Some((last, true)),
    };
    Moved { known, ..moved }
}

/// Applies a state that the watch's `where` does not admit. `object` has only its name, UID and version. The resulting
/// event is the one that a server would send if it evaluated the conditions (kube-apiserver: `convertToWatchEvent` of
/// the watch cache): it has the last state that was in the watch, so that mappings can read it, with the version of
/// `object`.
pub(super) fn excluded(contents: &mut Contents, object: Object, outbox: &mut Vec<WatchEvent>) -> Moved {
    let stored = contents.get(&object.header.key).filter(|stored| stored.header.uid == object.header.uid);
    let last = stored.map(|stored| {
        let header = Header { version: object.header.version.clone(), ..stored.header.clone() };
        Object::new(header, stored.glance())
    });
    deleted(contents, last.unwrap_or(object), outbox)
}

/// Stores `object`. If the name now has another UID, this is an unseen deletion followed by a new object.
fn insert(contents: &mut Contents, object: &Object, initial: bool, outbox: &mut Vec<WatchEvent>) {
    let mut old = contents.get(&object.header.key).cloned();
    if old.as_ref().is_some_and(|old| is_same(old, object)) {
        return;
    }
    if let Some(last) = old.take_if(|old| old.header.uid != object.header.uid) {
        outbox.push(WatchEvent::Deleted(Tombstone { last, final_state_unknown: true }));
    }
    outbox.push(WatchEvent::Applied { old, new: object.clone(), initial });
    contents.insert(object);
}

/// Removes an object whose deletion was not seen.
fn remove(contents: &mut Contents, key: &ObjectKey, outbox: &mut Vec<WatchEvent>) {
    let Some(last) = contents.get(key).cloned() else { return };
    outbox.push(WatchEvent::Deleted(Tombstone { last, final_state_unknown: true }));
    contents.remove(key);
}

/// Whether `object` is a later state than `stored`. If versions cannot be compared, the one that arrives later is
/// newer.
fn is_newer(contents: &Contents, object: &Object, stored: &Object) -> bool {
    match contents.compare(&object.header.version, &stored.header.version) {
        Some(order) => order == Ordering::Greater,
        None => object.header.version != stored.header.version,
    }
}
