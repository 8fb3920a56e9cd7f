//! The verdicts about one plugin that all replicas should know: which versions were rolled back, and which may be tried
//! again.
//!
//! A verdict may be published hours late, if the API server is away. So if verdicts conflict, the later judgement wins,
//! in whatever order they arrive.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Digest, Rejection};

/// When a version was judged, in milliseconds since 1970 by the clock of the judging replica, but later than everything
/// that this replica knew by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct JudgedAt(u64);

impl JudgedAt {
    pub(crate) fn now() -> Self {
        let since = windlass_world::now();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// This time, or right after `before` if that is later.
    pub(crate) fn after(self, before: Self) -> Self {
        self.max(Self(before.0.saturating_add(1)))
    }
}

/// One verdict about a plugin, as this replica and all others should know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RejectionVerdict {
    /// This digest was rolled back.
    Rejected(Rejection),
    /// This digest may be tried again.
    Pardoned { digest: Digest, at: JudgedAt },
}

/// The combined verdicts of one replica about one plugin, for all replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RejectionVerdicts {
    rejected: Option<Rejection>,
    /// Pardons are per digest, so that a pardon does not apply to another version that another replica has rolled back
    /// meanwhile.
    pardoned: BTreeMap<Digest, JudgedAt>,
}

impl RejectionVerdicts {
    /// Adds a `verdict` that is newer than the verdicts so far.
    pub(crate) fn add(&mut self, verdict: RejectionVerdict) {
        match verdict {
            RejectionVerdict::Rejected(rejection) => self.rejected = Some(rejection),
            RejectionVerdict::Pardoned { digest, at } => {
                self.rejected.take_if(|rejected| rejected.digest == digest);
                self.pardoned.insert(digest, at);
            }
        }
    }

    /// The rejection that all replicas should know, given that they know `known` now.
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
