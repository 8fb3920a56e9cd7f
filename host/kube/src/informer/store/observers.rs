//! The observers of a store's changes.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use windlass_core::object::progress::{Advance, Observer};

/// Those that are gone are dropped at the next change, or when another comes.
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

    /// Only the store's one writer tells, so that every observer hears of the changes in their order.
    pub(super) fn tell(&self, advance: Advance<'_>) {
        let present: Vec<_> = {
            let mut observers = self.lock();
            observers.retain(|(_, observer)| observer.strong_count() > 0);
            observers.iter().filter_map(|(token, observer)| Some((*token, observer.upgrade()?))).collect()
        };
        // Not under the lock: one that begins to observe another cache, or ends here, must not wait for itself.
        for (token, observer) in present {
            observer.advanced(token, advance);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Weak<dyn Observer>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
