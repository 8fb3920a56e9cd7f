//! `wasi:clocks`: the clocks of the call, as the plugin's own import has them.

use std::time::Duration;

use wasmtime::component::Resource;

use super::bindings::wasi::clocks::{monotonic_clock, wall_clock};
use super::bindings::wasi::io::poll::Pollable;
use crate::state::CallState;
use crate::wasi_state::{Item, WasiError};

impl wall_clock::Host for CallState {
    fn now(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        let now = CallState::now(self);
        Ok(wall_clock::Datetime { seconds: now.as_secs(), nanoseconds: now.subsec_nanos() })
    }

    fn resolution(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        Ok(wall_clock::Datetime { seconds: 0, nanoseconds: 1 })
    }
}

impl monotonic_clock::Host for CallState {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.monotonic())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(1)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<Pollable>> {
        Ok(Resource::new_own(self.wasi().give(Item::Pollable(when))?))
    }

    fn subscribe_duration(&mut self, when: u64) -> wasmtime::Result<Resource<Pollable>> {
        let now = self.monotonic();
        self.subscribe_instant(now.saturating_add(when))
    }
}

/// Waits until the monotonic clock shows `when`: not at all where time stands still, for it passes at once then.
pub(super) async fn wait_until(state: &mut CallState, when: u64) -> wasmtime::Result<()> {
    let left = Duration::from_nanos(when.saturating_sub(state.monotonic()));
    if left.is_zero() || state.passes_at_once(left) {
        return Ok(());
    }
    // After each it queues for its CPU permit with its clock stopped, so they are counted.
    state.meter.host_call()?;
    if state.meter.memory().has_kept_back() {
        return Err(WasiError::Rests.into());
    }
    let time = state.meter.time().clone();
    state.waiting_in = Some("wasi:io/poll");
    time.resting_for(tokio::time::sleep(left)).await;
    state.waiting_in = None;
    Ok(())
}
