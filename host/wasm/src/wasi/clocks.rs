//! `wasi:clocks`: the clocks of the call, as in the plugin's own import.

use std::sync::Arc;

use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

use crate::state::CallState;
use crate::wasi_state::Timer;

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

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.pollable_from(when)
    }

    fn subscribe_duration(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let now = self.monotonic();
        self.pollable_from(now.saturating_add(when))
    }
}

impl CallState {
    /// A pollable that is ready from `when` on, by the monotonic clock.
    pub(super) fn pollable_from(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let wasi = self.wasi();
        let time = wasi.table.push(Time { when, timer: wasi.timer.clone() })?;
        subscribe(&mut wasi.table, time)
    }
}

/// A time of the monotonic clock, in nanoseconds. Before this time is polled, [`Timer::show`] must be called with the
/// present time.
struct Time {
    when: u64,
    timer: Arc<Timer>,
}

#[async_trait::async_trait]
impl Pollable for Time {
    async fn ready(&mut self) {
        if !self.timer.has_reached(self.when) {
            std::future::pending::<()>().await;
        }
    }
}
