//! `metrics`: not implemented in this version. Values are counted and dropped; a plugin loses nothing but its graphs.

use crate::abi::v0_1_0::bindings::windlass::plugin::metrics::Host;
use crate::state::CallState;

type Labels = Vec<(String, String)>;

impl Host for CallState {
    fn add(&mut self, _: String, _: f64, _: Labels) -> wasmtime::Result<()> {
        drop_value(self, "metrics.add")
    }

    fn set(&mut self, _: String, _: f64, _: Labels) -> wasmtime::Result<()> {
        drop_value(self, "metrics.set")
    }

    fn observe(&mut self, _: String, _: f64, _: Labels) -> wasmtime::Result<()> {
        drop_value(self, "metrics.observe")
    }
}

fn drop_value(state: &mut CallState, import: &'static str) -> wasmtime::Result<()> {
    let world = state.reconcile(import)?;
    if world.counters.metric_dropped() {
        tracing::warn!(
            plugin = &*world.call.principal.plugin,
            "metrics of plugins are not implemented in this version: the values are counted and dropped"
        );
    }
    Ok(())
}
