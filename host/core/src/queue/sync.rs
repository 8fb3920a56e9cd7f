//! The queue's lock. Under this crate's unit tests it is shuttle's, which tries the orders in which threads may take it;
//! nothing else in the queue lets threads meet.

#[cfg(test)]
use shuttle::sync::Mutex;
#[cfg(not(test))]
use std::sync::Mutex;
use std::sync::PoisonError;

/// A value that one thread at a time may touch.
pub(super) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// What `work` makes of the value.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // Nothing under this lock panics half-way through a change unless it is broken beyond repair anyway.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
