//! `triggers`: the reasons for the call.

use crate::abi::v0_3_0::bindings::windlass::plugin::triggers::{Host, Trigger};
use crate::abi::v0_3_0::convert;
use crate::state::CallState;

impl Host for CallState {
    fn list(&mut self) -> wasmtime::Result<Vec<Trigger>> {
        let world = self.enter("triggers.list")?;
        Ok(world.call.triggers.iter().map(convert::trigger).collect())
    }
}
