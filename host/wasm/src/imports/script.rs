//! `script`: the text that the component carries for its interpreter. It is the same in every call.

use crate::abi::v0_3_0::script_bindings::windlass::plugin::script::Host;
use crate::state::{CallState, NoScript};

impl Host for CallState {
    fn text(&mut self) -> wasmtime::Result<String> {
        self.note_import("script.text");
        let script = self.script.clone().ok_or(NoScript)?;
        self.meter.import_bytes(script.len());
        Ok(script.to_string())
    }
}
