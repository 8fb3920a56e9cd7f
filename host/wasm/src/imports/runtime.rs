//! `runtime`: the time and a seed for the runtime of the guest's language, which the guest has not asked for. So they
//! do not spoil the call, unless the guest says that its plugin got them (ADR 46).

use crate::abi::v0_3_0::runtime_bindings::windlass::plugin::runtime::Host;
use crate::state::CallState;

impl Host for CallState {
    fn time(&mut self) -> wasmtime::Result<u64> {
        self.note_import("runtime.time");
        // Sufficient until 2554.
        Ok(u64::try_from(CallState::time(self).as_nanos()).unwrap_or(u64::MAX))
    }

    fn seed(&mut self) -> wasmtime::Result<u64> {
        self.note_import("runtime.seed");
        Ok(self.world.seed())
    }

    fn saw_time(&mut self) -> wasmtime::Result<()> {
        self.note_import("runtime.saw-time");
        self.world.gets_time();
        Ok(())
    }

    fn saw_random(&mut self) -> wasmtime::Result<()> {
        self.note_import("runtime.saw-random");
        self.world.gets_chance();
        Ok(())
    }
}
