//! One write and one cache: the state that the key has to see there, and whether it can be seen by now.

use std::cmp::Ordering;

use super::{Cache, DOUBT_AFTER, EXPIRE_AFTER};
use crate::clock::Moment;
use crate::defect::Defect;
use crate::object::compact::{Uid, Version};
use crate::object::progress::Stamp;
use crate::object::{Object, ObjectKey};

/// A state that is to be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The cache has come to this version, in the epoch of the write. Versions compare.
    Reaches { version: Version },
    /// The cache has been told of exactly this state. For versions that do not compare.
    State { object: ObjectKey, uid: Uid, version: Version },
    /// This incarnation is gone, or terminating unless it has to be `for_good`. `shown`: the cache has shown it since
    /// before the request was sent, so that it has gone if the cache shows it no more.
    Gone { object: ObjectKey, uid: Uid, shown: bool, for_good: bool },
    /// No state of this incarnation from before `version`, at which a watch's selector hides it.
    Hidden { object: ObjectKey, uid: Uid, version: Version },
    /// Everything up to the write, which cannot be told by any version.
    Fresh,
}

impl Sight {
    /// The object that matters, if it is one.
    pub(crate) fn object(&self) -> Option<&ObjectKey> {
        match self {
            Self::State { object, .. } | Self::Gone { object, .. } | Self::Hidden { object, .. } => Some(object),
            Self::Reaches { .. } | Self::Fresh => None,
        }
    }

    /// The version at which it is over, where versions compare.
    pub(crate) fn version(&self) -> Option<u64> {
        match self {
            Self::Reaches { version } | Self::Hidden { version, .. } => version.number(),
            Self::State { .. } | Self::Gone { .. } | Self::Fresh => None,
        }
    }
}

/// An event that the cache has just been told of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheNotice<'a> {
    pub(crate) object: &'a Object,
    pub(crate) gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectationVerdict {
    /// It has been seen, or need not be any more.
    Over,
    /// The key must not run.
    Blocks,
    /// The key may run, and must not once an old state turns up.
    Guards,
}

/// Something that a key is to see.
#[derive(Clone, Debug)]
pub(crate) struct PendingExpectation {
    pub(crate) cache: usize,
    pub(crate) sight: Sight,
    /// When the answer to the write came. A list that began later shows what the write did.
    pub(crate) since: Stamp,
    /// The cache's epoch before the request was sent.
    pub(crate) epoch: u64,
    /// When it was raised, or began to block.
    pub(crate) raised: Moment,
    /// When somebody has to look after it.
    pub(crate) due: Moment,
    pub(crate) blocks: bool,
    /// The cache was asked to prove itself since.
    pub(crate) probed: bool,
    /// It was told of as overdue.
    pub(crate) expired: bool,
}

impl PendingExpectation {
    /// Takes a verdict that leaves it.
    pub(super) fn now(&mut self, verdict: ExpectationVerdict, now: Moment) {
        let blocks = verdict == ExpectationVerdict::Blocks;
        match (self.blocks, blocks) {
            // What it waits for now has been under way for a while.
            (false, true) => (self.raised, self.due) = (now, now + DOUBT_AFTER),
            (true, false) => self.due = now + EXPIRE_AFTER,
            _ => {}
        }
        self.blocks = blocks;
    }

    /// Whether it does for `earlier` too: both are to see how far the cache has come, and this one more.
    pub(crate) fn supersedes(&self, earlier: &Self) -> bool {
        let is_alike = self.cache == earlier.cache && self.epoch == earlier.epoch;
        is_alike
            && match (&self.sight, &earlier.sight) {
                (Sight::Fresh, Sight::Fresh) => true,
                (Sight::Reaches { version: new }, Sight::Reaches { version: old }) => {
                    Defect::FirstWriteIsEnough.is_seeded() || old.compare(new).is_some_and(Ordering::is_le)
                }
                _ => false,
            }
    }

    /// How it stands. `told`: the event that made one ask.
    pub(crate) fn judge(&mut self, cache: &Cache, told: Option<CacheNotice<'_>>) -> ExpectationVerdict {
        // What the cache shows first, then its epoch: if that is still the one of the write, both were of it.
        let (progress, since) = (&*cache.progress, self.since);
        if progress.listed() > Some(since) {
            return ExpectationVerdict::Over;
        }
        let reached = progress.version();
        let is_at = |version: &Version| {
            progress.is_comparable()
                && reached.as_ref().and_then(|reached| reached.compare(version)).is_some_and(Ordering::is_ge)
        };
        let verdict = match &mut self.sight {
            Sight::Reaches { version } if is_at(version) => ExpectationVerdict::Over,
            Sight::Reaches { .. } | Sight::Fresh => ExpectationVerdict::Blocks,
            Sight::State { object, uid, version } => {
                let is_state = |it: &Object| it.header.uid == *uid && it.header.version == *version;
                let is_told = told.is_some_and(|told| is_final_end(cache, told, uid) || is_state(told.object));
                over_if(is_told || progress.get(object).is_some_and(|present| is_state(&present)))
            }
            Sight::Gone { object, uid, shown, for_good } => {
                let was_shown = *shown;
                let present = progress.get(object);
                *shown |= present.as_ref().is_some_and(|present| present.header.uid == *uid);
                let gone = |told: CacheNotice<'_>| {
                    is_final_end(cache, told, uid) || (!*for_good && is_terminating(told.object, uid))
                };
                if told.is_some_and(gone) {
                    ExpectationVerdict::Over
                } else {
                    is_gone(cache, uid, *for_good, present.as_ref(), was_shown)
                }
            }
            Sight::Hidden { version, .. } if is_at(version) => ExpectationVerdict::Over,
            Sight::Hidden { object, uid, version } => {
                let present = progress.get(object);
                is_hidden(cache, told, uid, version, present.as_ref())
            }
        };
        if self.epoch != progress.epoch() {
            if self.sight != Sight::Fresh {
                // What it has shown may have been undone; only a list or a proof tells, and the sooner the better.
                (self.sight, self.due) = (Sight::Fresh, self.raised);
            }
            return ExpectationVerdict::Blocks;
        }
        verdict
    }
}

/// Whether the incarnation `uid` is gone, or terminating unless it has to be `for_good`, of whose name the cache shows
/// `present`; it has shown the incarnation if `was_shown`.
fn is_gone(cache: &Cache, uid: &Uid, for_good: bool, present: Option<&Object>, was_shown: bool) -> ExpectationVerdict {
    match present {
        Some(present) if present.header.uid == *uid => over_if(present.header.deleting && !for_good),
        // What it shows no more may be hidden, and come back before it is deleted.
        None if cache.is_filtered => ExpectationVerdict::Guards,
        // Nor does it show another one of the name before the one that it has shown is gone.
        _ => over_if(was_shown),
    }
}

/// Whether a selector hides the incarnation `uid` as of `version`, of whose name the cache shows `present`: perhaps
/// still the incarnation before it.
fn is_hidden(
    cache: &Cache,
    told: Option<CacheNotice<'_>>,
    uid: &Uid,
    version: &Version,
    present: Option<&Object>,
) -> ExpectationVerdict {
    let has_left = |told: CacheNotice<'_>| {
        let header = &told.object.header;
        told.gone && header.uid == *uid && header.version == *version
    };
    if told.is_some_and(has_left) {
        return ExpectationVerdict::Over;
    }
    let Some(present) = present else { return ExpectationVerdict::Guards };
    let is_greater = || present.header.version.compare(version) == Some(Ordering::Greater);
    over_if(present.header.version == *version || (cache.progress.is_comparable() && is_greater()))
}

fn over_if(is_over: bool) -> ExpectationVerdict {
    if is_over { ExpectationVerdict::Over } else { ExpectationVerdict::Blocks }
}

fn is_terminating(object: &Object, uid: &Uid) -> bool {
    object.header.deleting && object.header.uid == *uid
}

/// Whether the incarnation `uid` will never be shown again. A selector may also hide it for a while.
fn is_final_end(cache: &Cache, told: CacheNotice<'_>, uid: &Uid) -> bool {
    told.gone && !cache.is_filtered && told.object.header.uid == *uid
}
