//! Writes the lines of a guest to the host's log: events of `tracing` with target `windlass::plugin` and additional
//! fields of the host. Each line is charged to the budgets of its call and its plugin; further lines are dropped and
//! counted.

use tracing::Level;
use windlass_core::call::ports::CallContext;

use crate::state::CallState;
use crate::text;

/// Logs `message` and `fields`, each of which is a single line. From INFO on, the call keeps the line too, whatever the
/// host's log level is.
pub(crate) fn log(state: &mut CallState, level: Level, message: &str, fields: &[(String, String)]) {
    let listed = text::list(fields);
    let bytes = message.len() + listed.as_deref().map_or(0, str::len);
    if state.meter.log_line(bytes) {
        let is_within = state.world.counters().is_none_or(|plugin| plugin.log_line(bytes));
        match state.world.call() {
            Some(call) if is_within => {
                if level <= Level::INFO {
                    call.lines.add(level.as_str(), &readable(message, fields));
                }
                emit(call, level, message, listed.as_deref());
            }
            _ => state.meter.drop_log_line(),
        }
    }
}

/// `message` and its fields in readable form: `scaling replicas=3`.
fn readable(message: &str, fields: &[(String, String)]) -> String {
    fields.iter().fold(message.to_owned(), |text, (name, value)| text + " " + name + "=" + value)
}

/// Logs `message` at `level`. In `tracing`, the level is part of an event's type, so this is a match.
fn emit(call: &CallContext, level: Level, message: &str, fields: Option<&str>) {
    macro_rules! at {
        ($level:expr) => {
            tracing::event!(
                target: "windlass::plugin",
                // The event needs no parent: it has all the fields that the worker's span would add.
                parent: None,
                $level,
                plugin = &*call.principal.plugin,
                controller = &*call.controller,
                key = %call.primary_key,
                trace_id = &*call.trace_id,
                // Marks the lines of a shadow, because they may be equal to the lines of the plugin that it follows.
                role = call.principal.role.name(),
                fields,
                "{message}"
            )
        };
    }
    match level {
        Level::TRACE => at!(Level::TRACE),
        Level::DEBUG => at!(Level::DEBUG),
        Level::INFO => at!(Level::INFO),
        Level::WARN => at!(Level::WARN),
        Level::ERROR => at!(Level::ERROR),
    }
}
