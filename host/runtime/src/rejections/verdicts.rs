//! The verdicts about one plugin that all replicas are to know: what was rolled back, and what may be tried again.
//!
//! Each may be told late, for the API server may be away for hours. So whatever was judged later counts, not whatever
//! is told later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Digest, Rejection};

/// When something was judged: in milliseconds since 1970 by the clock of who judged, but after all that it knew by
/// then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct JudgedAt(u64);

impl JudgedAt {
    pub(crate) fn now() -> Self {
        let since = windlass_world::now();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// This, or right after `before` if that is later.
    pub(crate) fn after(self, before: Self) -> Self {
        self.max(Self(before.0.saturating_add(1)))
    }
}

/// A verdict about one plugin: rejected or not, here, and as other replicas are to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RejectionVerdict {
    /// This was rolled back.
    Rejected(Rejection),
    /// This digest may be tried again.
    Pardoned { digest: Digest, at: JudgedAt },
}

/// Any number of verdicts of one replica about one plugin, in one, as all replicas are to know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RejectionVerdicts {
    rejected: Option<Rejection>,
    /// Each of them by itself: what another replica has rolled back meanwhile is not pardoned with them.
    pardoned: BTreeMap<Digest, JudgedAt>,
}

impl RejectionVerdicts {
    /// `verdict` is newer than those.
    pub(crate) fn add(&mut self, verdict: RejectionVerdict) {
        match verdict {
            RejectionVerdict::Rejected(rejection) => self.rejected = Some(rejection),
            RejectionVerdict::Pardoned { digest, at } => {
                self.rejected.take_if(|rejected| rejected.digest == digest);
                self.pardoned.insert(digest, at);
            }
        }
    }

    /// The rejection that all replicas are to know, where they know `known` now.
    pub(crate) fn over(&self, known: Option<Rejection>) -> Option<Rejection> {
        let stays = known.filter(|known| self.pardoned.get(&known.digest).is_none_or(|at| *at < known.at));
        match (self.rejected.clone(), stays) {
            (Some(own), Some(stays)) if stays.at > own.at => Some(stays),
            (own, stays) => own.or(stays),
        }
    }
}

#[cfg(test)]
mod tests;
