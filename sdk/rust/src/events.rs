//! Kubernetes Events. Sent later, perhaps merged with others or dropped; they never fail a call.

use crate::object::ObjectRef;

pub use crate::bindings::windlass::plugin::types::{Event, EventType};

impl Event {
    /// An event about the primary that says what was done. `reason` (why) and `action` (what) are CamelCase words for
    /// machines, `note` is the text for people.
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

    /// An event about the primary that says what someone should look at, in the words of [`normal`](Self::normal).
    pub fn warning(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self { event_type: EventType::Warning, ..Self::normal(reason, action, note) }
    }

    /// The same about another object than the primary, which must be in the primary's namespace unless the primary is
    /// cluster-scoped.
    #[must_use]
    pub fn regarding(self, object: ObjectRef) -> Self {
        Self { regarding: Some(object), ..self }
    }

    /// The same with a second object that has to do with it.
    #[must_use]
    pub fn related(self, object: ObjectRef) -> Self {
        Self { related: Some(object), ..self }
    }
}

/// Reports about the primary what was done, in the words of [`Event::normal`].
pub fn normal(reason: &str, action: &str, note: impl Into<String>) {
    emit(&Event::normal(reason, action, note));
}

/// Reports about the primary what someone should look at, in the words of [`Event::normal`].
pub fn warning(reason: &str, action: &str, note: impl Into<String>) {
    emit(&Event::warning(reason, action, note));
}

/// Sends any event.
pub fn emit(event: &Event) {
    crate::native::events::emit(event);
}
