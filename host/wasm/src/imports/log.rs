//! `log`: writes the guest's lines to the host's log.

use tracing::Level;

use crate::abi::v0_3_0::bindings::windlass::plugin::log::{Host, Level as WitLevel};
use crate::lines;
use crate::state::CallState;
use crate::text;

impl Host for CallState {
    fn log(&mut self, level: WitLevel, message: String, fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        self.note_import("log.log");
        let of_fields: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.meter.import_bytes(message.len() + of_fields);
        let limit = self.meter.limits().log_line_bytes;
        if !self.looks_for_secrets_in(message.len(), matches!(level, WitLevel::Error)) {
            self.meter.drop_log_line();
            return Ok(());
        }
        // Secrets are redacted before the text is truncated, because a part of a secret would not be found.
        let message = text::single_line(&self.redacted(&message), limit);
        if self.world.call().is_none() {
            // `describe` may not log. A `describe` that logs is refused only when it has ended, so that the error has
            // the whole text: it may be the message of a panic, which some runtimes print piece by piece.
            self.note_said("log.log", &message);
            return Ok(());
        }
        if matches!(level, WitLevel::Error) {
            self.note_error(message.clone());
        }
        let fields = text::fields(&fields, limit / 2, |text| self.redacted(text));
        lines::log(self, to_level(level), &message, &fields);
        Ok(())
    }
}

fn to_level(level: WitLevel) -> Level {
    match level {
        WitLevel::Trace => Level::TRACE,
        WitLevel::Debug => Level::DEBUG,
        WitLevel::Info => Level::INFO,
        WitLevel::Warn => Level::WARN,
        WitLevel::Error => Level::ERROR,
    }
}
