//! How an informer is doing, and how it is told to work.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::cache::watch::WatchSpec;

use crate::client::reachability::Reachability;
use crate::client::restores::Restores;
use crate::informer::error::InformerError;

/// The most bytes that one cache may hold: some hundred thousand objects of the usual sizes.
pub const CACHE_BYTES_DEFAULT: usize = 1 << 30;
/// How long nobody has read a text when it is packed.
const PACKED_AFTER_DEFAULT: Duration = Duration::from_mins(5);
/// How long a watch is silent when it is doubted: a server's bookmarks come every minute or two.
const WATCH_SILENCE_DEFAULT: Duration = Duration::from_mins(3);

/// How an informer is doing.
#[derive(Clone, Debug, Default)]
pub struct InformerStatus {
    /// The first complete list is in the store.
    pub synced: bool,
    /// The informer has stopped: no more events come.
    pub stopped: bool,
    /// The kind is not served any more, or not yet.
    pub gone: bool,
    /// The error right now. None: all is well, or nothing has failed yet.
    pub error: Option<Arc<InformerError>>,
    /// How many complete lists were taken over.
    pub lists: u64,
    /// The same by reason, in the order of [`ListReason::ALL`].
    pub lists_by_reason: [u64; 6],
    /// How many lists, events and half lines could not be read, or came out of order.
    pub malformed: u64,
    /// How often the server has gone back to an older state, as after a restored backup, or has ceased to serve the
    /// kind: versions of one epoch say nothing about another.
    pub epoch: u64,
    /// How often the informer's own task has panicked.
    pub panics: u64,
}

/// The reason why an informer has listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListReason {
    /// It had no list, or the kind was not served.
    First,
    /// Somebody wanted proof that the cache is fresh.
    Asked,
    /// The server's history did not reach back to where the watch was to go on.
    Expired,
    /// The server refused to let the watch go on.
    Refused,
    /// The server went back to an older state, as after a restored backup.
    WentBack,
    /// The server sent what cannot be trusted, or the informer panicked over it.
    Distrusted,
}

impl ListReason {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::First, Self::Asked, Self::Expired, Self::Refused, Self::WentBack, Self::Distrusted];

    /// The label of metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Asked => "asked",
            Self::Expired => "expired",
            Self::Refused => "refused",
            Self::WentBack => "went-back",
            Self::Distrusted => "distrusted",
        }
    }
}

/// One cache at one moment.
#[derive(Clone, Debug)]
pub struct InformerFigures {
    /// The watch.
    pub watch: WatchSpec,
    /// How many objects it holds.
    pub objects: usize,
    /// Roughly what they occupy in memory.
    pub bytes: usize,
    /// How the informer is doing.
    pub status: InformerStatus,
    /// Whether it has not been listed since the server was restored.
    pub unproven: bool,
    /// How long the API server has told nothing: no event, no bookmark, no list. None: it has told nothing yet.
    pub silence: Option<Duration>,
}

/// How informers work.
#[derive(Clone, Debug)]
pub struct InformerOptions {
    /// Whether lists come as the beginning of a watch where the server can do that (KEP-3157).
    pub streaming_lists: bool,
    /// Whether texts that nobody reads are packed: those of a long list at once, others after this time. None: never.
    pub cold_after: Option<Duration>,
    /// The most that one cache may hold, in bytes.
    pub most_bytes: usize,
    /// After how long without a line a watch is doubted, where versions compare. A server tells how far it has come
    /// every minute or two; one that has gone back to before the watch's version, as after a restored backup, passes
    /// over in silence what changes until it is there again.
    pub silence: Duration,
    /// Tells when the server answers again, so that nobody waits longer for it than it takes.
    pub reachability: Reachability,
    /// The restores of the server that were noticed: after each, all informers list anew.
    pub restores: Restores,
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            streaming_lists: false,
            cold_after: Some(PACKED_AFTER_DEFAULT),
            most_bytes: CACHE_BYTES_DEFAULT,
            silence: WATCH_SILENCE_DEFAULT,
            reachability: Reachability::always(),
            restores: Restores::default(),
        }
    }
}
