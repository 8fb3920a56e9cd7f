//! The lock of the queue and of the gate. In unit tests it is shuttle's lock, which tries the orders in which threads
//! may take it. Queue and gate share no other state between threads.

#[cfg(test)]
use shuttle::sync::Mutex;
#[cfg(not(test))]
use std::sync::Mutex;
use std::sync::PoisonError;

/// A value that only one thread at a time may access.
pub(crate) struct StateLock<T>(Mutex<T>);

impl<T> StateLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Runs `work` on the value and returns its result.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // A panic under this lock would mean that the state is broken beyond repair anyway.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
