//! Changes that wait until the plugin's own code is asked about them.

use std::collections::VecDeque;

use windlass_core::cache::watch::WatchEvent;

/// The maximum number of events that wait. Each is kept with the previous state of its object.
pub(crate) const WAITING_EVENTS_MAX: usize = 1_024;

/// The changes of one watch that wait, in order.
#[derive(Debug, Default)]
pub(crate) struct WaitingChanges {
    events: VecDeque<WatchEvent>,
    /// True if every primary must run, because some change could not be mapped.
    pub(crate) missed: bool,
}

impl WaitingChanges {
    /// Adds a change. If there is no room for it and the declared mapping finds its primaries, returns the oldest
    /// change, which the caller must map. If an unmapped change `runs_all` primaries, drops the changes, and every
    /// primary must run. These runs see everything up to now.
    #[must_use = "the returned change is not kept"]
    pub(crate) fn hold(&mut self, event: WatchEvent, runs_all: bool) -> Option<WatchEvent> {
        if self.events.len() < WAITING_EVENTS_MAX {
            self.events.push_back(event);
            return None;
        }
        if runs_all {
            self.clear();
            self.missed = true;
            return None;
        }
        self.events.push_back(event);
        self.events.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn clear(&mut self) {
        self.events.clear();
    }

    /// Drops the changes that are not `wanted`.
    pub(super) fn retain(&mut self, wanted: impl FnMut(&WatchEvent) -> bool) {
        self.events.retain(wanted);
    }

    pub(super) fn next(&mut self) -> Option<WatchEvent> {
        self.events.pop_front()
    }

    /// Puts back a change that was not handled.
    pub(super) fn put_back(&mut self, event: WatchEvent) {
        self.events.push_front(event);
    }

    /// Takes all changes.
    pub(crate) fn take(&mut self) -> VecDeque<WatchEvent> {
        std::mem::take(&mut self.events)
    }
}
