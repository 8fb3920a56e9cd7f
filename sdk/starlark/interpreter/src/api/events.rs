//! Events: `event(…)` creates one, `events.emit` sends it, and a composition has a list of them.

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::structs::{AllocStruct, StructRef};
use starlark::values::{Heap, Value};
use windlass_sdk::bindings::windlass::plugin::types::{Event, EventType};

use crate::arguments::{misfit, reference, text, wrong};

#[starlark_module]
pub(crate) fn functions(builder: &mut GlobalsBuilder) {
    fn event<'v>(
        event_type: Value<'v>,
        reason: Value<'v>,
        action: Value<'v>,
        note: Value<'v>,
        regarding: Option<Value<'v>>,
        related: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let optional = |value: Option<Value<'v>>| value.unwrap_or_else(Value::new_none);
        let fields: SmallMap<&str, Value<'v>> = [
            ("event_type", event_type),
            ("reason", reason),
            ("action", action),
            ("note", note),
            ("regarding", optional(regarding)),
            ("related", optional(related)),
        ]
        .into_iter()
        .collect();
        let event = heap.alloc(AllocStruct(fields));
        // A mistake is reported at the line that creates the event.
        event_of(event, "event")?;
        Ok(event)
    }
}

#[cfg(feature = "reconciler")]
#[starlark_module]
pub(crate) fn emitting(builder: &mut GlobalsBuilder) {
    fn emit<'v>(#[starlark(require = pos)] event: Value<'v>) -> starlark::Result<starlark::values::none::NoneType> {
        super::in_call("events.emit")?;
        windlass_sdk::bindings::windlass::plugin::events::emit(&event_of(event, "the argument of events.emit")?);
        Ok(starlark::values::none::NoneType)
    }
}

/// Reads an event that a script has created.
pub(crate) fn event_of(value: Value<'_>, what: &str) -> starlark::Result<Event> {
    let wanted = "the result of event(…)";
    let fields = StructRef::from_value(value).ok_or_else(|| misfit(what, value, wanted))?;
    let field = |name: &str| {
        let found = fields.iter().find(|(field, _)| field.as_str() == name).map(|(_, value)| value);
        found.ok_or_else(|| misfit(what, value, wanted))
    };
    let words = |name: &str| text(field(name)?, &format!("`{name}` of {what}"));
    let target = |name: &str| {
        let found = Some(field(name)?).filter(|value| !value.is_none());
        found.map(|value| reference(value, &format!("`{name}` of {what}"))).transpose()
    };
    let event_type = match words("event_type")?.as_str() {
        "normal" => EventType::Normal,
        "warning" => EventType::Warning,
        other => return Err(wrong(format!("the type of an event is `normal` or `warning`, and not {other:?}"))),
    };
    Ok(Event {
        regarding: target("regarding")?,
        related: target("related")?,
        event_type,
        reason: words("reason")?,
        action: words("action")?,
        note: words("note")?,
    })
}
