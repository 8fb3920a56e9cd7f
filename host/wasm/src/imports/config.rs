//! `config`: always empty, since this version takes no configuration of plugins.

use crate::abi::v0_1_0::bindings::windlass::plugin::config::Host;
use crate::state::CallState;

impl Host for CallState {
    fn get(&mut self) -> wasmtime::Result<String> {
        Ok("{}".to_owned())
    }
}
