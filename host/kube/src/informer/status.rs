//! The status and the options of informers.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::cache::watch::WatchSpec;

use crate::client::reachability::Reachability;
use crate::client::restores::Restores;
use crate::informer::error::InformerError;

/// The default maximum size of one cache, in bytes: enough for some hundred thousand objects of usual size.
pub const CACHE_BYTES_DEFAULT: usize = 1 << 30;
/// The time after which an unread text is packed.
const PACKED_AFTER_DEFAULT: Duration = Duration::from_mins(5);
/// The time of silence after which a watch is doubted. A server sends bookmarks every minute or two.
const WATCH_SILENCE_DEFAULT: Duration = Duration::from_mins(3);

/// The status of an informer.
#[derive(Clone, Debug, Default)]
pub struct InformerStatus {
    /// Whether the first complete list is in the store.
    pub synced: bool,
    /// Whether the informer has stopped, so that no more events come.
    pub stopped: bool,
    /// Whether the kind is not served, or not yet.
    pub gone: bool,
    /// The current error. `None` if there is none.
    pub error: Option<Arc<InformerError>>,
    /// The number of complete lists that were applied.
    pub lists: u64,
    /// The number of complete lists by reason, in the order of [`ListReason::ALL`].
    pub lists_by_reason: [u64; 6],
    /// The number of lists, events and incomplete lines that could not be parsed, or were out of order.
    pub malformed: u64,
    /// The number of times that the server went back to an older state, as after a restored backup, or ceased to serve
    /// the kind. Versions of different epochs cannot be compared.
    pub epoch: u64,
    /// The number of panics of the informer's task.
    pub panics: u64,
}

/// The reason why an informer has listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListReason {
    /// The informer had no list, or the kind was not served.
    First,
    /// A caller wanted a proof that the cache is fresh.
    Asked,
    /// The server's history did not reach back to where the watch would resume.
    Expired,
    /// The server refused to resume the watch.
    Refused,
    /// The server went back to an older state, as after a restored backup.
    WentBack,
    /// The server sent data that cannot be trusted, or the informer panicked.
    Distrusted,
}

impl ListReason {
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

/// The figures of one cache.
#[derive(Clone, Debug)]
pub struct InformerFigures {
    pub watch: WatchSpec,
    /// The number of objects.
    pub objects: usize,
    /// The approximate memory that the objects occupy, in bytes.
    pub bytes: usize,
    /// How the informer is doing.
    pub status: InformerStatus,
    /// Whether the cache has not been listed since the server was restored.
    pub unproven: bool,
    /// The time since the API server last sent anything: an event, a bookmark or a list. `None` if it has not sent
    /// anything yet.
    pub silence: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct InformerOptions {
    /// Whether to request lists as the beginning of a watch, if the server supports that (KEP-3157).
    pub streaming_lists: bool,
    /// Whether to pack texts that are not read. Texts of a long list are packed at once, and other texts after this
    /// time. `None` to pack no texts.
    pub cold_after: Option<Duration>,
    /// The maximum size of one cache, in bytes.
    pub most_bytes: usize,
    /// The time without a line after which a watch is doubted, if versions can be compared. A server reports its
    /// progress every minute or two. A server that went back to before the watch's version, as after a restored backup,
    /// sends no changes until it has reached that version again.
    pub silence: Duration,
    /// Reports when the server answers again, so that informers need not wait longer than necessary.
    pub reachability: Reachability,
    /// The restores of the server that were noticed. After each restore, all informers list again.
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
