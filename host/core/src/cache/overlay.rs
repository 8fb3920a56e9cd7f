//! Keeps the objects that a call's own writes returned, so that its later cache reads show them (ADR 10).
//!
//! The cache itself learns of a write by its watch, later. Within a call that would be a lie: it would read the state
//! that it has just replaced. There is no snapshot across kinds; only the call's own writes are laid over its reads.
//!
//! States are kept by group and kind, whatever the version: a write in one version makes the cached state of another one
//! stale just the same. `reader` decides what of them a watch would show.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::object::compact::{Uid, Version};
use crate::object::progress::Stamp;
use crate::object::{Object, ObjectKey, ObjectKind};

/// How many bytes of objects the overlay of one call keeps whole. What its writes return beyond that is not shown any more,
/// neither is the stale state in the cache: as if no watch covered the object, until the watch has caught up.
pub const OVERLAY_BYTES_MAX: usize = 32 << 20;

/// How many bytes of that may be there before there is room for them.
pub const OVERLAY_CREDIT_BYTES: usize = 1 << 20;

/// Room for what a call has in the host, of a budget that calls share.
pub trait Room: fmt::Debug + Send + Sync {
    /// Whether there is room for `bytes` in all. Takes what is lacking, if that is free. All of it comes back when this
    /// is dropped.
    fn try_have(&self, bytes: usize) -> bool;
}

/// The states that a call's own writes have left, over what its caches show. Clones share them.
#[derive(Clone, Debug)]
pub struct Overlay {
    states: Arc<Mutex<States>>,
    began: Stamp,
}

impl Default for Overlay {
    fn default() -> Self {
        Self { states: Arc::default(), began: Stamp::take() }
    }
}

#[derive(Debug, Default)]
struct States {
    by_kind: HashMap<GroupKind, BTreeMap<ObjectKey, Known>>,
    bytes: usize,
    /// None: nobody counts.
    room: Option<Arc<dyn Room>>,
    /// For how many bytes there is room.
    covered: usize,
    /// For how many bytes there is room elsewhere.
    paid: usize,
    closed: bool,
    is_fixed: bool,
}

impl States {
    /// Whether `size` more bytes may be kept: there is room for them or can be, or they are few.
    fn may_keep(&mut self, size: usize) -> bool {
        let wanted = self.bytes.saturating_add(size);
        if wanted > OVERLAY_BYTES_MAX {
            return false;
        }
        let Some(room) = self.room.as_ref().filter(|_| wanted > self.covered + self.paid) else { return true };
        if room.try_have(wanted - self.paid) {
            self.covered = wanted - self.paid;
            return true;
        }
        wanted <= self.covered + self.paid + OVERLAY_CREDIT_BYTES
    }
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
    /// `left` is the answer to a dry run that the call takes for a write: the server does not have that state.
    pub is_dry_run: bool,
    /// `left` is shown whatever the caches have by now; see [`Overlay::fixed`].
    pub is_fixed: bool,
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
    /// When the call began: it has read nothing in a cache before.
    #[must_use]
    pub fn began(&self) -> Stamp {
        self.began
    }

    /// An overlay whose states are shown whatever the caches show: for a call that is to see the world as it was, and
    /// whose writes nobody carries out.
    #[must_use]
    pub fn fixed() -> Self {
        Self { states: Arc::new(Mutex::new(States { is_fixed: true, ..States::default() })), ..Self::default() }
    }

    /// Has what is kept from now on take its place in `room`, for as long as the overlay is there.
    pub fn charge_to(&self, room: Arc<dyn Room>) {
        self.states().room = Some(room);
    }

    /// How many bytes are kept for which there was no room. To be paid before the call goes on.
    #[must_use]
    pub fn owed(&self) -> usize {
        let states = self.states();
        if states.room.is_some() { states.bytes.saturating_sub(states.covered + states.paid) } else { 0 }
    }

    /// There is room elsewhere for so many bytes more.
    pub fn paid(&self, bytes: usize) {
        self.states().paid += bytes;
    }

    /// The call has ended, so nobody reads it any more: gives up all that it keeps, and keeps nothing from now on. What is
    /// still on its way holds the call's context, perhaps for long.
    pub fn close(&self) {
        let closed = States { closed: true, ..States::default() };
        let before = std::mem::replace(&mut *self.states(), closed);
        // Not under the lock: its room goes to others.
        drop(before);
    }

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

    /// Notes that the state which was kept last is the answer to a dry run that the call takes for a write.
    pub fn mark_dry_run(&self, kind: &ObjectKind, key: &ObjectKey) {
        let mut states = self.states();
        if let Some(known) = states.by_kind.get_mut(&group_kind(kind)).and_then(|known| known.get_mut(key)) {
            known.is_dry_run = true;
        }
    }

    /// Keeps that a write may have changed the object, or has without telling its new state.
    pub fn doubt(&self, kind: &ObjectKind, key: ObjectKey) {
        let mut states = self.states();
        if states.closed {
            return;
        }
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
        if states.closed {
            return;
        }
        let of_kind = group_kind(kind);
        let before = states.by_kind.get(&of_kind).and_then(|known| known.get(&key)?.left.as_ref()).map_or(0, size);
        states.bytes -= before;
        let left = match left {
            WrittenState::State(_, object) if !states.may_keep(object.whole_footprint()) => {
                WrittenState::Unkept(object.header.version.clone())
            }
            kept => kept,
        };
        states.bytes += size(&left);
        let known = Known { left: Some(left), is_fixed: states.is_fixed, ..Known::default() };
        states.by_kind.entry(of_kind).or_default().insert(key, known);
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
            labels: crate::object::labels::Labels::default(),
            owners: Arc::default(),
            own_fields: None,
            conditions: crate::object::conditions::Conditions::default(),
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
        assert_eq!(known, Known { left: Some(WrittenState::Nothing(None)), in_doubt: true, ..Known::default() });
        overlay.record(kind("v1"), key(), Some(object("{}".into())));
        assert!(!overlay.get(&kind("v1"), &key()).expect("known").in_doubt);
    }

    #[test]
    fn what_a_call_has_written_cannot_grow_without_bound() {
        let overlay = Overlay::default();
        let large =
            |at: usize| (ObjectKey::namespaced("prod", format!("w{at}")), object(" ".repeat(OVERLAY_BYTES_MAX / 3)));
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

    #[derive(Debug)]
    struct Least(usize);

    impl Room for Least {
        fn try_have(&self, bytes: usize) -> bool {
            bytes <= self.0
        }
    }

    #[test]
    fn what_a_call_has_written_takes_room_and_little_of_it_is_owed() {
        const OBJECT: usize = 900 << 10;
        let overlay = Overlay::default();
        overlay.charge_to(Arc::new(Least(2 * OBJECT + (10 << 10))));
        let keys = (0..36).map(|at| ObjectKey::namespaced("prod", format!("w{at}"))).collect::<Vec<_>>();
        let write = |key: &ObjectKey| overlay.record(kind("v1"), key.clone(), Some(object(" ".repeat(OBJECT))));
        let kept = || {
            let known = overlay.of_kind(&kind("v1")).into_iter();
            known.filter(|(_, known)| matches!(known.left, Some(WrittenState::State(..)))).count()
        };
        keys.iter().take(2).for_each(write);
        assert_eq!((kept(), overlay.owed()), (2, 0));
        keys.iter().for_each(write);
        assert_eq!(kept(), 3, "two in their room, and one on credit");
        assert!((OBJECT..OVERLAY_CREDIT_BYTES).contains(&overlay.owed()), "{}", overlay.owed());
        overlay.paid(overlay.owed());
        assert_eq!(overlay.owed(), 0);
        keys.iter().for_each(write);
        assert_eq!(kept(), 4, "there was room elsewhere, so there is credit again");
        let free = Overlay::default();
        free.record(kind("v1"), key(), Some(object(" ".repeat(OBJECT))));
        assert_eq!(free.owed(), 0, "nobody counts");
    }

    #[test]
    fn an_overlay_whose_call_has_ended_gives_its_room_back_and_keeps_nothing() {
        let (overlay, room) = (Overlay::default(), Arc::new(Least(usize::MAX)));
        overlay.charge_to(room.clone());
        let late = overlay.clone();
        overlay.record(kind("v1"), key(), Some(object("{}".into())));
        overlay.close();
        assert_eq!(Arc::strong_count(&room), 1);
        late.record(kind("v1"), key(), Some(object("{}".into())));
        late.doubt(&kind("v1"), key());
        assert_eq!(late.get(&kind("v1"), &key()), None);
    }
}
