//! `script`: the text that the component carries for its interpreter, the same in every call.

use crate::abi::v0_2_0::script_bindings::windlass::plugin::script::Host;
use crate::state::{CallState, NoScript};

impl Host for CallState {
    fn text(&mut self) -> wasmtime::Result<String> {
        self.note_import("script.text");
        let script = self.script.as_deref().ok_or(NoScript)?;
        Ok(script.to_owned())
    }
}
