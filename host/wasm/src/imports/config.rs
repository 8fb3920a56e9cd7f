//! `config`: the operator's configuration of the plugin, as it was when the call began; empty in `describe`.

use crate::abi::v0_1_0::bindings::windlass::plugin::config::Host;
use crate::state::{CallState, World};

impl Host for CallState {
    fn get(&mut self) -> wasmtime::Result<String> {
        match &self.world {
            World::Describe(_) => Ok("{}".to_owned()),
            World::Reconcile(_) => Ok(self.enter("config.get")?.call.config.to_string()),
        }
    }
}
