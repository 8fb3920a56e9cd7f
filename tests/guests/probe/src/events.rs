//! `events`: they are sent later, if at all, so there is no result.

use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::bindings::windlass::plugin::{events, types};

use crate::script::read;
use crate::wire::{Answer, ObjectRef};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Emit {
    event: Event,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(clippy::struct_field_names, reason = "the names of WIT")]
struct Event {
    regarding: Option<ObjectRef>,
    related: Option<ObjectRef>,
    #[serde(default)]
    event_type: EventType,
    reason: String,
    action: String,
    note: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum EventType {
    #[default]
    Normal,
    Warning,
}

pub(crate) fn call(function: &str, arguments: Value) -> Option<Answer> {
    if function != "emit" {
        return None;
    }
    let event = read::<Emit>("events.emit", arguments).event;
    events::emit(&types::Event {
        regarding: event.regarding.map(Into::into),
        related: event.related.map(Into::into),
        event_type: match event.event_type {
            EventType::Normal => types::EventType::Normal,
            EventType::Warning => types::EventType::Warning,
        },
        reason: event.reason,
        action: event.action,
        note: event.note,
    });
    Some(Ok(Value::Null))
}
