//! Keeps the objects that a call's own writes returned, so that later cache reads of the same call show them (ADR
//! 10).
//!
//! The cache learns of a write later, from its watch. Until then it would show the call the state that the call has
//! just replaced. There is no snapshot across kinds: only the call's own writes are laid over its reads.
//!
//! States are kept by group and kind without the version, because a write in one version makes the cached state in
//! another version stale as well. `reader` decides which of them a watch would show.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::object::compact::{Uid, Version};
use crate::object::progress::Stamp;
use crate::object::{Object, ObjectKey, ObjectKind};

/// Bytes of objects that the overlay of one call keeps whole. Objects beyond that are hidden from cache reads until
/// the watch has caught up, because the cached state is stale.
pub const OVERLAY_BYTES_MAX: usize = 32 << 20;

/// Bytes that may be kept before room for them is granted.
pub const OVERLAY_CREDIT_BYTES: usize = 1 << 20;

/// Memory of the host for one call, from a budget that calls share.
pub trait Room: fmt::Debug + Send + Sync {
    /// Whether there is room for `bytes` in total. Takes the missing bytes from the budget if they are free. Dropping
    /// the value returns everything.
    fn try_have(&self, bytes: usize) -> bool;
}

/// The states after a call's own writes, laid over its cache reads. Clones share them.
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
    /// Sorted, because a call writes few kinds, for which comparing is faster than hashing.
    by_kind: BTreeMap<GroupKind, BTreeMap<ObjectKey, Known>>,
    bytes: usize,
    /// `None` if no budget counts the bytes.
    room: Option<Arc<dyn Room>>,
    /// Bytes for which `room` has granted memory.
    covered: usize,
    /// Bytes that the call has reserved elsewhere because `room` did not grant them.
    paid: usize,
    closed: bool,
    is_fixed: bool,
}

impl States {
    /// Whether `size` more bytes may be kept: there is room, or they fit into the credit.
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

/// A kind in any version.
type GroupKind = (Box<str>, Arc<str>);

/// A call's knowledge about one object, which is newer than the cached state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The state after the last write that was answered. `None` if no write was answered.
    pub left: Option<WrittenState>,
    /// Whether a later write may have changed the object, or has changed it without returning the new state. A write
    /// can then no longer be proven to change nothing.
    pub in_doubt: bool,
    /// Whether `left` is the answer to a dry run that the call believes to be a write. The server does not have that
    /// state.
    pub is_dry_run: bool,
    /// Whether `left` is shown whatever the cache holds; see [`Overlay::fixed`].
    pub is_fixed: bool,
}

/// The state of an object after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenState {
    /// This state, in this version of the kind.
    State(ObjectKind, Object),
    /// A state with this `resourceVersion`, which was too large to be kept.
    Unkept(Version),
    /// No object. The UID of the deleted object, if the server returned it.
    Nothing(Option<Uid>),
}

impl Overlay {
    /// The time at which the call began. The call has read nothing from a cache before that.
    #[must_use]
    pub fn began(&self) -> Stamp {
        self.began
    }

    /// An overlay whose states are shown whatever the caches hold. For a call that must see the world as it was and
    /// whose writes are not sent.
    #[must_use]
    pub fn fixed() -> Self {
        Self { states: Arc::new(Mutex::new(States { is_fixed: true, ..States::default() })), ..Self::default() }
    }

    /// Charges all that is kept from now on to `room`, for as long as the overlay exists.
    pub fn charge_to(&self, room: Arc<dyn Room>) {
        self.states().room = Some(room);
    }

    /// Bytes that are kept without room. The call pays for them before it goes on.
    #[must_use]
    pub fn owed(&self) -> usize {
        let states = self.states();
        if states.room.is_some() { states.bytes.saturating_sub(states.covered + states.paid) } else { 0 }
    }

    /// Records that the call has reserved `bytes` more elsewhere.
    pub fn paid(&self, bytes: usize) {
        self.states().paid += bytes;
    }

    /// Drops everything and keeps nothing from now on, because the call has ended. A write that is still under way
    /// may hold the call's context for long.
    pub fn close(&self) {
        let closed = States { closed: true, ..States::default() };
        let before = std::mem::replace(&mut *self.states(), closed);
        // Drop outside of the lock, because the drop gives room to other calls.
        drop(before);
    }

    /// Keeps the result of a committed write: the object that the server returned, or its absence.
    pub fn record(&self, kind: ObjectKind, key: ObjectKey, state: Option<Object>) {
        match state {
            Some(object) => self.keep(&kind.clone(), key, WrittenState::State(kind, object)),
            None => self.gone(&kind, key, None),
        }
    }

    /// Records that a committed write deleted the object with this UID, if the server returned one.
    pub fn gone(&self, kind: &ObjectKind, key: ObjectKey, uid: Option<Uid>) {
        self.keep(kind, key, WrittenState::Nothing(uid));
    }

    /// Marks the state that was kept last as the answer to a dry run that the call believes to be a write.
    pub fn mark_dry_run(&self, kind: &ObjectKind, key: &ObjectKey) {
        let mut states = self.states();
        if let Some(known) = states.by_kind.get_mut(&group_kind(kind)).and_then(|known| known.get_mut(key)) {
            known.is_dry_run = true;
        }
    }

    /// Records that a write may have changed the object, or has changed it without returning the new state.
    pub fn doubt(&self, kind: &ObjectKind, key: ObjectKey) {
        let mut states = self.states();
        if states.closed {
            return;
        }
        states.by_kind.entry(group_kind(kind)).or_default().entry(key).or_default().in_doubt = true;
    }

    /// This call's knowledge about an object, which is better than the cache's. `None` if it has not written the
    /// object.
    #[must_use]
    pub fn get(&self, kind: &ObjectKind, key: &ObjectKey) -> Option<Known> {
        let states = self.states();
        if states.by_kind.is_empty() {
            return None; // The usual case, without a copy of the key.
        }
        states.by_kind.get(&group_kind(kind))?.get(key).cloned()
    }

    /// Whether the call has written nothing, as far as is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states().by_kind.is_empty()
    }

    /// All objects of a group and kind that this call has written, in key order.
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
        Object::new(Header::bare(key(), "u", "7"), text)
    }

    #[test]
    fn a_write_is_shown_in_every_version_of_its_kind() {
        let overlay = Overlay::default();
        assert_eq!(overlay.get(&kind("v1"), &key()), None);
        overlay.record(kind("v2"), key(), Some(object("{}".into())));
        let left = overlay.get(&kind("v1"), &key()).and_then(|known| known.left);
        assert!(matches!(left, Some(WrittenState::State(of, _)) if of == kind("v2")));
        assert_eq!(overlay.of_kind(&ObjectKind::new("v1", "Widget")), []);
    }

    #[test]
    fn doubt_keeps_the_known_state_until_the_next_answer() {
        let overlay = Overlay::default();
        overlay.gone(&kind("v1"), key(), None);
        overlay.doubt(&kind("v1"), key());
        let known = overlay.get(&kind("v1"), &key()).expect("known");
        assert_eq!(known, Known { left: Some(WrittenState::Nothing(None)), in_doubt: true, ..Known::default() });
        overlay.record(kind("v1"), key(), Some(object("{}".into())));
        assert!(!overlay.get(&kind("v1"), &key()).expect("known").in_doubt);
    }

    #[test]
    fn the_overlay_is_bounded() {
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
        assert!(kept(2), "a deleted object makes room");
    }

    #[derive(Debug)]
    struct Least(usize);

    impl Room for Least {
        fn try_have(&self, bytes: usize) -> bool {
            bytes <= self.0
        }
    }

    #[test]
    fn written_states_take_room_and_little_is_owed() {
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
        assert_eq!(kept(), 4, "the call has reserved more, so there is credit again");
        let free = Overlay::default();
        free.record(kind("v1"), key(), Some(object(" ".repeat(OBJECT))));
        assert_eq!(free.owed(), 0, "no budget counts the bytes");
    }

    #[test]
    fn a_closed_overlay_returns_its_room_and_keeps_nothing() {
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
