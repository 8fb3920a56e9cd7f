//! Follows what caches show of an object while a write to it is under way. When the write has ended, decides which
//! expectations follow.
//!
//! An interest is opened before the request is sent. The event may arrive before the response, and the state in that
//! event may have been replaced by then.

use super::Cache;
use super::pending::{CacheNotice, Sight};
use crate::object::compact::{Uid, Version};
use crate::object::progress::Stamp;
use crate::object::{Object, ObjectKey};

/// States of one object that are remembered while a write is under way. If there are more, the cache has to prove that
/// it is fresh.
const REMEMBERED_STATES_MAX: usize = 64;

/// The effect of a write on caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The write was refused, or not sent, or a dry run.
    Nothing,
    /// The write left the object in this state.
    Left {
        uid: Uid,
        version: Version,
        /// Whether the write created the object.
        is_new: bool,
        /// For each cache of the interest, in order: whether it shows that state.
        shown: Vec<Shown>,
    },
    /// The write deleted the object or started its deletion.
    Removed {
        /// The deleted object's UID. `None` if the server did not return it.
        uid: Option<Uid>,
        /// Whether the object was terminating before and is gone with this write. If so, a terminating object does not
        /// prove that a cache shows the write.
        for_good: bool,
    },
    /// The outcome is not known. The write may have had an effect, and will have no effect later.
    Unknown,
}

/// Whether a cache that has reached a state shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Yes,
    /// Only the server can tell.
    Perhaps,
    /// A selector hides the state. Or a selector may hide the state, and the object existed before the write.
    No,
}

/// A write that is under way.
#[derive(Debug)]
pub(crate) struct ExpectedWrite {
    /// The key that made the write.
    pub(crate) primary: ObjectKey,
    /// The written object.
    pub(crate) object: ObjectKey,
    pub(crate) opened: Stamp,
    pub(crate) looks: Vec<CacheLook>,
}

/// An object as one cache has shown it since the interest was opened.
#[derive(Debug)]
pub(crate) struct CacheLook {
    pub(crate) cache: usize,
    pub(crate) epoch: u64,
    /// The cache's version when the interest was opened, and the object that it showed then.
    version: Option<Version>,
    first: Option<(Uid, Version)>,
    states: Vec<ExpectedState>,
    overflowed: bool,
}

#[derive(Debug)]
struct ExpectedState {
    uid: Uid,
    version: Version,
    /// Whether the cache no longer shows the object.
    gone: bool,
    /// Whether the object with this UID is gone for good, or terminating.
    ends: bool,
}

/// The consequence of a write for one cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// The cache shows the write already, or never will.
    Nothing,
    /// The cache still has to show the write.
    Expect(Sight),
    /// As `Expect`, but it is possible that no event will show the write.
    Doubt(Sight),
}

impl CacheLook {
    /// Looks up the object in a cache before the request is sent.
    pub(crate) fn begin(token: usize, cache: &Cache, object: &ObjectKey) -> Self {
        let progress = &*cache.progress;
        // The epoch is read before the version, and the version before the object. So the object is at this version or
        // a later one, and the version belongs to this epoch or a later one.
        let (epoch, version) = (progress.epoch(), progress.version());
        let first = progress.get(object);
        let mut look = Self { cache: token, epoch, version, first: None, states: Vec::new(), overflowed: false };
        if let Some(first) = first {
            look.first = Some((first.header.uid.clone(), first.header.version.clone()));
            look.note(&first, false, cache.is_filtered);
        }
        look
    }

    /// Remembers a state from an event that the cache has received.
    pub(crate) fn received(&mut self, event: CacheNotice<'_>, cache: &Cache) {
        self.note(event.object, event.gone, cache.is_filtered);
    }

    fn note(&mut self, object: &Object, gone: bool, is_filtered: bool) {
        if self.states.len() == REMEMBERED_STATES_MAX {
            self.overflowed = true;
            return;
        }
        let header = &object.header;
        let ends = (gone && !is_filtered) || header.deleting;
        self.states.push(ExpectedState { uid: header.uid.clone(), version: header.version.clone(), gone, ends });
    }

    /// Takes note that a list has replaced the contents of the cache.
    pub(crate) fn listed(&mut self, cache: &Cache, object: &ObjectKey) {
        if let Some(now) = cache.progress.get(object) {
            self.note(&now, false, cache.is_filtered);
        }
    }

    /// Decides what follows from `effect` on `object`. `shown` says whether this cache shows the resulting state.
    pub(crate) fn follows(&self, effect: &Effect, shown: Shown, object: &ObjectKey, cache: &Cache) -> Follows {
        let object = object.clone();
        match effect {
            Effect::Nothing => Follows::Nothing,
            Effect::Unknown | Effect::Removed { uid: None, .. } => Follows::Doubt(Sight::Fresh),
            // If the server has gone back to an older state, earlier events may have been undone.
            _ if self.overflowed || self.epoch != cache.progress.epoch() => Follows::Doubt(Sight::Fresh),
            Effect::Removed { uid: Some(uid), for_good } => {
                let mut states = self.states.iter().filter(|state| state.uid == *uid);
                let is_end = |it: &ExpectedState| if *for_good { it.gone && !cache.is_filtered } else { it.ends };
                if states.any(is_end) {
                    return Follows::Nothing;
                }
                let shown = self.states.iter().any(|state| state.uid == *uid);
                Follows::Expect(Sight::Gone { object, uid: uid.clone(), shown, for_good: *for_good })
            }
            Effect::Left { uid, version, is_new, .. } => {
                if shown == Shown::No {
                    return self.hides(uid, version, *is_new, object, cache);
                }
                if version.is_empty() {
                    return Follows::Doubt(Sight::Fresh);
                }
                self.left(uid, version, shown, object, cache)
            }
        }
    }

    /// Decides what follows from a write whose resulting state the cache does not show.
    fn hides(&self, uid: &Uid, version: &Version, is_new: bool, object: ObjectKey, cache: &Cache) -> Follows {
        // The cache may still show an earlier object of the same name.
        let is_unknown = is_new && cache.progress.get(&object).is_none() && self.states.is_empty();
        let has_left = self.states.iter().any(|it| it.gone && it.uid == *uid && it.version == *version);
        if is_unknown || has_left {
            return Follows::Nothing;
        }
        // The cache showed an object of this name although it had reached a version without such an object: the server
        // has gone back to an older state.
        if self.was_past(version, cache) && self.first.is_some() {
            return Follows::Doubt(Sight::Fresh);
        }
        Follows::Expect(Sight::Hidden { object, uid: uid.clone(), version: version.clone() })
    }

    /// Whether the cache had reached `version` before the request was sent.
    fn was_past(&self, version: &Version, cache: &Cache) -> bool {
        let before = self.version.as_ref().filter(|_| cache.progress.is_comparable());
        before.and_then(|before| before.compare(version)).is_some_and(std::cmp::Ordering::is_ge)
    }

    fn left(&self, uid: &Uid, version: &Version, shown: Shown, object: ObjectKey, cache: &Cache) -> Follows {
        let expect = if shown == Shown::Perhaps { Follows::Doubt } else { Follows::Expect };
        let is_known = |state: &ExpectedState| state.uid == *uid && state.version == *version;
        if !cache.progress.is_comparable() || version.number().is_none() {
            if self.states.iter().any(is_known) {
                return Follows::Nothing;
            }
            return expect(Sight::State { object, uid: uid.clone(), version: version.clone() });
        }
        if !self.was_past(version, cache) {
            return expect(Sight::Reaches { version: version.clone() });
        }
        // The cache had reached this version before the request was sent. So either the write changed nothing in a
        // state that the cache shows, or the server has gone back to an older state.
        let is_same = self.first.as_ref().is_some_and(|(of, at)| of == uid && at == version);
        match shown {
            _ if is_same => Follows::Nothing,
            Shown::Perhaps | Shown::No => Follows::Nothing,
            Shown::Yes => Follows::Doubt(Sight::Fresh),
        }
    }
}
