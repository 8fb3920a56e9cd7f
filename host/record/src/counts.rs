//! The counts of a plugin's recording, which the recorder and the writer keep together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many calls of a plugin were recorded, and why others were not.
#[derive(Debug, Default)]
pub struct RecordingCounts {
    recorded: AtomicU64,
    dropped: AtomicU64,
    too_large: AtomicU64,
    stopped: AtomicBool,
}

impl RecordingCounts {
    /// Calls that were written.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::Relaxed)
    }

    /// Calls that were to be recorded and were not, because too many waited for the writer.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Calls that were to be recorded, and ask or are told too much.
    #[must_use]
    pub fn too_large(&self) -> u64 {
        self.too_large.load(Ordering::Relaxed)
    }

    /// Whether no further call is recorded, since writing has failed.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// One more call found no place with the writer.
    pub(crate) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// One more call was too large, or had too many secrets.
    pub(crate) fn count_too_large(&self) {
        self.too_large.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_recorded(&self) {
        self.recorded.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether it was not before.
    pub(crate) fn stop(&self) -> bool {
        !self.stopped.swap(true, Ordering::Relaxed)
    }
}
