//! The lock of the queue and of the gate. Under this crate's unit tests it is shuttle's, which tries the orders in
//! which threads may take it; nothing else in the two lets threads meet.

#[cfg(test)]
use shuttle::sync::Mutex;
#[cfg(not(test))]
use std::sync::Mutex;
use std::sync::PoisonError;

/// A value that one thread at a time may touch.
pub(crate) struct StateLock<T>(Mutex<T>);

impl<T> StateLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Runs `work` on the value, and returns its result.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // Nothing under this lock panics half-way through a change unless it is broken beyond repair anyway.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
