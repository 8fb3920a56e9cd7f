//! A cache without objects, for tests of code that waits for a cache.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use super::{Advance, Observer, Progress, Stamp};
use crate::object::compact::Version;
use crate::object::{Object, ObjectKey};

/// A cache at a version, which advances on request. It contains no object and was never listed. Its versions can be
/// compared.
pub struct Reached {
    version: Mutex<Version>,
    observers: Mutex<Vec<(usize, Weak<dyn Observer>)>>,
}

impl Reached {
    /// A cache at `version`.
    #[must_use]
    pub fn at(version: &str) -> Self {
        Self { version: Mutex::new(version.into()), observers: Mutex::default() }
    }

    /// Advances to `version`, as by a bookmark.
    pub fn reach(&self, version: &str) {
        *locked(&self.version) = version.into();
        let observers = locked(&self.observers).clone();
        for (token, observer) in observers {
            if let Some(observer) = observer.upgrade() {
                observer.advanced(token, Advance::Version(&version.into()));
            }
        }
    }
}

impl fmt::Debug for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reached").field("version", &*locked(&self.version)).finish_non_exhaustive()
    }
}

impl Progress for Reached {
    fn version(&self) -> Option<Version> {
        Some(locked(&self.version).clone())
    }

    fn is_comparable(&self) -> bool {
        true
    }

    fn epoch(&self) -> u64 {
        0
    }

    fn listed(&self) -> Option<Stamp> {
        None
    }

    fn get(&self, _: &ObjectKey) -> Option<Object> {
        None
    }

    fn observe(&self, token: usize, observer: Weak<dyn Observer>) {
        locked(&self.observers).push((token, observer));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
