//! Kubernetes Events. The host sends them later, and may merge or drop them; they never make a call fail.

use crate::object::ObjectRef;

pub use crate::bindings::windlass::plugin::types::{Event, EventType};

impl Event {
    /// A normal event about the primary. `reason` (why) and `action` (what) are in CamelCase for machines, and `note`
    /// is the text for people.
    pub fn normal(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            regarding: None,
            related: None,
            event_type: EventType::Normal,
            reason: reason.into(),
            action: action.into(),
            note: note.into(),
        }
    }

    /// A warning about the primary. The arguments are those of [`normal`](Self::normal).
    pub fn warning(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self { event_type: EventType::Warning, ..Self::normal(reason, action, note) }
    }

    /// Sets the object that the event is about, instead of the primary. It must be in the primary's namespace unless
    /// the primary is cluster-scoped.
    #[must_use]
    pub fn regarding(self, object: ObjectRef) -> Self {
        Self { regarding: Some(object), ..self }
    }

    /// Adds a second, related object.
    #[must_use]
    pub fn related(self, object: ObjectRef) -> Self {
        Self { related: Some(object), ..self }
    }
}

/// Sends a normal event about the primary. The arguments are those of [`Event::normal`].
pub fn normal(reason: &str, action: &str, note: impl Into<String>) {
    emit(&Event::normal(reason, action, note));
}

/// Sends a warning about the primary. The arguments are those of [`Event::normal`].
pub fn warning(reason: &str, action: &str, note: impl Into<String>) {
    emit(&Event::warning(reason, action, note));
}

/// Sends any event.
pub fn emit(event: &Event) {
    crate::native::events::emit(event);
}
