//! Follows what caches show of an object while a write to it is under way, and decides what the key owes when the write
//! has ended.
//!
//! An interest is opened before the request is sent: the event may arrive before the answer does, and the state that it
//! tells may have been replaced by then.

use super::Cache;
use super::pending::{CacheNotice, Sight};
use crate::object::compact::{Uid, Version};
use crate::object::progress::Stamp;
use crate::object::{Object, ObjectKey};

/// States of one object that are remembered while a write is under way. Should more come, the cache has to prove itself.
const REMEMBERED_STATES_MAX: usize = 64;

/// How a write ended, as far as caches are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It was refused, or never sent, or a dry run.
    Nothing,
    /// It has left this state of the object.
    Left {
        uid: Uid,
        version: Version,
        /// It has created the object.
        is_new: bool,
        /// The state as each cache of the interest shows it, in their order.
        shown: Vec<Shown>,
    },
    /// It has deleted the object, or set out to.
    Removed {
        /// The incarnation. None: nobody said which.
        uid: Option<Uid>,
        /// It was terminating before, and has gone with this write: that it is terminating does not show the write.
        for_good: bool,
    },
    /// The outcome is not known: the write may or may not have done something; it will do no more.
    Unknown,
}

/// Whether a cache shows a state once it has come that far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Yes,
    /// Only the server knows.
    Perhaps,
    /// A selector hides it; or it may, and the object was there before.
    No,
}

/// A write that is under way.
#[derive(Debug)]
pub(crate) struct ExpectedWrite {
    /// The key that writes.
    pub(crate) primary: ObjectKey,
    /// The object that is written.
    pub(crate) object: ObjectKey,
    pub(crate) opened: Stamp,
    pub(crate) looks: Vec<CacheLook>,
}

/// The object as one cache has shown it since the interest was opened.
#[derive(Debug)]
pub(crate) struct CacheLook {
    pub(crate) cache: usize,
    pub(crate) epoch: u64,
    /// How far the cache had come when the interest was opened, and what it showed then.
    version: Option<Version>,
    first: Option<(Uid, Version)>,
    states: Vec<ExpectedState>,
    overflowed: bool,
}

#[derive(Debug)]
struct ExpectedState {
    uid: Uid,
    version: Version,
    /// The cache shows it no more.
    gone: bool,
    /// The incarnation is gone for good, or terminating.
    ends: bool,
}

/// The consequence for one cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// It shows the write already, or never will.
    Nothing,
    /// It has yet to show it.
    Expect(Sight),
    /// The same, but nothing may come by itself that tells.
    Doubt(Sight),
}

impl CacheLook {
    /// Looks at a cache before the request is sent.
    pub(crate) fn begin(token: usize, cache: &Cache, object: &ObjectKey) -> Self {
        let progress = &*cache.progress;
        // In this order: what it shows is at least of that version, which is of that epoch or a later one.
        let (epoch, version) = (progress.epoch(), progress.version());
        let first = progress.get(object);
        let mut look = Self { cache: token, epoch, version, first: None, states: Vec::new(), overflowed: false };
        if let Some(first) = first {
            look.first = Some((first.header.uid.clone(), first.header.version.clone()));
            look.note(&first, false, cache.is_filtered);
        }
        look
    }

    /// Remembers a state that the cache has been told of.
    pub(crate) fn told(&mut self, told: CacheNotice<'_>, cache: &Cache) {
        self.note(told.object, told.gone, cache.is_filtered);
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

    /// A list has replaced what the cache shows.
    pub(crate) fn listed(&mut self, cache: &Cache, object: &ObjectKey) {
        if let Some(now) = cache.progress.get(object) {
            self.note(&now, false, cache.is_filtered);
        }
    }

    /// Decides what follows from `effect` on `object`; `shown` says whether this cache shows the state that is left.
    pub(crate) fn follows(&self, effect: &Effect, shown: Shown, object: &ObjectKey, cache: &Cache) -> Follows {
        let object = object.clone();
        match effect {
            Effect::Nothing => Follows::Nothing,
            Effect::Unknown | Effect::Removed { uid: None, .. } => Follows::Doubt(Sight::Fresh),
            // What was shown before the server went back may have been undone.
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

    /// Decides what follows from a write that has left a state that the cache does not show.
    fn hides(&self, uid: &Uid, version: &Version, is_new: bool, object: ObjectKey, cache: &Cache) -> Follows {
        // The one that had the name before may still be shown.
        let is_unknown = is_new && cache.progress.get(&object).is_none() && self.states.is_empty();
        let has_left = self.states.iter().any(|it| it.gone && it.uid == *uid && it.version == *version);
        if is_unknown || has_left {
            return Follows::Nothing;
        }
        // It showed the name although it had come to a state in which it does not: the server has gone back.
        if self.was_past(version, cache) && self.first.is_some() {
            return Follows::Doubt(Sight::Fresh);
        }
        Follows::Expect(Sight::Hidden { object, uid: uid.clone(), version: version.clone() })
    }

    /// Whether the cache had come to `version` before the request was sent.
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
        // The cache had come that far before the request was sent, so the write has changed nothing of a state that the
        // cache shows; or else the server has gone back to an older state.
        let is_same = self.first.as_ref().is_some_and(|(of, at)| of == uid && at == version);
        match shown {
            _ if is_same => Follows::Nothing,
            Shown::Perhaps | Shown::No => Follows::Nothing,
            Shown::Yes => Follows::Doubt(Sight::Fresh),
        }
    }
}
