//! Kubernetes Events. Sent later, perhaps merged with others or dropped; they never fail a call.

use crate::native::needs_host;

pub use crate::bindings::windlass::plugin::types::{Event, EventType};

/// Reports about the primary what was done. `reason` (why) and `action` (what) are CamelCase words for machines, `note`
/// is the text for people.
pub fn normal(reason: &str, action: &str, note: impl Into<String>) {
    emit(&about_primary(EventType::Normal, reason, action, note.into()));
}

/// Reports about the primary what someone should look at, in the words of [`normal`].
pub fn warning(reason: &str, action: &str, note: impl Into<String>) {
    emit(&about_primary(EventType::Warning, reason, action, note.into()));
}

/// Sends any event.
pub fn emit(event: &Event) {
    needs_host("events::emit");
    crate::bindings::windlass::plugin::events::emit(event);
}

fn about_primary(event_type: EventType, reason: &str, action: &str, note: String) -> Event {
    Event { regarding: None, related: None, event_type, reason: reason.to_owned(), action: action.to_owned(), note }
}
