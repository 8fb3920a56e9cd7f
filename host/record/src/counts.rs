//! The counters of a plugin's recording, shared by the recorder and the writer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The number of recorded calls of a plugin, and of calls that were not recorded, by cause.
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

    /// Sampled calls that were dropped because too many waited for the writer.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Sampled calls with too many imports or too much data.
    #[must_use]
    pub fn too_large(&self) -> u64 {
        self.too_large.load(Ordering::Relaxed)
    }

    /// Whether recording has stopped because a write failed.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Counts a call that found no room in the writer's queue.
    pub(crate) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that was too large or had too many secrets.
    pub(crate) fn count_too_large(&self) {
        self.too_large.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_recorded(&self) {
        self.recorded.fetch_add(1, Ordering::Relaxed);
    }

    /// Marks the recording as stopped. Returns false if it was stopped already.
    pub(crate) fn stop(&self) -> bool {
        !self.stopped.swap(true, Ordering::Relaxed)
    }
}
