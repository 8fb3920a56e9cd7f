//! An expectation: a state that a cache has to show because of one write, and whether it shows that state yet.

use std::cmp::Ordering;

use super::{Cache, DOUBT_AFTER, EXPIRE_AFTER};
use crate::clock::Moment;
use crate::defect::Defect;
use crate::object::compact::{Uid, Version};
use crate::object::progress::Stamp;
use crate::object::{Object, ObjectKey};

/// A state that has to be seen in a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The cache has reached this version, in the epoch of the write. For versions that can be compared.
    Reaches { version: Version },
    /// The cache has received exactly this state. For versions that cannot be compared.
    State { object: ObjectKey, uid: Uid, version: Version },
    /// The object with this UID is gone. Unless it has to be gone `for_good`, it may also be terminating. `shown` says
    /// that the cache has shown the object since before the request was sent, so that the object is gone once the cache
    /// no longer shows it.
    Gone { object: ObjectKey, uid: Uid, shown: bool, for_good: bool },
    /// The cache shows no state of this object that is older than `version`, at which the watch's selector hides the
    /// object.
    Hidden { object: ObjectKey, uid: Uid, version: Version },
    /// The cache has everything up to the write. Used if no version can show whether the cache has the write.
    Fresh,
}

impl Sight {
    /// The object that has to be seen, if there is one.
    pub(crate) fn object(&self) -> Option<&ObjectKey> {
        match self {
            Self::State { object, .. } | Self::Gone { object, .. } | Self::Hidden { object, .. } => Some(object),
            Self::Reaches { .. } | Self::Fresh => None,
        }
    }

    /// The version that meets the expectation, if versions can be compared.
    pub(crate) fn version(&self) -> Option<u64> {
        match self {
            Self::Reaches { version } | Self::Hidden { version, .. } => version.number(),
            Self::State { .. } | Self::Gone { .. } | Self::Fresh => None,
        }
    }
}

/// An event that the cache has just received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheNotice<'a> {
    pub(crate) object: &'a Object,
    pub(crate) gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectationVerdict {
    /// The expectation is met, or need not be met any more.
    Over,
    /// The key must not run.
    Blocks,
    /// The key may run, unless an old state turns up.
    Guards,
}

/// A state that a cache still has to show to a key.
#[derive(Clone, Debug)]
pub(crate) struct PendingExpectation {
    pub(crate) cache: usize,
    pub(crate) sight: Sight,
    /// When the response to the write arrived. A list that began later shows the write.
    pub(crate) since: Stamp,
    /// The cache's epoch before the request was sent.
    pub(crate) epoch: u64,
    /// When the expectation was raised or began to block.
    pub(crate) raised: Moment,
    /// When to look at the expectation next.
    pub(crate) due: Moment,
    pub(crate) blocks: bool,
    /// Whether the cache has been asked since `raised` to prove that it is fresh.
    pub(crate) probed: bool,
    /// Whether the expectation has been reported as overdue.
    pub(crate) expired: bool,
}

impl PendingExpectation {
    /// Applies a verdict that does not end the expectation.
    pub(super) fn now(&mut self, verdict: ExpectationVerdict, now: Moment) {
        let blocks = verdict == ExpectationVerdict::Blocks;
        match (self.blocks, blocks) {
            // The key now waits for an event that has been on its way for a while, so the cache soon has to prove that
            // it is fresh.
            (false, true) => (self.raised, self.due) = (now, now + DOUBT_AFTER),
            (true, false) => self.due = now + EXPIRE_AFTER,
            _ => {}
        }
        self.blocks = blocks;
    }

    /// Whether meeting this expectation also meets `earlier`: both wait for a version of the same cache, and this
    /// expectation waits for the later version.
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

    /// Judges whether the cache meets the expectation. `event` is the event that caused the question.
    pub(crate) fn judge(&mut self, cache: &Cache, event: Option<CacheNotice<'_>>) -> ExpectationVerdict {
        // Reads the contents first, then the epoch. If the epoch is still that of the write, the contents belong to it
        // too.
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
                let is_by_event = event.is_some_and(|event| is_final_end(cache, event, uid) || is_state(event.object));
                over_if(is_by_event || progress.get(object).is_some_and(|present| is_state(&present)))
            }
            Sight::Gone { object, uid, shown, for_good } => {
                let was_shown = *shown;
                let present = progress.get(object);
                *shown |= present.as_ref().is_some_and(|present| present.header.uid == *uid);
                let gone = |event: CacheNotice<'_>| {
                    is_final_end(cache, event, uid) || (!*for_good && is_terminating(event.object, uid))
                };
                if event.is_some_and(gone) {
                    ExpectationVerdict::Over
                } else {
                    is_gone(cache, uid, *for_good, present.as_ref(), was_shown)
                }
            }
            Sight::Hidden { version, .. } if is_at(version) => ExpectationVerdict::Over,
            Sight::Hidden { object, uid, version } => {
                let present = progress.get(object);
                is_hidden(cache, event, uid, version, present.as_ref())
            }
        };
        if self.epoch != progress.epoch() {
            if self.sight != Sight::Fresh {
                // The states that the cache has shown may have been undone. Only a list or a proof can tell, so a proof
                // is due as soon as possible.
                (self.sight, self.due) = (Sight::Fresh, self.raised);
            }
            return ExpectationVerdict::Blocks;
        }
        verdict
    }
}

/// Judges whether the object with this `uid` is gone, or, unless it has to be gone `for_good`, at least terminating.
/// `present` is the object that the cache shows under that name. `was_shown` says that the cache has shown the object
/// with this `uid`.
fn is_gone(cache: &Cache, uid: &Uid, for_good: bool, present: Option<&Object>, was_shown: bool) -> ExpectationVerdict {
    match present {
        Some(present) if present.header.uid == *uid => over_if(present.header.deleting && !for_good),
        // An object that is not shown any more may be hidden by the selector, and come back before it is deleted.
        None if cache.is_filtered => ExpectationVerdict::Guards,
        // A cache that has shown the object shows no other object of this name before it has received the deletion.
        _ => over_if(was_shown),
    }
}

/// Whether a selector hides the object with this `uid` as of `version`. `present` is the object that the cache shows
/// under that name; it may be an earlier object.
fn is_hidden(
    cache: &Cache,
    event: Option<CacheNotice<'_>>,
    uid: &Uid,
    version: &Version,
    present: Option<&Object>,
) -> ExpectationVerdict {
    let has_left = |event: CacheNotice<'_>| {
        let header = &event.object.header;
        event.gone && header.uid == *uid && header.version == *version
    };
    if event.is_some_and(has_left) {
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

/// Whether the object with this `uid` will never be shown again. If the watch has a selector, this is never certain:
/// the selector may hide the object only for a while.
fn is_final_end(cache: &Cache, event: CacheNotice<'_>, uid: &Uid) -> bool {
    event.gone && !cache.is_filtered && event.object.header.uid == *uid
}
