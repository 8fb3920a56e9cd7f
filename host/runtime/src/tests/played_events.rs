//! Records Events, for the tests of guards.

use std::sync::Mutex;

use windlass_core::call::ports::{CallContext, Event, EventType, Events};

/// Records the warnings that are emitted.
#[derive(Default)]
pub(crate) struct PlayedEvents(Mutex<Vec<(String, String)>>);

impl PlayedEvents {
    /// The reason and the note of each warning.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Events for PlayedEvents {
    fn emit(&self, _: &CallContext, event: Event) {
        assert_eq!((event.event_type, event.regarding), (EventType::Warning, None));
        self.0.lock().expect("no panic").push((event.reason, event.note));
    }
}
