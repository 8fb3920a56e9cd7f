//! `events`: passed to the port, which sends them later.

use crate::abi::v0_3_0::bindings::windlass::plugin::events::Host;
use crate::abi::v0_3_0::bindings::windlass::plugin::types;
use crate::abi::v0_3_0::convert;
use crate::state::CallState;

impl Host for CallState {
    fn emit(&mut self, event: types::Event) -> wasmtime::Result<()> {
        let world = self.enter("events.emit")?;
        match convert::event(event) {
            Ok(event) => world.ports.events.emit(&world.call, event),
            // An event never fails a call.
            Err(reason) => tracing::debug!(
                plugin = &*world.call.principal.plugin,
                controller = &*world.call.controller,
                key = %world.call.primary_key,
                "dropped an event of the plugin: {reason}"
            ),
        }
        Ok(())
    }
}
