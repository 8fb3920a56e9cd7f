//! `config`: the operator's configuration of the plugin at the start of the call. Empty in `describe`.

use crate::abi::v0_3_0::bindings::windlass::plugin::config::Host;
use crate::state::CallState;

impl Host for CallState {
    fn get(&mut self) -> wasmtime::Result<String> {
        self.note_import("config.get");
        let config = self.world.call().map_or_else(|| "{}".to_owned(), |call| call.config.to_string());
        self.meter.import_bytes(config.len());
        Ok(config)
    }
}
