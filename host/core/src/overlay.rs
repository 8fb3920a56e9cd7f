//! Keeps the objects that a call's own writes returned, so that its later cache reads show them (ADR 10).
//!
//! The cache itself learns of a write by its watch, later. Within a call that would be a lie: it would read the state
//! that it has just replaced. There is no snapshot across kinds; only the call's own writes are laid over its reads.
//!
//! States are kept by group and kind, whatever the version: a write in one version makes the cached state of another one
//! stale just the same. `reader` decides what of them a watch would show.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::compact::{Uid, Version};
use crate::object::{Object, ObjectKey, ObjectKind};

/// How many bytes of objects the overlay of one call keeps whole. What its writes return beyond that is not shown any more,
/// neither is the stale state in the cache: as if no watch covered the object, until the watch has caught up.
pub const MOST_BYTES: usize = 32 << 20;

/// The states that a call's own writes have left. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    states: Arc<Mutex<States>>,
}

#[derive(Debug, Default)]
struct States {
    by_kind: HashMap<GroupKind, BTreeMap<ObjectKey, Known>>,
    bytes: usize,
}

/// A kind in whatever version.
type GroupKind = (Box<str>, Arc<str>);

/// The part of one object that a call knows better than the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The state that the last write with an answer has left. None: no write had one.
    pub left: Option<WrittenState>,
    /// A later write may have changed it, or has in a way that its answer did not show. Then nothing proves any more that
    /// a write would change nothing.
    pub in_doubt: bool,
}

/// The state of an object after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenState {
    /// This state, in this version of the kind.
    State(ObjectKind, Object),
    /// A state of this version that was too large to be kept.
    Unkept(Version),
    /// Nothing. The incarnation that has gone, if the server named it.
    Nothing(Option<Uid>),
}

impl Overlay {
    /// Keeps what a committed write has left: the object that the server returned, or nothing.
    pub fn record(&self, kind: ObjectKind, key: ObjectKey, state: Option<Object>) {
        match state {
            Some(object) => self.keep(&kind.clone(), key, WrittenState::State(kind, object)),
            None => self.gone(&kind, key, None),
        }
    }

    /// Keeps that a committed write has left nothing of an object, of this incarnation if the server named it.
    pub fn gone(&self, kind: &ObjectKind, key: ObjectKey, uid: Option<Uid>) {
        self.keep(kind, key, WrittenState::Nothing(uid));
    }

    /// Keeps that a write may have changed the object, or has without telling its new state.
    pub fn doubt(&self, kind: &ObjectKind, key: ObjectKey) {
        let mut states = self.states();
        states.by_kind.entry(group_kind(kind)).or_default().entry(key).or_default().in_doubt = true;
    }

    /// The part of an object that this call knows better than the cache. None: it has not written the object.
    #[must_use]
    pub fn get(&self, kind: &ObjectKind, key: &ObjectKey) -> Option<Known> {
        let states = self.states();
        if states.by_kind.is_empty() {
            return None; // Nearly always: spares the key's copy.
        }
        states.by_kind.get(&group_kind(kind))?.get(key).cloned()
    }

    /// All objects of a group and kind that this call has written, in the order of keys.
    #[must_use]
    pub fn of_kind(&self, kind: &ObjectKind) -> Vec<(ObjectKey, Known)> {
        let states = self.states();
        if states.by_kind.is_empty() {
            return Vec::new();
        }
        let known = states.by_kind.get(&group_kind(kind)).into_iter().flatten();
        known.map(|(key, known)| (key.clone(), known.clone())).collect()
    }

    fn keep(&self, kind: &ObjectKind, key: ObjectKey, left: WrittenState) {
        let mut states = self.states();
        let States { by_kind, bytes } = &mut *states;
        let known = by_kind.entry(group_kind(kind)).or_default().entry(key).or_default();
        *bytes -= known.left.as_ref().map_or(0, size);
        let left = match left {
            WrittenState::State(_, object) if *bytes + object.whole_footprint() > MOST_BYTES => {
                WrittenState::Unkept(object.header.version.clone())
            }
            kept => kept,
        };
        *bytes += size(&left);
        *known = Known { left: Some(left), in_doubt: false };
    }

    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(left: &WrittenState) -> usize {
    match left {
        WrittenState::State(_, object) => object.whole_footprint(),
        WrittenState::Unkept(_) | WrittenState::Nothing(_) => 0,
    }
}

fn group_kind(kind: &ObjectKind) -> GroupKind {
    (kind.group().into(), Arc::clone(&kind.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Header;

    fn kind(version: &str) -> ObjectKind {
        ObjectKind::new(format!("example.com/{version}"), "Widget")
    }

    fn key() -> ObjectKey {
        ObjectKey::namespaced("prod", "w")
    }

    fn object(text: String) -> Object {
        let header = Header {
            key: key(),
            uid: "u".into(),
            version: "7".into(),
            generation: 0,
            labels: crate::labels::Labels::default(),
            owners: Arc::default(),
            own_fields: None,
            deleting: false,
        };
        Object::new(header, text)
    }

    #[test]
    fn a_write_counts_for_every_version_of_its_kind() {
        let overlay = Overlay::default();
        assert_eq!(overlay.get(&kind("v1"), &key()), None);
        overlay.record(kind("v2"), key(), Some(object("{}".into())));
        let left = overlay.get(&kind("v1"), &key()).and_then(|known| known.left);
        assert!(matches!(left, Some(WrittenState::State(of, _)) if of == kind("v2")));
        assert_eq!(overlay.of_kind(&ObjectKind::new("v1", "Widget")), []);
    }

    #[test]
    fn doubt_leaves_what_is_known_and_the_next_answer_ends_it() {
        let overlay = Overlay::default();
        overlay.gone(&kind("v1"), key(), None);
        overlay.doubt(&kind("v1"), key());
        let known = overlay.get(&kind("v1"), &key()).expect("known");
        assert_eq!(known, Known { left: Some(WrittenState::Nothing(None)), in_doubt: true });
        overlay.record(kind("v1"), key(), Some(object("{}".into())));
        assert!(!overlay.get(&kind("v1"), &key()).expect("known").in_doubt);
    }

    #[test]
    fn what_a_call_has_written_cannot_grow_without_bound() {
        let overlay = Overlay::default();
        let large = |at: usize| (ObjectKey::namespaced("prod", format!("w{at}")), object(" ".repeat(MOST_BYTES / 3)));
        for at in 0..3 {
            let (key, object) = large(at);
            overlay.record(kind("v1"), key, Some(object));
        }
        let kept =
            |at| matches!(overlay.get(&kind("v1"), &large(at).0).expect("known").left, Some(WrittenState::State(..)));
        assert_eq!([kept(0), kept(1), kept(2)], [true, true, false]);
        overlay.gone(&kind("v1"), large(0).0, None);
        let (key, object) = large(2);
        overlay.record(kind("v1"), key, Some(object));
        assert!(kept(2), "what is gone makes place");
    }
}
