//! `log`: the guest's lines as events of `tracing`, with target `windlass::plugin` and what the host knows beside them.

use tracing::Level;
use windlass_core::ports::CallContext;

use crate::abi::v0_1_0::bindings::windlass::plugin::log::{Host, Level as WitLevel};
use crate::state::CallState;
use crate::text;

impl Host for CallState {
    fn log(&mut self, level: WitLevel, message: String, fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        let limit = self.meter.limits().log_line_bytes;
        let message = text::single_line(&message, limit);
        if self.world.call().is_none() {
            // Refused when `describe` has ended: it may be a runtime, whose words of a panic come one by one.
            self.note_said(&message);
            return Ok(());
        }
        if matches!(level, WitLevel::Error) {
            self.note_error(message.clone());
        }
        let fields = text::fields(&fields, limit / 2);
        let bytes = message.len() + fields.as_ref().map_or(0, String::len);
        if self.meter.log_line(bytes) {
            let is_within = self.world.counters().is_none_or(|plugin| plugin.log_line(self.meter.limits(), bytes));
            match self.world.call() {
                Some(call) if is_within => emit(call, level, &message, fields.as_deref()),
                _ => self.meter.drop_log_line(),
            }
        }
        Ok(())
    }
}

/// The level of an event is part of its type, hence a match.
fn emit(call: &CallContext, level: WitLevel, message: &str, fields: Option<&str>) {
    macro_rules! at {
        ($level:expr) => {
            tracing::event!(
                target: "windlass::plugin",
                // It says itself what the span of the worker, in whose place it runs, would add.
                parent: None,
                $level,
                plugin = &*call.principal.plugin,
                controller = &*call.controller,
                key = %call.primary_key,
                trace_id = &*call.trace_id,
                fields,
                "{message}"
            )
        };
    }
    match level {
        WitLevel::Trace => at!(Level::TRACE),
        WitLevel::Debug => at!(Level::DEBUG),
        WitLevel::Info => at!(Level::INFO),
        WitLevel::Warn => at!(Level::WARN),
        WitLevel::Error => at!(Level::ERROR),
    }
}
