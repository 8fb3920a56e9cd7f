//! `clock`: the real time in `reconcile`, the time of the start in `compose`, and a fixed time in `describe`.

use crate::abi::v0_3_0::bindings::windlass::plugin::clock::{Host, Instant};
use crate::state::CallState;

impl Host for CallState {
    fn now(&mut self) -> wasmtime::Result<Instant> {
        self.note_import("clock.now");
        let now = self.now();
        // Sufficient until 2106.
        let seconds = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        Ok(Instant { seconds, nanoseconds: now.subsec_nanos() })
    }
}
