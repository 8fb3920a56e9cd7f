//! The progress of a cache. Observers are notified of each advance, and all code that waits for a cache waits for such
//! an advance (ADR 10, ADR 11).
//!
//! An informer's store is a [`Progress`]. A waiter both reads the store and registers as an [`Observer`]. It misses no
//! change, because a change is in the store before observers are notified.

mod reached;

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::object::compact::Version;
use crate::object::{Object, ObjectKey};

pub use reached::Reached;

/// A position in the order in which this process sends requests and receives answers. A list that was sent after the
/// answer to a write arrived shows that write, whatever the server's versions look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// A stamp later than all stamps taken before, on any thread.
    #[must_use]
    pub fn take() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

/// One cache of a watch. Each method describes the cache at one moment: the next call may already return a later state.
pub trait Progress: Send + Sync {
    /// The version up to which all changes are in the cache and its indexes. Does not advance during a list, and is
    /// `None` before the first complete list.
    fn version(&self) -> Option<Version>;

    /// Whether versions of this resource can be compared as numbers (KEP-5504: Kubernetes 1.35 and later, no
    /// aggregated API).
    fn is_comparable(&self) -> bool;

    /// Increases whenever the server went back to an older state, as after a restore from a backup, or the resource
    /// was defined anew. Versions of different epochs cannot be compared.
    fn epoch(&self) -> u64;

    /// When the request of the last complete list was sent. `None` before the first one.
    fn listed(&self) -> Option<Stamp>;

    /// The object in the cache.
    fn get(&self, key: &ObjectKey) -> Option<Object>;

    /// Notifies `observer` of every change from now on, until the observer is dropped. `token` is the observer's own
    /// name for this cache.
    fn observe(&self, token: usize, observer: Weak<dyn Observer>);
}

/// An advance of a cache. The cache already contains the change.
#[derive(Clone, Copy, Debug)]
pub enum Advance<'a> {
    /// An event of the watch: the object is now in this state, or was in it when it was deleted. Also sent for states
    /// that the cache already had, and before the [`Advance::Version`] of the same event.
    Object {
        object: &'a Object,
        /// Whether the object was deleted.
        gone: bool,
    },
    /// An event or a bookmark has advanced [`Progress::version`].
    Version(&'a Version),
    /// A complete list was taken over. [`Progress::listed`], [`Progress::version`] and [`Progress::epoch`] now describe
    /// the list.
    Listed,
    /// The cache will not advance: its kind is no longer served, or its informer has ended. If the kind comes back, a
    /// list in a new epoch follows.
    Lost,
}

/// An observer of caches.
pub trait Observer: Send + Sync {
    /// Called in the order of changes, by the task that makes the changes, and under the lock of the cache. It must be
    /// fast and must not subscribe, unsubscribe or wait. It may read the cache.
    fn advanced(&self, token: usize, advance: Advance<'_>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_ordered_by_when_they_are_taken() {
        let turns: Vec<_> = std::iter::repeat_with(Stamp::take).take(3).collect();
        assert!(turns.is_sorted_by(|a, b| a < b), "{turns:?}");
    }
}
