//! The observers of a store's changes.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use windlass_core::object::progress::{Advance, Observer};

/// Observers that are gone are removed at the next change, or when another one is added.
#[derive(Default)]
pub(super) struct Observers(Mutex<Vec<(usize, Weak<dyn Observer>)>>);

impl Observers {
    pub(super) fn add(&self, token: usize, observer: Weak<dyn Observer>) {
        let mut observers = self.lock();
        observers.retain(|(_, observer)| observer.strong_count() > 0);
        observers.push((token, observer));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Called only by the store's single writer, so that every observer receives the changes in order.
    pub(super) fn notify(&self, advance: Advance<'_>) {
        let present: Vec<_> = {
            let mut observers = self.lock();
            observers.retain(|(_, observer)| observer.strong_count() > 0);
            observers.iter().filter_map(|(token, observer)| Some((*token, observer.upgrade()?))).collect()
        };
        // Called without the lock, because an observer may register another one or drop itself, and would then wait for
        // itself.
        for (token, observer) in present {
            observer.advanced(token, advance);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Weak<dyn Observer>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
