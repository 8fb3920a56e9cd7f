//! Records which writes of a key must show in the caches before the key runs again (ADR 10).
//!
//! Pure state, one per controller, used under one lock: `gate` has the lock and combines this state with the queue. An
//! expectation is judged by the current contents of a cache, and judged again whenever the cache changes. One concern
//! per file: `interest` follows a write and derives the expectations, `pending` judges one expectation, `state` holds
//! them by key, `overdue` finds the expectations that take long, and `doubtful` passes keys on from one gate to the
//! next.

mod doubtful;
mod interest;
mod overdue;
mod pending;
mod state;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub use self::doubtful::DoubtfulKey;
pub use self::interest::{Effect, Shown};
pub(crate) use self::state::Expectations;
use crate::clock::Moment;
use crate::object::ObjectKey;
use crate::object::compact::Version;
use crate::object::progress::Progress;
use crate::queue::Histogram;

/// Time after which a cache that does not show a write has to prove that it is fresh.
pub const PROBE_AFTER: Duration = Duration::from_secs(30);
/// As [`PROBE_AFTER`], if it is possible that no event will show the write.
const DOUBT_AFTER: Duration = Duration::from_secs(1);
/// Time after which an unmet expectation is reported. Also the time for which an old state may still turn up.
pub const EXPIRE_AFTER: Duration = Duration::from_mins(5);

/// A cache that a controller reads.
#[derive(Clone)]
pub struct Cache {
    pub progress: Arc<dyn Progress>,
    /// Whether the watch has a selector, so that an object that disappears from the cache may still exist.
    pub is_filtered: bool,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExpectationCounts {
    /// Expectations that the cache did not meet when they were raised.
    pub raised: u64,
    /// Expectations that the cache met at once.
    pub observed: u64,
    /// Raised expectations that the cache has met since. Fewer than were raised, because some are given up, and some
    /// are covered by the expectation of a later write.
    pub satisfied: u64,
    /// Expectations that took so long that they were reported.
    pub expired: u64,
    /// The number of times a key was held.
    pub held: u64,
    /// How long expectations that blocked a key took to be met.
    pub wait: Histogram,
}

/// A waiting key, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey {
    pub key: ObjectKey,
    /// When a worker first found the key held. `None` if no worker has asked for it.
    pub held: Option<Moment>,
    /// When the expectation that has been pending longest was raised.
    pub since: Moment,
    /// The cache that has to meet the expectation.
    pub cache: usize,
    /// A description of the expectation, for people.
    pub what: String,
    /// The cache's current version. `None` if it has no complete list yet.
    pub cache_version: Option<Version>,
}

/// Work that is due because keys have waited long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Caches that have to prove that they are fresh.
    pub probes: BTreeSet<usize>,
    /// Keys that have waited too long.
    pub expired: Vec<HeldKey>,
}
