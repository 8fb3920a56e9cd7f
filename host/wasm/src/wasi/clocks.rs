//! `wasi:clocks`: the clocks of the call, as in the plugin's own import.
//!
//! The monotonic clock counts as the time too: a plugin that ends when its time is spent decides by it, some generators
//! are seeded with it, and in `compose` it is the time of day. A pollable says whether its time has come.

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
        self.world.gets_time();
        Ok(self.monotonic())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(1)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.world.gets_time();
        self.pollable_from(when)
    }

    fn subscribe_duration(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.world.gets_time();
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng as _;
    use rand::rngs::StdRng;
    use windlass_core::call::ports::CallContext;
    use windlass_core::call::read_tracker::{ReadTracker, Spoiler};
    use windlass_core::object::{ObjectKey, ObjectKind};
    use windlass_core::rights::principal::Principal;

    use super::*;
    use crate::counters::PluginCounters;
    use crate::limits::Limits;
    use crate::meter::tests::meter;
    use crate::state::{AnswerWorld, World};

    #[test]
    fn the_monotonic_clock_of_a_composer_spoils_its_call() {
        let calls: [fn(&mut CallState); 3] = [
            |state| drop(monotonic_clock::Host::now(state)),
            |state| drop(monotonic_clock::Host::subscribe_instant(state, 1)),
            |state| drop(monotonic_clock::Host::resolution(state)),
        ];
        let spoiled = calls.map(|asks| {
            let (plugin, reads) = (Principal::of_plugin("guest", "0123456789ab", "test"), ReadTracker::begin());
            let (kind, key) = (ObjectKind::new("v1", "ConfigMap"), ObjectKey::namespaced("prod", "shop"));
            let call = CallContext { reads: reads.clone(), ..CallContext::detached(plugin, "guest", kind, key) };
            let world = AnswerWorld {
                export: "compose",
                reads: None,
                call: Arc::new(call),
                counters: Arc::new(PluginCounters::new(&Limits::default())),
                now: Duration::from_hours(1),
                random: StdRng::from_seed([0; 32]),
            };
            let world = World::Answer(Box::new(world));
            asks(&mut CallState::new(meter(Limits::default()), world, None, wasmtime::Engine::default()));
            reads.end().expect("it is on").spoiled
        });
        assert_eq!(spoiled, [Some(Spoiler::Clock), Some(Spoiler::Clock), None]);
    }
}
