//! The progress of a cache: its observers are notified of each advance, and everything that waits for a cache waits for
//! that (ADR 10, ADR 11).
//!
//! An informer's store is a [`Progress`]. Whoever waits looks at it, and is told of each change as an [`Observer`]; the two
//! never miss each other, since a change is in the store before it is told.

mod reached;

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::object::compact::Version;
use crate::object::{Object, ObjectKey};

pub use reached::Reached;

/// A place in the order in which this process begins and ends requests. A list that began after the answer to a write came
/// shows what the write did, however the server writes its versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// A turn later than all that were taken before, by any thread.
    #[must_use]
    pub fn take() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

/// One cache of a watch. What it says of itself is of one moment; the next call may say something later.
pub trait Progress: Send + Sync {
    /// Up to which version all changes are in the cache and its indexes. It stands still while a list is under way, and is
    /// None before the first complete one.
    fn version(&self) -> Option<Version>;

    /// Whether versions of this resource compare as numbers (KEP-5504: Kubernetes 1.35 and later, and no aggregated API).
    fn is_comparable(&self) -> bool;

    /// Goes up whenever the server has gone back to an older state, as after a restored backup, or the resource was defined
    /// anew: versions of one epoch say nothing about another.
    fn epoch(&self) -> u64;

    /// When the request began whose complete list was last taken over. None: there was none.
    fn listed(&self) -> Option<Stamp>;

    /// The object as it is in the cache.
    fn get(&self, key: &ObjectKey) -> Option<Object>;

    /// Tells `observer` of every change from now on, until it is gone; `token` is what the observer calls this cache.
    fn observe(&self, token: usize, observer: Weak<dyn Observer>);
}

/// An advance of a cache. The cache has it already.
#[derive(Clone, Copy, Debug)]
pub enum Advance<'a> {
    /// An event of the watch: the object is in this state now, or had it when it went. Told also of states that the cache
    /// had already, and before [`Advance::Version`] of the same event.
    Object {
        object: &'a Object,
        /// Whether it has gone.
        gone: bool,
    },
    /// An event or a bookmark has brought [`Progress::version`] forward.
    Version(&'a Version),
    /// A complete list was taken over; [`Progress::listed`], [`Progress::version`] and [`Progress::epoch`] are its own.
    Listed,
    /// Nothing more can be expected of this cache: its kind is not served any more, or its informer has ended. Should the
    /// kind come back, a list follows, in a new epoch.
    Lost,
}

/// An observer of caches.
pub trait Observer: Send + Sync {
    /// Called in the order of the changes by the task that makes them, under the lock that orders them: it must be
    /// quick, and must not subscribe, unsubscribe or wait. It may read the cache.
    fn advanced(&self, token: usize, advance: Advance<'_>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_in_the_order_in_which_they_are_taken() {
        let turns: Vec<_> = std::iter::repeat_with(Stamp::take).take(3).collect();
        assert!(turns.is_sorted_by(|a, b| a < b), "{turns:?}");
    }
}
