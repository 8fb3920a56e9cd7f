//! Keeps what the committed writes of each key oblige it to see in the caches before it runs again (ADR 10).
//!
//! Pure state, one per controller, to be used under one lock: `gate` has that, and combines this with the queue. What
//! is to be seen is judged by what a cache shows at that moment, and judged again whenever the cache has changed. One
//! concern a file: `interest` says what follows from a write, `pending` how what is to be seen stands, `state` keeps
//! all of it by key, `overdue` finds what takes long, `doubtful` passes it on from one gate to the next.

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

/// How long a cache may take to show a write before it has to prove itself.
pub const PROBE_AFTER: Duration = Duration::from_secs(30);
/// The same where perhaps nothing comes that tells.
const DOUBT_AFTER: Duration = Duration::from_secs(1);
/// How long it may take before somebody is told. Also how long an old state may take to turn up.
pub const EXPIRE_AFTER: Duration = Duration::from_mins(5);

/// A cache that a controller reads.
#[derive(Clone)]
pub struct Cache {
    pub progress: Arc<dyn Progress>,
    /// The watch has a selector, so that what it shows no more need not be gone.
    pub is_filtered: bool,
}

/// Counts of what has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExpectationCounts {
    /// Expectations that a cache did not meet yet when they were raised.
    pub raised: u64,
    /// Those that a cache met already.
    pub observed: u64,
    /// Those that a cache has met since: fewer than were raised, as some are given up, and some are left to the expectation
    /// of a later write, which shows both.
    pub satisfied: u64,
    /// Those that took so long that somebody was told.
    pub expired: u64,
    /// How often a key was held.
    pub held: u64,
    /// How long expectations that blocked a key took to be met.
    pub wait: Histogram,
}

/// A key that waits, for those who look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey {
    pub key: ObjectKey,
    /// Since when a worker has found it held. None: no worker has asked for it.
    pub held: Option<Moment>,
    /// Since when what it has waited for the longest was to be seen.
    pub since: Moment,
    /// The cache that is to show it.
    pub cache: usize,
    /// A description of that, for people.
    pub what: String,
    /// The version that the cache has come to. `None` if it has no complete list yet.
    pub cache_version: Option<Version>,
}

/// Work to do about keys that wait long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Caches that are to prove how fresh they are.
    pub probes: BTreeSet<usize>,
    /// Keys that have waited too long.
    pub expired: Vec<HeldKey>,
}
